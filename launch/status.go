package launch

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// statusDelay is the time after which an agent that still waits for others opens
// its status socket. Any other agent is about to start its workers, and the socket
// must not delay them.
const statusDelay = 100 * time.Millisecond

// newStatus returns the service that answers the users of this node.
func (a *agent) newStatus() *status.Service {
	return status.NewService(status.ServiceOptions{
		Started: a.started, Secret: a.secrets.given, Pool: a.pool, Wait: &a.wg, Say: a.console.Say,
		Call: func(c status.Call) { a.events.Put(c) },
	})
}

// reply answers a request of a user on this node. The loop calls done after it has
// handled the event; done confirms an abort.
func (a *agent) reply(c status.Call) (event rendezvous.Event, done func()) {
	done = func() {}
	switch c.Type {
	case status.TypeStatus:
		a.status.AddQuery(c)
		event = rendezvous.Query{}
	case status.TypeEnv:
		a.workers.replyEnv(c)
	case status.TypeAbort:
		a.signals++ // counts as a signal: the second one kills at once
		aborted := status.Aborted{RunID: a.node.RunID, Nodes: 1}
		if w := a.machine.World(); w != nil {
			aborted.Nodes, aborted.Workers = len(w.Members), w.Size
		}
		cause := withSignal(a.nodeCause(rendezvous.KindAborted, c.AbortText(a.node.Name())), unix.SIGTERM)
		event = rendezvous.StopJob{Cause: cause, Kill: a.signals > 1}
		done = func() { c.Reply(status.Reply{Aborted: &aborted}) }
	default:
		c.Reply(status.Reply{Error: fmt.Sprintf("this gorun does not know the request %q", c.Type)})
	}
	return event, done
}

// report sends the coordinator this node's status.
func (a *agent) report(serial int) {
	all, round := a.workers.listWorkers()
	a.status.Report(a.node, round, all, func(body []byte) { a.events.post(rendezvous.Reported{Serial: serial, Body: body}) })
}
