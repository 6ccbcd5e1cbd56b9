package memory

import (
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// NetOptions of a Net.
type NetOptions struct {
	// Delay is how long the n-th thing that travels from one address to another is on
	// its way. It may depend on nothing else, so that a schedule can be replayed.
	Delay       func(from, to string, n int) time.Duration
	SilentAfter time.Duration // of a cut, after which its streams count as silent (rendezvous.Silence)
	Silence     time.Duration // of a cut, after which they end
	Dial        time.Duration // limit of one attempt to connect
	// Repeat reports whether the n-th message from one address to another comes a
	// second time, and how much later. If Repeat is nil, none does.
	Repeat func(from, to string, n int) (later time.Duration, ok bool)
}

// Net moves messages between agents of one process, with the promises of package
// control: order within a stream, and one Closed for each stream that broke.
type Net struct {
	opts NetOptions

	mu       sync.Mutex
	ends     map[string]*End
	cutPairs map[[2]string]bool // by both addresses, in order
	frozen   map[string]bool    // addresses of agents whose process is stopped
	sent     map[[2]string]int  // by sender and receiver
	sides    []*streamSide      // that are open
}

// NewNet makes a net without agents.
func NewNet(opts NetOptions) *Net {
	return &Net{opts: opts, ends: map[string]*End{}, cutPairs: map[[2]string]bool{}, frozen: map[string]bool{}, sent: map[[2]string]int{}}
}

// streamSide is one agent's side of a stream.
type streamSide struct {
	end    *End
	conn   rendezvous.Conn
	peer   *streamSide
	known  bool // the stream was reported to the agent
	over   bool // nothing more is reported to it
	queue  []delivery
	ready  time.Time // when what was sent last arrives here
	silent bool
	since  time.Time // of the cut, zero: there is none
}

// delivery is something on its way to a side.
type delivery struct {
	event rendezvous.Event
	last  bool
	at    time.Time // when it arrives, unless it is held up
}

func pair(a, b string) [2]string {
	if b < a {
		a, b = b, a
	}
	return [2]string{a, b}
}

// blocked reports whether nothing moves between two addresses.
func (n *Net) blocked(a, b string) bool { return n.cutPairs[pair(a, b)] || n.frozen[a] || n.frozen[b] }

func (n *Net) cut(h *streamSide) bool { return n.blocked(h.end.addr, h.peer.end.addr) }

// delay returns the delay of the next thing from a to b.
func (n *Net) delay(a, b string) time.Duration {
	k := [2]string{a, b}
	n.sent[k]++
	return n.opts.Delay(a, b, n.sent[k])
}

// send sends something to a side, after all that was sent to it before.
func (n *Net) send(to *streamSide, p delivery) {
	now := time.Now()
	at := now.Add(n.delay(to.peer.end.addr, to.end.addr))
	if !at.After(to.ready) {
		at = to.ready.Add(1)
	}
	to.ready, p.at = at, at
	to.queue = append(to.queue, p)
	time.AfterFunc(at.Sub(now), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.deliver(to)
	})
}

// deliver hands over what has arrived.
func (n *Net) deliver(h *streamSide) {
	for !n.cut(h) && len(h.queue) > 0 && !h.queue[0].at.After(time.Now()) {
		p := h.queue[0]
		h.queue = h.queue[1:]
		n.deliverOne(h, p)
	}
}

func (n *Net) deliverOne(h *streamSide, p delivery) {
	if h.over || h.end.closed {
		return
	}
	if p.last {
		n.end(h)
		if !h.known {
			return
		}
	}
	h.known = true
	h.end.post(p.event)
	if _, ok := p.event.(rendezvous.Received); ok && n.opts.Repeat != nil {
		from, to := h.peer.end.addr, h.end.addr
		switch later, again := n.opts.Repeat(from, to, n.sent[[2]string{from, to}]); {
		case again && later == 0:
			h.end.post(p.event)
		case again:
			time.AfterFunc(later, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				if !h.over && !h.end.closed && !n.cut(h) {
					h.end.post(p.event)
				}
			})
		}
	}
}

// end removes a side from the open ones.
func (n *Net) end(h *streamSide) {
	h.over = true
	for i, o := range n.sides {
		if o == h {
			n.sides = append(n.sides[:i:i], n.sides[i+1:]...)
			break
		}
	}
}

// Cut stops everything between two addresses, or lets it go on. What was sent
// meanwhile arrives then, unless the stream has ended from silence.
func (n *Net) Cut(a, b string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := pair(a, b)
	if n.cutPairs[k] == cut {
		return
	}
	n.change(func(h *streamSide) bool { return pair(h.end.addr, h.peer.end.addr) == k }, func() { n.cutPairs[k] = cut })
}

// Freeze stops the process at an address, or lets it go on. Meanwhile nothing moves
// on its streams.
func (n *Net) Freeze(addr string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.change(func(h *streamSide) bool { return h.end.addr == addr || h.peer.end.addr == addr }, func() { n.frozen[addr] = on })
}

// change lets the sides of streams notice that they are cut, or not cut any more.
func (n *Net) change(concerns func(*streamSide) bool, do func()) {
	wasCut := map[*streamSide]bool{}
	sides := append([]*streamSide(nil), n.sides...)
	for _, h := range sides {
		wasCut[h] = n.cut(h)
	}
	do()
	for _, h := range sides {
		switch cut := n.cut(h); {
		case !concerns(h) || cut == wasCut[h]:
		case cut:
			n.silence(h)
		default:
			n.reconnect(h)
		}
	}
}

// Reset breaks the streams between two addresses at both ends.
func (n *Net) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range append([]*streamSide(nil), n.sides...) {
		if h.end.addr == a && h.peer.end.addr == b && !h.over {
			for _, o := range []*streamSide{h, h.peer} {
				n.send(o, delivery{event: rendezvous.Closed{Conn: o.conn, Text: "connection reset"}, last: true})
			}
		}
	}
}

// silence lets a side notice the cut.
func (n *Net) silence(h *streamSide) {
	since := time.Now()
	h.since = since
	still := func(do func()) func() {
		return func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if !h.over && !h.end.closed && h.known && h.since.Equal(since) {
				do()
			}
		}
	}
	// No two streams notice at the same moment, so that a schedule can be replayed.
	apart := n.opts.Delay(h.end.addr, h.peer.end.addr, int(h.conn)) / 100
	time.AfterFunc(n.opts.SilentAfter+apart, still(func() {
		h.silent = true
		h.end.post(rendezvous.Silence{Conn: h.conn, On: true})
	}))
	time.AfterFunc(n.opts.Silence+apart, still(func() {
		n.end(h)
		h.end.post(rendezvous.Closed{Conn: h.conn, Silent: true, Text: "silent for " + n.opts.Silence.String()})
		n.send(h.peer, delivery{event: rendezvous.Closed{Conn: h.peer.conn, Text: "connection reset"}, last: true})
	}))
}

func (n *Net) reconnect(h *streamSide) {
	h.since = time.Time{}
	if h.silent && !h.over && !h.end.closed {
		h.silent = false
		h.end.post(rendezvous.Silence{Conn: h.conn})
	}
	n.deliver(h)
}
