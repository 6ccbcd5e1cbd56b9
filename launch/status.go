package launch

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"time"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/metrics"
	"github.com/gorun/gorun/launch/stacks"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/launch/workers"
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
		Call:  func(c status.Call) { a.events.Put(c) },
		Board: func() *board.Node { return a.workers.socket.Board() },
		Steps: func() map[int]uint64 { return a.workers.socket.Steps() },
		Topics: status.Topics{
			status.TopicSigns:       a.hangs.signs,
			status.TopicStacks:      a.newStacks().Answer,
			status.TopicCollectives: a.collectives,
		},
	})
}

// newStacks returns what reads the stacks of this node's workers.
func (a *agent) newStacks() *stacks.Reader {
	return stacks.NewReader(stacks.Options{
		Workers: func(ctx context.Context) (running []stacks.Worker) {
			for _, w := range a.askWorkers(ctx) {
				if w.Exit == nil {
					running = append(running, stacks.Worker{Rank: w.Rank, PID: w.PID})
				}
			}
			return running
		},
		Ask: func(ctx context.Context, rank int) (string, error) { return a.workers.socket.Stacks(ctx, rank) },
		Run: func(ctx context.Context, path string, args ...string) (string, error) {
			out, _, err := a.table.Run(ctx, path, append([]string{path}, args...), a.opts.Env, "/")
			return string(out), err
		},
		Find: func(name string) string {
			path, _ := exec.LookPath(name)
			return path
		},
	})
}

// askWorkers asks the loop for this node's workers. Anything beside the loop may call it.
func (a *agent) askWorkers(ctx context.Context) []workers.Worker {
	reply := make(chan []workers.Worker, 1)
	a.events.Put(workersAsked{reply})
	select {
	case all := <-reply:
		return all
	case <-ctx.Done():
		return nil
	}
}

// reply answers a request of a user on this node. The loop calls done after it has
// handled the event; done confirms an abort.
func (a *agent) reply(c status.Call) (event rendezvous.Event, done func()) {
	done = func() {}
	switch c.Type {
	case status.TypeStatus:
		c.Question = c.Question.Bounded()
		a.status.AddQuery(c)
		event = rendezvous.Query{Question: c.Question}
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

// report answers a question about this node, by default about its status.
func (a *agent) report(ctx context.Context, c rendezvous.Report) {
	post := func(body []byte) { a.events.post(rendezvous.Reported{Serial: c.Serial, Body: body}) }
	if c.Question.Topic != "" {
		a.status.Answer(ctx, c.Question, post)
		return
	}
	all, round := a.workers.listWorkers()
	a.status.Report(a.node, round, all, post)
}

// serveMetrics opens --metrics-addr. Before the loop runs the agent is alive and starting.
func (a *agent) serveMetrics(ctx context.Context) error {
	at := a.opts.Spec.MetricsAddr
	if at == "" || a.opts.shares() || a.opts.Spec.Dry != nil || a.opts.Spec.Check != nil {
		return nil
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return &UsageError{Err: fmt.Errorf("cannot open --metrics-addr %s: %w", at, err)}
	}
	server := &metrics.Server{Pool: a.pool, Ask: a.askState}
	a.wg.Go(func() {
		if err := server.Serve(ctx, l); err != nil {
			a.console.Say("%v", err)
		}
	})
	return nil
}

// askState asks the loop for the state.
func (a *agent) askState(ctx context.Context) (metrics.State, bool) {
	if !a.looping.Load() {
		return metrics.State{Phase: "starting", Round: -1}, true
	}
	reply := make(chan metrics.State, 1)
	a.events.Put(stateAsked{reply})
	select {
	case s := <-reply:
		return s, true
	case <-ctx.Done():
		return metrics.State{}, false
	}
}

// state returns what the agent knows of the job, for --metrics-addr.
func (a *agent) state() metrics.State {
	s := metrics.State{Phase: a.phase, Round: -1}
	all, _ := a.workers.listWorkers()
	s.Ready = slices.ContainsFunc(all, func(w workers.Worker) bool { return w.Exit == nil && !w.Stopped })
	if s.Ready {
		s.Phase = "running"
	}
	if w := a.machine.World(); w != nil {
		s.Round, s.Restarts, s.WorldSize, s.Nodes = w.Round, w.Restart, w.Size, len(w.Members)
		s.Phase = cmp.Or(s.Phase, "ending")
	}
	s.Phase = cmp.Or(s.Phase, "starting")
	return s
}
