package collective

import "context"

// Messages is the engine that carries out collectives by messages over a Transport.
type Messages struct {
	t          Transport
	rank, size int

	// What follows belongs to the running collective.
	work *Work
	call Call // of the next message: the program's, and its step
	out  int  // messages of a ring that went to the next rank
	in   int  // and that came from the one before
	tmp  [2]Scratch
}

var _ Engine = (*Messages)(nil)

// NewMessages returns the engine of rank among size ranks.
func NewMessages(t Transport, rank, size int) *Messages {
	return &Messages{t: t, rank: rank, size: size}
}

// Sizes in bytes between which the algorithms change. Small buffers need few steps, big
// ones need few bytes moved by each rank.
const (
	smallSize = 32 << 10  // up to it, few steps
	mediumMax = 512 << 10 // up to it, halving and doubling for an all-reduce; above, rings
	treeMax   = 64 << 10  // up to it, trees; above, chains and rings

	// segmentSize is how much of a big buffer moves at once, so that a rank passes on one
	// segment while it receives the next.
	segmentSize = 256 << 10
)

// Do is described at Engine.
func (e *Messages) Do(_ context.Context, w *Work) error {
	e.work, e.call, e.out, e.in = w, *w.Made(), 0, 0
	err := e.run()
	if err == nil {
		err = e.t.Flush()
	}
	e.work = nil
	return err
}

func (e *Messages) run() error {
	w := e.work
	switch w.Call.Kind {
	case KindAllReduce:
		return e.allReduce(w.Dst)
	case KindReduce:
		return e.reduce(w.Dst, w.Src, int(w.Call.Root))
	case KindBroadcast:
		return e.broadcast(w.Dst, int(w.Call.Root))
	case KindBarrier:
		return e.barrier()
	case KindAllGather:
		return e.allGather(w.Dst, w.Src)
	case KindAllGatherV:
		return e.gatherRing(w.Dst, w.Src)
	case KindReduceScatter, KindReduceScatterV:
		return e.reduceScatter(w.Dst, w.Src)
	case KindGather:
		return e.gather(w.Dst, w.Src, int(w.Call.Root))
	case KindScatter:
		return e.scatter(w.Dst, w.Src, int(w.Call.Root))
	}
	return e.allToAll(w.Dst, w.Src)
}

// Post is described at Engine.
func (e *Messages) Post(m *Message) { e.t.Post(m) }

// Wait is described at Engine.
func (e *Messages) Wait(ctx context.Context, m *Message) error { return e.t.Wait(ctx, m) }

// Break is described at Engine.
func (e *Messages) Break(why error) { e.t.Break(why) }

// Close is described at Engine.
func (e *Messages) Close() error { return e.t.Close() }

// Split is described at Engine.
func (e *Messages) Split(_ context.Context, comm uint64, ranks []int) (Engine, error) {
	t, err := e.t.Split(comm, ranks)
	if err != nil {
		return nil, err
	}
	rank := 0
	for i, r := range ranks {
		if r == e.rank {
			rank = i
		}
	}
	return NewMessages(t, rank, len(ranks)), nil
}

// Enter is described at Positions. Messages is a Positions if its transport is one.
func (e *Messages) Enter(call *Call, peer int, send bool) {
	if p, ok := e.t.(Positions); ok {
		p.Enter(call, peer, send)
	}
}

// Leave is described at Positions.
func (e *Messages) Leave(call *Call, peer int) {
	if p, ok := e.t.(Positions); ok {
		p.Leave(call, peer)
	}
}

// Others is described at Positions.
func (e *Messages) Others(call *Call, peer int) []Position {
	if p, ok := e.t.(Positions); ok {
		return p.Others(call, peer)
	}
	return nil
}

// put sends b to rank to as message number step of the call.
func (e *Messages) put(to, step int, b Buffer) error {
	e.call.Step = uint32(step)
	return e.t.Put(to, &e.call, b.Data)
}

// get receives message number step of the call from rank from into b.
func (e *Messages) get(from, step int, b Buffer) error {
	e.call.Step = uint32(step)
	return e.t.Get(from, &e.call, b.Data)
}

// exchange sends out to a rank and receives in from a rank. Afterwards both may change.
func (e *Messages) exchange(step, to int, out Buffer, from int, in Buffer) error {
	if err := e.put(to, step, out); err != nil {
		return err
	}
	if err := e.get(from, step, in); err != nil {
		return err
	}
	return e.t.Flush()
}

// pass sends b to the next rank of the ring.
func (e *Messages) pass(b Buffer) error {
	e.out++
	return e.put(e.at(1), e.out, b)
}

// take receives b from the rank before this one.
func (e *Messages) take(b Buffer) error {
	e.in++
	return e.get(e.at(-1), e.in, b)
}

// at returns the rank that is i after this one; i may be negative, down to -size.
func (e *Messages) at(i int) int { return (e.rank + i + e.size) % e.size }

// temp returns buffer number i of count elements, which stays valid until the next
// collective.
func (e *Messages) temp(i int, t DType, count int) Buffer {
	return e.tmp[i].Buffer(t, count)
}

// part returns part i of b, divided among the ranks as equally as can be. Any i counts
// modulo the number of ranks.
func (e *Messages) part(b Buffer, i int) Buffer {
	i = (i%e.size + e.size) % e.size
	return b.Slice(b.Count*i/e.size, b.Count*(i+1)/e.size)
}

// segments returns how many segments b has; segment returns one of them.
func segments(b Buffer) int { return (len(b.Data) + segmentSize - 1) / segmentSize }

func segment(b Buffer, i int) Buffer {
	n := segmentSize / b.Type.Size()
	return b.Slice(i*n, min((i+1)*n, b.Count))
}
