package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/secret"
)

// join joins the agents at the endpoints until one answers, and again every
// rejoinInterval.
// Gossip does not heal a cut network by itself. An endpoint's agent may also be
// replaced long before memberlist declares the old one lost.
func (g *Gossip) join(ctx context.Context) {
	wait, idle := 5*time.Millisecond, time.Duration(0)
	for {
		if served, few := g.servedEndpoints(); len(served) == 0 || idle >= rejoinInterval {
			idle = 0
			for i, e := range g.cfg.Endpoints {
				if i != g.cfg.Serves && (few || !served[i]) {
					g.noteTrouble(e, g.joinEndpoint(ctx, e))
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			idle += wait
			wait = min(2*wait, 500*time.Millisecond)
		}
	}
}

// maxLost bounds the addresses that findLost remembers.
const maxLost = 256

// findLost joins the agents that were seen and left, one at a time. memberlist forgets
// lost agents. Without findLost, two parts of a cut network that both have no endpoint
// would not find each other when the network heals.
func (g *Gossip) findLost(ctx context.Context) {
	for pause(ctx, rejoinInterval); ctx.Err() == nil; pause(ctx, rejoinInterval) {
		g.mu.Lock()
		var id rendezvous.NodeID
		var at string
		for id, at = range g.seen.lost { // any
			break
		}
		g.mu.Unlock()
		if at == "" {
			continue
		}
		if _, err := g.list.Join([]string{at}); err == nil || strings.Contains(err.Error(), syscall.ECONNREFUSED.Error()) {
			g.mu.Lock()
			delete(g.seen.lost, id) // found, or its process has ended
			g.mu.Unlock()
		}
	}
}

// joinEndpoint joins at all addresses of an endpoint. DNS may not know the endpoint's
// name yet, and some of its addresses may not answer.
func (g *Gossip) joinEndpoint(ctx context.Context, endpoint string) error {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return fmt.Errorf("cannot resolve the endpoint: %w", err)
	}
	for i := range ips {
		ips[i] = net.JoinHostPort(ips[i], port)
	}
	n, err := g.list.Join(ips)
	if n > 0 || g.foreign() != nil {
		return nil
	}
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) && len(many.WrappedErrors()) > 0 {
		err = many.WrappedErrors()[0]
	}
	if err != nil && isKeyMismatch(err.Error()) {
		g.reportKeyMismatch(host, endpoint)
		return &secret.Mismatch{At: endpoint}
	}
	if err != nil && strings.Contains(err.Error(), errCompressed.Error()) { // memberlist keeps only the text of errors
		g.failJoin(otherProgram(endpoint, errCompressed))
	}
	switch {
	case err == nil:
	case isDialError(err):
		if endpoint == g.unboundEndpoint && g.isUDPPortInUse(port) {
			err = fmt.Errorf("another program has the UDP port of %s, and %w (%w)", endpoint, errNoGorun, err)
		}
	default: // it accepts connections and does not answer as memberlist does
		err = fmt.Errorf("%s is in use, but %w; is it another program's port? (%w)", endpoint, errNoGorun, err)
	}
	return err
}

// isUDPPortInUse reports whether a program on this node has the port for UDP. A gorun
// would have the port for TCP, too.
func (g *Gossip) isUDPPortInUse(port string) bool {
	c, err := net.ListenPacket("udp", net.JoinHostPort(g.cfg.Bind, port))
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

var errNoGorun = errors.New("no gorun answers there")

// noGorunLimit is how long a port of this node may answer unlike a gorun before it
// counts as another program's. An agent that is ending or slow answers so, too.
const noGorunLimit = 2 * time.Second

// isPortTaken reports whether another program has the port of the only endpoint, which
// this agent should serve. An agent that has seen others of its run can do without the
// port.
func (g *Gossip) isPortTaken(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.endpoint.noGorunSince
	return len(g.cfg.Endpoints) == 1 && !g.seen.foundPeer && !since.IsZero() && now.Sub(since) >= noGorunLimit
}

// noteTrouble keeps why an endpoint did not answer, for the user; err is nil if it did.
func (g *Gossip) noteTrouble(endpoint string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case endpoint != g.unboundEndpoint || !errors.Is(err, errNoGorun):
		g.endpoint.noGorunSince = time.Time{}
	case g.endpoint.noGorunSince.IsZero():
		g.endpoint.noGorunSince = time.Now()
	}
	g.endpoint.trouble = ""
	if err != nil {
		g.endpoint.trouble = strings.TrimSpace(err.Error())
		g.wake()
	}
}
