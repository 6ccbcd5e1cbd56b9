package launch

import (
	"context"

	"github.com/gorun/gorun/rendezvous"
)

// fencing passes on what the machine asks of a backend that makes worlds unique.
// Only the agent's loop calls it.
type fencing struct {
	fence  rendezvous.Fence // nil: the backend has none, and is never asked
	giveUp context.CancelFunc
}

func (f *fencing) do(ctx context.Context, c rendezvous.Command, a *agent) {
	switch c := c.(type) {
	case rendezvous.Seal:
		f.drop()
		attempt, cancel := context.WithCancel(ctx)
		f.giveUp = cancel
		a.wg.Go(func() { a.events.post(f.fence.Seal(attempt, c)) })
	case rendezvous.GiveUp:
		f.drop()
	case rendezvous.Lead:
		f.fence.Lead()
	case rendezvous.Vacate:
		f.fence.Vacate(c.Round)
	case rendezvous.Unseal:
		f.drop()
		f.fence.Unseal(c.Job, c.Round)
	}
}

// drop gives up a Seal that goes on.
func (f *fencing) drop() {
	if f.giveUp != nil {
		f.giveUp()
		f.giveUp = nil
	}
}
