package launch

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// statusAfter is when an agent that still waits for others can be asked. One that
// does not is on its way to start its workers, which nothing here must hold up.
const statusAfter = 100 * time.Millisecond

// newStatus makes the service that answers the users of this node.
func (a *agent) newStatus() *status.Service {
	return status.NewService(status.ServiceOptions{
		Started: a.born, Secret: a.secrets.given, Pool: a.pool, Wait: &a.wg, Say: a.console.Say,
		Call: func(c status.Call) { a.events.Put(c) },
	})
}

// reply carries out what a user on this node asks or orders. done answers an order
// once it has been carried out.
func (a *agent) reply(c status.Call) (event rendezvous.Event, done func()) {
	done = func() {}
	switch c.Type {
	case status.TypeStatus:
		a.status.Query(c)
		event = rendezvous.Query{}
	case status.TypeEnv:
		a.workers.replyEnv(c)
	case status.TypeAbort:
		a.signals++ // as a signal: the second one means at once
		aborted := status.Aborted{RunID: a.node.RunID, Nodes: 1}
		if w := a.machine.World(); w != nil {
			aborted.Nodes, aborted.Workers = len(w.Members), w.Size
		}
		cause := withSignal(a.self(rendezvous.KindAborted, c.AbortText(a.node.Name())), unix.SIGTERM)
		event = rendezvous.StopJob{Cause: cause, Kill: a.signals > 1}
		done = func() { c.Reply(status.Reply{Aborted: &aborted}) }
	default:
		c.Reply(status.Reply{Error: fmt.Sprintf("this gorun does not know the request %q", c.Type)})
	}
	return event, done
}

// report tells the coordinator how this node is.
func (a *agent) report(serial int) {
	all, round := a.workers.list()
	a.status.Report(a.node, round, all, func(body []byte) { a.events.post(rendezvous.Reported{Serial: serial, Body: body}) })
}
