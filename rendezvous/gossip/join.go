package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/secret"
)

// growthInterval is the pause between two look-ups of a name while more of its addresses
// are awaited.
const growthInterval = time.Second

// join joins the agents at the endpoints until one answers, and again every
// rejoinInterval.
// Gossip does not heal a cut network by itself. An endpoint's agent may also be
// replaced long before memberlist declares the old one lost.
func (g *Gossip) join(ctx context.Context) {
	wait, idle := 5*time.Millisecond, time.Duration(0)
	for {
		served, few := g.servedEndpoints()
		if len(served) == 0 || idle >= rejoinInterval || idle >= growthInterval && g.growing() {
			idle = 0
			for i := range g.cfg.Endpoints.List {
				if i == g.Serves() {
					g.joinOwn(ctx, i)
				} else if few || !served[i] || g.isSeveral(i) {
					g.noteTrouble(g.cfg.Endpoints.List[i], g.joinEndpoint(ctx, i))
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

// isName reports whether an endpoint is a name that may stand for other nodes later.
func (g *Gossip) isName(i int) bool {
	_, err := netip.ParseAddrPort(g.cfg.Endpoints.List[i])
	return err != nil && g.cfg.Endpoints.Lookup != nil
}

// isSeveral reports whether an endpoint stands for several nodes.
func (g *Gossip) isSeveral(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names.found[i].Several
}

// joinOwn joins the other nodes of the endpoint that this agent serves, if the endpoint
// stands for several. That nothing answers there is no trouble: the others come here.
func (g *Gossip) joinOwn(ctx context.Context, i int) {
	if !g.isName(i) {
		return
	}
	if found, err := g.lookUp(ctx, i); err == nil && found.Several {
		others, _, _ := g.places(found)
		_ = g.joinPlaces(g.cfg.Endpoints.List[i], others)
	}
}

// joinEndpoint joins at the addresses of an endpoint. DNS may not know the endpoint's
// name yet, and some of its addresses may not answer. If this agent has one of the
// addresses, it serves the endpoint from then on.
func (g *Gossip) joinEndpoint(ctx context.Context, i int) error {
	endpoint := g.cfg.Endpoints.List[i]
	found, err := g.lookUp(ctx, i)
	if err != nil {
		return err
	}
	others, own, here := g.places(found)
	if here && g.Serves() < 0 && endpoint != g.unboundEndpoint && g.isName(i) {
		err = g.serve(i, own)
	}
	if here && g.Serves() < 0 { // another agent of this node has the port, or another program
		others = append(others, own)
	}
	if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot open the endpoint's port: %w", err)
	}
	return g.joinPlaces(endpoint, others)
}

// joinPlaces joins at these addresses of an endpoint, at all of them at the same time. An
// agent that knows many others leaves out the addresses of those.
func (g *Gossip) joinPlaces(endpoint string, places []netip.AddrPort) error {
	if _, few := g.servedEndpoints(); !few && len(places) > 1 {
		served := g.servedHosts()
		places = slices.DeleteFunc(places, func(at netip.AddrPort) bool { return served[at.Addr()] })
	}
	if len(places) == 0 {
		return nil
	}
	errs := make([]error, len(places))
	var wg sync.WaitGroup
	for i, at := range places {
		wg.Go(func() { _, errs[i] = g.list.Join([]string{at.String()}) })
	}
	wg.Wait()
	if slices.Contains(errs, nil) || g.foreign() != nil {
		return nil
	}
	return g.explain(endpoint, places[0], errs[0])
}

// explain says why nothing could be joined at an address of an endpoint.
func (g *Gossip) explain(endpoint string, at netip.AddrPort, err error) error {
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) && len(many.WrappedErrors()) > 0 {
		err = many.WrappedErrors()[0]
	}
	if isKeyMismatch(err.Error()) {
		g.reportKeyMismatch(hostOf(endpoint), endpoint)
		return &secret.Mismatch{At: endpoint}
	}
	if strings.Contains(err.Error(), errCompressed.Error()) { // memberlist keeps only the text of errors
		g.failJoin(otherProgram(endpoint, errCompressed))
	}
	switch {
	case !isDialError(err): // it accepts connections and does not answer as memberlist does
		err = fmt.Errorf("%s is in use, but %w; is it another program's port? (%w)", endpoint, errNoGorun, err)
	case endpoint == g.unboundEndpoint && g.isUDPPortInUse(at.Port()):
		err = fmt.Errorf("another program has the UDP port of %s, and %w (%w)", endpoint, errNoGorun, err)
	}
	return err
}

// hostOf returns the host of an endpoint.
func hostOf(endpoint string) string {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return endpoint
	}
	return host
}

// isUDPPortInUse reports whether a program on this node has the port for UDP. A gorun
// would have the port for TCP, too.
func (g *Gossip) isUDPPortInUse(port uint16) bool {
	c, err := net.ListenPacket("udp", net.JoinHostPort(g.cfg.Bind, strconv.Itoa(int(port))))
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
	return len(g.cfg.Endpoints.List) == 1 && !g.seen.foundPeer && !since.IsZero() && now.Sub(since) >= noGorunLimit
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
