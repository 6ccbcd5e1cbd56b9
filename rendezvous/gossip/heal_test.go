package gossip

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// cutTransport loses what goes to addresses that are not reached.
type cutTransport struct {
	*transport
	reaches func(addr string) bool
}

func (t cutTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	if !t.reaches(addr) {
		return time.Now(), nil
	}
	return t.transport.WriteTo(b, addr)
}

func (t cutTransport) DialTimeout(addr string, limit time.Duration) (net.Conn, error) {
	if !t.reaches(addr) {
		return nil, errors.New("dial tcp: cut off")
	}
	return t.transport.DialTimeout(addr, limit)
}

// TestLostAreFound: two parts of a cut network, none of which has an endpoint's
// agent any more, find each other when the network heals, though memberlist has
// forgotten who was there.
func TestLostAreFound(t *testing.T) {
	t.Parallel()
	at := freePort(t, "127.0.0.1")
	var cut atomic.Bool
	member := func(i int) Config {
		c := config(i, at)
		c.tune = func(m *memberlist.Config) {
			m.Transport = cutTransport{m.Transport.(*transport), func(addr string) bool {
				far := strings.HasPrefix(addr, "127.0.0.3:") || strings.HasPrefix(addr, "127.0.0.4:")
				return !cut.Load() || far == (i >= 3)
			}}
			m.ProbeInterval, m.ProbeTimeout, m.SuspicionMult, m.GossipToTheDeadTime = 100*time.Millisecond, 50*time.Millisecond, 1, 0
		}
		return c
	}
	first := config(1, at)
	first.Serves = 0
	e, a, b, c := open(t, first), open(t, member(2)), open(t, member(3)), open(t, member(4))
	meet(t, e, a, b, c)
	e.stop()
	meet(t, a, b, c)
	cut.Store(true)
	forgotten := func(a *agent, known int) bool { return len(a.peers().All) == known && a.g.list.NumMembers() == known }
	eventually(t, 30*time.Second, func() bool { return forgotten(a, 1) && forgotten(b, 2) && forgotten(c, 2) }, func() string {
		return fmt.Sprintf("%+v %+v", a.peers(), b.peers())
	})
	cut.Store(false)
	meet(t, a, b, c)
}
