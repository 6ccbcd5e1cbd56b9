package tcp

import (
	"context"

	"github.com/gorun/gorun/worker/collective"
)

// Comm is the mesh as the transport of one communicator. Its ranks are those of the
// communicator.
type Comm struct {
	m     *Mesh
	id    uint64
	rank  int
	world []int   // the ranks in the world, by rank in the communicator
	lanes []*lane // for collectives, by rank; nil: not connected yet

	unsent []*lane // have had a frame in the queue since the last Flush
}

var (
	_ collective.Transport = (*Comm)(nil)
	_ collective.Positions = (*Comm)(nil)
)

// World returns the transport of the communicator of all ranks.
func (m *Mesh) World() *Comm {
	world := make([]int, m.cfg.Size)
	for r := range world {
		world[r] = r
	}
	return m.Comm(0, world)
}

// Comm returns the transport of the communicator id of these ranks of the world.
func (m *Mesh) Comm(id uint64, world []int) *Comm {
	c := &Comm{m: m, id: id, world: world, lanes: make([]*lane, len(world))}
	for i, r := range world {
		if r == m.cfg.Rank {
			c.rank = i
		}
	}
	return c
}

// Split is described at collective.Transport.
func (c *Comm) Split(comm uint64, ranks []int) (collective.Transport, error) {
	world := make([]int, len(ranks))
	for i, r := range ranks {
		world[i] = c.world[r]
	}
	return c.m.Comm(comm, world), nil
}

// lane returns the lane to a rank of the communicator.
func (c *Comm) lane(rank int) (*lane, error) {
	if l := c.lanes[rank]; l != nil {
		return l, nil
	}
	// The lane of messages brings the peer's bye or its reason for giving up.
	if _, err := c.m.lane(c.m.life, laneID{rank: c.world[rank]}); err != nil {
		return nil, err
	}
	l, err := c.m.lane(c.m.life, laneID{rank: c.world[rank], collective: true, comm: c.id})
	c.lanes[rank] = l
	return l, err
}

// Put is described at collective.Transport.
func (c *Comm) Put(to int, call *collective.Call, payload []byte) error {
	if c.m.life.Err() != nil {
		return context.Cause(c.m.life)
	}
	l, err := c.lane(to)
	if err != nil {
		return c.m.failure(err)
	}
	left, err := l.send(header{frameCollective, *call, uint64(len(payload))}, payload, nil)
	if err != nil {
		return c.failure(l.id.rank, err)
	}
	if !left {
		c.unsent = append(c.unsent, l)
	}
	return nil
}

// failure is the mesh's, for an error in the traffic with a rank of the world. The rank
// may have said why it is gone.
func (c *Comm) failure(rank int, err error) error {
	if err == nil {
		return nil
	}
	if c.m.life.Err() != nil {
		return context.Cause(c.m.life)
	}
	if _, lost := err.(*collective.PeerError); lost {
		err = c.m.reason(rank, err)
	}
	return c.m.failure(err)
}

// Flush is described at collective.Transport.
func (c *Comm) Flush() error {
	for _, l := range c.unsent {
		if err := l.drained(); err != nil {
			c.unsent = c.unsent[:0]
			return c.failure(l.id.rank, err)
		}
	}
	c.unsent = c.unsent[:0]
	return nil
}

// Get is described at collective.Transport.
func (c *Comm) Get(from int, call *collective.Call, into []byte) error {
	l, err := c.lane(from)
	if err != nil {
		return c.m.failure(err)
	}
	h, err := l.read()
	if err == nil {
		err = l.fill(h, call, into)
	}
	return c.failure(l.id.rank, err)
}

// Post is described at collective.Engine.
func (c *Comm) Post(m *collective.Message) { c.m.box.post(m, c.world[m.Peer]) }

// Wait is described at collective.Engine.
func (c *Comm) Wait(ctx context.Context, m *collective.Message) error {
	o := m.State.(*op)
	select {
	case err := <-o.done:
		return c.failure(o.peer, o.result(err))
	default:
	}
	if m.Send && len(o.buf) > eagerMax {
		c.m.box.countStuck(1)
		defer c.m.box.countStuck(-1)
	}
	select {
	case err := <-o.done:
		return c.failure(o.peer, o.result(err))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Break is described at collective.Transport. It breaks all communicators of the mesh.
func (c *Comm) Break(why error) { c.m.Break(why) }

// IsWorld reports whether this is the transport of all ranks.
func (c *Comm) IsWorld() bool { return c.id == 0 }

// Close is described at collective.Transport. Only the world's transport closes the mesh.
func (c *Comm) Close() error {
	if !c.IsWorld() {
		return nil
	}
	return c.m.Close()
}

// Enter is described at collective.Positions.
func (c *Comm) Enter(call *collective.Call, peer int, _ bool) {
	if peer < 0 {
		c.m.where.note(call, true)
	}
}

// Leave is described at collective.Positions.
func (c *Comm) Leave(call *collective.Call, peer int) {
	if peer < 0 {
		c.m.where.note(call, false)
	}
}

// Others is described at collective.Positions.
func (c *Comm) Others(call *collective.Call, peer int) []collective.Position {
	asked := func(i int) bool { return i != c.rank && (peer < 0 || i == peer) }
	var ask []int
	for i, r := range c.world {
		if asked(i) {
			ask = append(ask, r)
		}
	}
	places := c.m.where.others(call, ask)
	var others []collective.Position
	for i, r := range c.world {
		if !asked(i) {
			continue
		}
		p, ok := places[r]
		others = append(others, collective.Position{
			Rank:    i,
			World:   r,
			Unknown: !ok,
			Call:    p.call,
			Inside:  p.inside,
			Arrived: ok && call.Kind != collective.KindSend && p.call.Seq >= call.Seq,
		})
	}
	return others
}
