package probe

import (
	"cmp"
	"crypto/sha256"
	"time"

	"github.com/gorun/gorun/internal/accept"
)

// Options of a node's probes. A zero duration or count means its default.
type Options struct {
	// Key is what the agents of this job know and, if the job has a secret,
	// nobody else: best derived from secret and run id. Not empty.
	Key string
	// ID of this node, at most 1024 bytes.
	ID string
	// Connect is how long a connection may take to be made. Default 4 s: Linux
	// gives up asking for a neighbour's hardware address after 3 s and then says
	// "no route to host", which is more than a time-out says.
	Connect time.Duration
	// Exchange is how long all that follows may take: the reply, the payload to
	// the other side, the payload from there. Default 3 s.
	Exchange time.Duration
	// Total bounds Run as a whole. Default 9 s: two waves of connections that
	// time out.
	Total time.Duration
	// Ports are those that connections begin at; zero: the kernel chooses.
	Ports Ports
	// Parallel is how many probes are under way at a time. Default 64.
	Parallel int
	// Pool counts the connections that the server accepts. Nil: nothing does.
	Pool *accept.Pool
}

func (o Options) withDefaults() Options {
	o.Connect = cmp.Or(o.Connect, 4*time.Second)
	o.Exchange = cmp.Or(o.Exchange, 3*time.Second)
	o.Total = cmp.Or(o.Total, 9*time.Second)
	o.Parallel = cmp.Or(o.Parallel, 64)
	return o
}

// key keeps the probes' key apart from any other use of the same text.
func (o Options) key() []byte {
	k := sha256.Sum256([]byte("gorun probe key\x00" + o.Key))
	return k[:]
}
