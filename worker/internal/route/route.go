package route

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/shm"
	"github.com/gorun/gorun/worker/tcp"
)

// Config says how the ranks of a world reach each other.
type Config struct {
	Mesh  *tcp.Mesh
	Size  int
	Board *board.Board // nil, as Node and Messages: this rank takes no messages in memory
	Node  *shm.Node
	// Messages are open: the others find this rank after that.
	Messages *shm.Messages
	// Await waits until a rank of the world can be found.
	Await func(ctx context.Context, rank int) error
}

// Routes knows which way the messages to each rank of the world go.
type Routes struct {
	cfg   Config
	known []atomic.Int32 // by rank of the world
	late  atomic.Int64   // sends that wait until their receiver can be found
	wg    sync.WaitGroup // of choices, and of Messages.Run
}

// Ways to a rank. From wayMemory on it is the local rank to which messages go through
// memory.
const (
	wayUnknown int32 = 0
	wayTCP     int32 = 1
	wayMemory  int32 = 2
)

// New returns the routes of a rank. Start begins to move messages.
func New(cfg Config) *Routes { return &Routes{cfg: cfg, known: make([]atomic.Int32, cfg.Size)} }

// Start begins to move the messages in memory, until the transport of the world closes.
func (s *Routes) Start() {
	if m := s.cfg.Messages; m != nil {
		s.wg.Go(m.Run)
	}
}

// InMemory reports whether messages to a rank of the world go through memory, as far as it
// is known.
func (s *Routes) InMemory(rank int) bool { return s.find(rank) >= wayMemory }

// find returns the way to a rank of the world, if it is known.
func (s *Routes) find(rank int) int32 {
	way := s.known[rank].Load()
	if way == wayUnknown {
		if way = s.look(rank); way != wayUnknown {
			s.choose(rank, way)
		}
	}
	return way
}

// look looks for a rank of the world on the board.
func (s *Routes) look(rank int) int32 {
	if s.cfg.Messages == nil {
		return wayTCP
	}
	full := true
	for local := range s.cfg.Board.Ranks() {
		switch s.cfg.Board.Member(local).Rank {
		case rank:
			if s.cfg.Node.TakesMessages(local) {
				return wayMemory + int32(local)
			}
			return wayUnknown
		case -1:
			full = false
		}
	}
	if full {
		return wayTCP
	}
	return wayUnknown
}

// await waits until a rank can be found, and returns the way to it. If that fails, it breaks
// both ways: the other end may have chosen either.
func (s *Routes) await(rank int) int32 {
	if err := s.cfg.Await(s.cfg.Mesh.Context(), rank); err != nil {
		s.breakWays(fmt.Errorf("cannot find out where rank %d is: %w", rank, err))
		return wayTCP // on which the message gets the reason
	}
	way := s.look(rank)
	if way == wayUnknown {
		way = wayTCP
	}
	s.choose(rank, way)
	return way
}

// breakWays ends all messages because of why, here and at the other ranks, unless the
// connections have ended before.
func (s *Routes) breakWays(why error) {
	if s.cfg.Mesh.Err() != nil {
		return
	}
	s.cfg.Mesh.Break(why)
	if m := s.cfg.Messages; m != nil {
		m.Fail(why)
	}
}

func (s *Routes) choose(rank int, way int32) {
	if s.known[rank].CompareAndSwap(wayUnknown, way) && way >= wayMemory {
		s.cfg.Mesh.Connect(rank) // which shows when the rank is gone, and may tell why
	}
}

// Transport is that of one communicator.
type Transport struct {
	*tcp.Comm
	routes *Routes
	world  []int // the ranks in the world, by rank in the communicator
}

var _ collective.Transport = (*Transport)(nil)

// World returns the transport of the communicator of all ranks.
func (s *Routes) World() *Transport {
	t := &Transport{Comm: s.cfg.Mesh.World(), routes: s}
	for r := range s.cfg.Size {
		t.world = append(t.world, r)
	}
	return t
}

// Split is described at collective.Transport.
func (t *Transport) Split(comm uint64, ranks []int) (collective.Transport, error) {
	world := make([]int, len(ranks))
	for i, r := range ranks {
		world[i] = t.world[r]
	}
	return &Transport{Comm: t.routes.cfg.Mesh.Comm(comm, world), routes: t.routes, world: world}, nil
}

// posting is a message on its way.
type posting struct {
	memory, tcp collective.Message // as the engine of the way gets it
	inMemory    bool
	chosen      chan struct{} // not nil: closed when inMemory is known and the message is posted
}

// Post is described at collective.Engine.
func (t *Transport) Post(m *collective.Message) {
	p, ok := m.State.(*posting)
	if !ok {
		p = &posting{}
		m.State = p
	}
	peer := t.world[m.Peer]
	if way := t.routes.find(peer); way != wayUnknown {
		t.post(m, p, way)
		return
	}
	chosen := make(chan struct{})
	p.chosen = chosen
	late := int64(0)
	if m.Send {
		late = 1
	}
	t.routes.late.Add(late)
	t.routes.wg.Go(func() {
		defer close(chosen)
		way := t.routes.await(peer)
		t.routes.late.Add(-late)
		t.post(m, p, way)
	})
}

func (t *Transport) post(m *collective.Message, p *posting, way int32) {
	if p.inMemory = way != wayTCP; p.inMemory {
		copyMessage(&p.memory, m)
		t.routes.cfg.Messages.Post(&p.memory, int(way-wayMemory))
		return
	}
	copyMessage(&p.tcp, m)
	t.Comm.Post(&p.tcp)
}

// copyMessage sets to to m, but for the state, which belongs to its engine.
func copyMessage(to, m *collective.Message) {
	state := to.State
	*to = *m
	to.State = state
}

// Wait is described at collective.Engine.
func (t *Transport) Wait(ctx context.Context, m *collective.Message) error {
	p := m.State.(*posting)
	if p.chosen != nil {
		select {
		case <-p.chosen:
			p.chosen = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !p.inMemory {
		return t.Comm.Wait(ctx, &p.tcp)
	}
	err := t.routes.cfg.Messages.Wait(ctx, &p.memory)
	if err == nil || ctx.Err() != nil && err == context.Cause(ctx) {
		return err
	}
	if !errors.Is(err, board.ErrAborted) { // every rank has that already
		t.Break(err)
	}
	return err
}

// Close is described at collective.Transport. Only the world's transport closes.
func (t *Transport) Close() error {
	if !t.IsWorld() {
		return t.Comm.Close()
	}
	var unpaired error
	if n := t.routes.late.Load(); n > 0 {
		unpaired = fmt.Errorf("this rank has closed before the receivers of %d of its messages could be found", n)
	}
	if m := t.routes.cfg.Messages; m != nil {
		unpaired = errors.Join(unpaired, m.Close())
	}
	err := t.Comm.Close()
	t.routes.wg.Wait()
	return errors.Join(unpaired, err)
}
