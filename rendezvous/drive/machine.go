package drive

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Streams move messages between agents. A control.Plane does.
type Streams interface {
	// Dial opens a stream while ctx lasts. Dialed or DialFailed follows.
	Dial(ctx context.Context, addr string)
	Send(c rendezvous.Conn, msg rendezvous.Message)
	// Handled says that the oldest Received of a stream has been handled.
	Handled(c rendezvous.Conn)
	// Close ends a stream after what was sent on it has left.
	Close(c rendezvous.Conn)
}

// Machine is a rendezvous.Machine with the parts that execute its commands. It is not
// safe for concurrent use either.
type Machine struct {
	*rendezvous.Machine
	Streams Streams                // nil: the node is alone
	Fence   rendezvous.Fence       // nil: the backend is not a Fence
	Post    func(rendezvous.Event) // takes the answers of Seal; never blocks
	Wait    *sync.WaitGroup        // has every Seal that goes on

	giveUp context.CancelFunc // of the last Seal; nil: it was given up
}

// Step feeds one event to the machine and yields its commands, in order. The owner
// sees each command before it is executed here, and executes itself those that
// concern neither streams nor the fence. A loop that breaks leaves this command and
// the rest undone. ctx is the context of the streams and Seals that begin.
func (m *Machine) Step(ctx context.Context, e rendezvous.Event) iter.Seq[rendezvous.Command] {
	return func(yield func(rendezvous.Command) bool) {
		for _, c := range m.Machine.Step(time.Now(), e) {
			if !yield(c) {
				return
			}
			m.execute(ctx, c)
		}
		if r, ok := e.(rendezvous.Received); ok {
			m.Streams.Handled(r.Conn)
		}
	}
}

// execute executes a command about streams or the fence.
func (m *Machine) execute(ctx context.Context, c rendezvous.Command) {
	switch c := c.(type) {
	case rendezvous.Dial:
		m.Streams.Dial(ctx, c.Addr)
	case rendezvous.Send:
		m.Streams.Send(c.Conn, c.Msg)
	case rendezvous.Close:
		m.Streams.Close(c.Conn)
	case rendezvous.Lead:
		m.Fence.Lead()
	case rendezvous.Seal:
		m.giveUpSeal()
		attempt, cancel := context.WithCancel(ctx)
		m.giveUp = cancel
		m.Wait.Go(func() { m.Post(m.Fence.Seal(attempt, c)) })
	case rendezvous.GiveUp:
		m.giveUpSeal()
	case rendezvous.Vacate:
		m.Fence.Vacate(c.Round)
	case rendezvous.Unseal:
		m.giveUpSeal()
		m.Fence.Unseal(c.Job, c.Round)
	}
}

// giveUpSeal gives up a Seal that goes on.
func (m *Machine) giveUpSeal() {
	if m.giveUp != nil {
		m.giveUp()
		m.giveUp = nil
	}
}
