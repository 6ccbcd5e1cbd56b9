package gossip

import (
	"net"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/secret"
)

// ear learns from memberlist's log that another agent has another key, because
// memberlist says it nowhere else. Nothing else in the log matters.
type ear struct{ other func(host string) }

func (e *ear) Write(line []byte) (int, error) {
	text, from, ok := strings.Cut(string(line), " from=")
	if ok && e.other != nil && strings.Contains(text, "failed to receive: ") && otherKey(text) {
		if ip, _, err := net.SplitHostPort(strings.TrimSpace(from)); err == nil {
			e.other(ip)
		}
	}
	return len(line), nil
}

// otherKey reports whether memberlist failed because of a key. memberlist keeps the
// words of errors, not the errors. Both sides of a connection have one of these.
func otherKey(text string) bool {
	return slices.ContainsFunc([]string{
		"no installed keys could decrypt the message",
		"remote state is encrypted and encryption is not configured",
		"encryption is configured but remote state is not encrypted",
	}, func(s string) bool { return strings.Contains(text, s) })
}

// alien notes that the agent at an endpoint has another key. An agent that serves no
// endpoint, and has seen no other agent, has no agent to join.
func (g *Gossip) alien(host, endpoint string) {
	g.mu.Lock()
	lost := !g.seen.met && g.cfg.Serves < 0
	if lost && g.endpoint.foreign == "" {
		g.endpoint.foreign = (&secret.Other{At: endpoint}).Error()
		g.wake()
	}
	g.mu.Unlock()
	if !lost && g.cfg.Other != nil {
		g.cfg.Other(host)
	}
}
