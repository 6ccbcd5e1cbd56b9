package gossip

import (
	"net"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/secret"
)

// keyMismatchLog finds in memberlist's log that an agent has another key, because
// memberlist reports it nowhere else. It ignores the rest of the log.
type keyMismatchLog struct{ report func(host string) }

func (l *keyMismatchLog) Write(line []byte) (int, error) {
	text, from, ok := strings.Cut(string(line), " from=")
	if ok && l.report != nil && strings.Contains(text, "failed to receive: ") && isKeyMismatch(text) {
		if ip, _, err := net.SplitHostPort(strings.TrimSpace(from)); err == nil {
			l.report(ip)
		}
	}
	return len(line), nil
}

// isKeyMismatch reports whether memberlist failed because the keys of two agents
// differ. memberlist keeps only the text of errors. Both sides of a connection get one
// of these errors.
func isKeyMismatch(text string) bool {
	return slices.ContainsFunc([]string{
		"no installed keys could decrypt the message",
		"remote state is encrypted and encryption is not configured",
		"encryption is configured but remote state is not encrypted",
	}, func(s string) bool { return strings.Contains(text, s) })
}

// reportKeyMismatch ends Run, or calls Config.OtherKey, because the agent at an
// endpoint has another key.
func (g *Gossip) reportKeyMismatch(host, endpoint string) {
	foreign := &Foreign{Text: (&secret.Mismatch{At: endpoint}).Error()}
	if !g.failJoin(foreign) && g.cfg.OtherKey != nil {
		g.cfg.OtherKey(host)
	}
}
