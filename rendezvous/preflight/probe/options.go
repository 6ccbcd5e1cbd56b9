package probe

import (
	"cmp"
	"crypto/sha256"
	"time"

	"github.com/gorun/gorun/internal/accept"
)

// Options configures a node's probes. A zero duration or count means its
// default.
type Options struct {
	// Key is a text that the agents of this job share: best derived from secret
	// and run id, so that no other program knows it. It must not be empty.
	Key string
	// ID of this node, at most 1024 bytes.
	ID string
	// Connect bounds the time to make a connection. Default 4 s: Linux gives up
	// asking for a neighbour's hardware address after 3 s and then says "no
	// route to host", which is more precise than a time-out.
	Connect time.Duration
	// Exchange bounds the time of everything after that: the reply, the payload
	// to the other side, the payload from there. Default 3 s.
	Exchange time.Duration
	// Total bounds Run as a whole. Default 9 s: two waves of connections that
	// time out.
	Total time.Duration
	// Ports are the ports that connections begin at; zero: the kernel chooses.
	Ports Ports
	// Parallel is how many probes run at a time. Default 64.
	Parallel int
	// Pool counts the connections that the server accepts. Nil: they are not
	// counted.
	Pool *accept.Pool
}

func (o Options) withDefaults() Options {
	o.Connect = cmp.Or(o.Connect, 4*time.Second)
	o.Exchange = cmp.Or(o.Exchange, 3*time.Second)
	o.Total = cmp.Or(o.Total, 9*time.Second)
	o.Parallel = cmp.Or(o.Parallel, 64)
	return o
}

// key derives the probes' key, which differs from a key that other code derives
// from the same text.
func (o Options) key() []byte {
	k := sha256.Sum256([]byte("gorun probe key\x00" + o.Key))
	return k[:]
}
