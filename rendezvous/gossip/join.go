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

// join asks the endpoints until one answers, and again now and then. Gossip never
// heals a cut by itself, and an endpoint's agent may be started anew, long before its
// predecessor is given up.
func (g *Gossip) join(ctx context.Context) {
	wait, idle := 5*time.Millisecond, time.Duration(0)
	for {
		if by, few := g.served(); len(by) == 0 || idle >= rejoin {
			idle = 0
			for i, e := range g.cfg.Endpoints {
				if i != g.cfg.Serves && (few || !by[i]) {
					g.report(e, g.ask(ctx, e))
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

// findLost asks agents that are not seen any more, one at a time. memberlist forgets
// lost agents. Without these questions, two parts of a cut network that both have no
// endpoint would not find each other when the network heals.
func (g *Gossip) findLost(ctx context.Context) {
	for pause(ctx, rejoin); ctx.Err() == nil; pause(ctx, rejoin) {
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

// ask joins at all addresses of an endpoint. The endpoint's name may not be known
// yet, or have an address that does not answer.
func (g *Gossip) ask(ctx context.Context, endpoint string) error {
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
	if n > 0 || g.stranger() != "" {
		return nil
	}
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) && len(many.WrappedErrors()) > 0 {
		err = many.WrappedErrors()[0]
	}
	if err != nil && otherKey(err.Error()) {
		g.alien(host, endpoint)
		return &secret.Other{At: endpoint}
	}
	if err != nil && strings.Contains(err.Error(), errNotGorun.Error()) { // memberlist keeps the words of errors
		g.otherProgram(endpoint)
	}
	switch {
	case err == nil:
	case isDial(err):
		if endpoint == g.taken && g.halfTaken(port) {
			err = fmt.Errorf("another program has the UDP port of %s, and %w (%w)", endpoint, errDeaf, err)
		}
	default: // it accepts connections and does not answer as memberlist does
		err = fmt.Errorf("%s is in use, but %w; is it another program's port? (%w)", endpoint, errDeaf, err)
	}
	return err
}

// otherProgram notes that an endpoint is another program's. An agent that serves no
// endpoint, and has seen no other agent, has no agent to join.
func (g *Gossip) otherProgram(endpoint string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.seen.met && g.cfg.Serves < 0 && g.endpoint.foreign == "" {
		g.endpoint.foreign = otherProgram(endpoint, errNotGorun)
		g.wake()
	}
}

// halfTaken reports whether a program has the port for UDP. A gorun would have both.
func (g *Gossip) halfTaken(port string) bool {
	c, err := net.ListenPacket("udp", net.JoinHostPort(g.cfg.Bind, port))
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

var errDeaf = errors.New("no gorun answers there")

// deafFor is how long a port on this machine may answer as no gorun does. An agent
// that is ending, or slow, is not another program.
const deafFor = 2 * time.Second

// robbed reports whether another program has the port of the only endpoint, which
// this agent should serve. An agent that has seen others of its run can do without
// the port.
func (g *Gossip) robbed(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.cfg.Endpoints) == 1 && !g.seen.met && !g.endpoint.deaf.IsZero() && now.Sub(g.endpoint.deaf) >= deafFor
}

// report keeps why an endpoint did not answer, for the user.
func (g *Gossip) report(endpoint string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case endpoint != g.taken || !errors.Is(err, errDeaf):
		g.endpoint.deaf = time.Time{}
	case g.endpoint.deaf.IsZero():
		g.endpoint.deaf = time.Now()
	}
	g.endpoint.trouble = ""
	if err != nil {
		g.endpoint.trouble = strings.TrimSpace(err.Error())
		g.wake()
	}
}
