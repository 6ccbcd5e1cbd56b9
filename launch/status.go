package launch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
	"golang.org/x/sys/unix"
)

// statusServer is the agent's part in gorun status and gorun abort. Only the loop
// touches it, but for what is atomic.
type statusServer struct {
	open     bool
	asked    []chan<- status.Reply // wait for a view
	job      atomic.Value          // string: the job of the last world
	looking  atomic.Bool           // files' times are being looked at
	findings atomic.Pointer[[]status.Finding]
}

// inspectEvent is what somebody on this node wants.
type inspectEvent struct {
	request status.Request
	reply   chan<- status.Reply // takes one without blocking
}

// statusEvent opens the socket where the workers have not started in time.
type statusEvent struct{}

// statusAfter is when an agent that still waits for others can be asked. One that
// does not is on its way to start its workers, which nothing here must hold up.
const statusAfter = 100 * time.Millisecond

// serveStatus opens the socket, once. A job can do without it.
func (a *agent) serveStatus(ctx context.Context) {
	if a.status.open {
		return
	}
	a.status.open = true
	node, keeper := a.node, os.Getppid()
	s := &status.Server{
		Hello: func() status.Hello {
			job, _ := a.status.job.Load().(string)
			return status.Hello{
				Version: status.Version, RunID: node.RunID, Job: job, Host: node.Host, Addr: node.Addr, PID: node.PID, Keeper: keeper,
			}
		},
		Answer: a.answerStatus, Secret: a.given, Pool: a.pool,
	}
	if err := s.Listen(ctx); err != nil {
		a.console.say("%v", err)
		return
	}
	a.wg.Go(func() {
		if err := s.Serve(ctx); err != nil {
			a.events.Put(noteEvent{err.Error()})
		}
	})
}

// answerStatus takes a request to the loop, and the answer back.
func (a *agent) answerStatus(ctx context.Context, r status.Request) status.Reply {
	reply := make(chan status.Reply, 1)
	a.events.Put(inspectEvent{r, reply})
	limit := time.NewTimer(status.AnswerTime)
	defer limit.Stop()
	select {
	case answer := <-reply:
		return answer
	case <-ctx.Done():
	case <-limit.C:
	}
	select {
	case answer := <-reply: // it was the last thing that the loop did
		return answer
	default:
		return status.Reply{Error: "the job has just ended"}
	}
}

// inspected: somebody on this node asks how the job stands, or orders its end.
// done answers an order once it has been carried out.
func (a *agent) inspected(ctx context.Context, e inspectEvent) (event rendezvous.Event, done func()) {
	switch e.request.Type {
	case status.TypeStatus:
		a.status.asked = append(a.status.asked, e.reply)
		return rendezvous.Query{}, func() {}
	case status.TypeEnv:
		a.tellEnv(e.reply)
		return nil, func() {}
	case status.TypeAbort:
		a.signals++ // as a signal: the second one means at once
		aborted := status.Aborted{RunID: a.node.RunID, Nodes: 1}
		if w := a.machine.World(); w != nil {
			aborted.Nodes, aborted.Workers = len(w.Members), w.Size
		}
		return rendezvous.StopJob{Cause: a.aborted(e.request), Kill: a.signals > 1}, func() { e.reply <- status.Reply{Aborted: &aborted} }
	default:
		e.reply <- status.Reply{Error: fmt.Sprintf("this gorun does not know the request %q", e.request.Type)}
		return nil, func() {}
	}
}

// aborted is the cause of a job's end that somebody ordered here.
func (a *agent) aborted(r status.Request) rendezvous.Cause {
	text := "the job was aborted"
	if r.User != "" {
		text += " by " + shorten(r.User, 64)
	}
	text += " on " + a.node.Name()
	if r.Message != "" {
		text += ": " + shorten(r.Message, status.MaxMessage)
	}
	c := a.self(rendezvous.KindAborted, term.Lines(strings.ReplaceAll(text, "\n", " ")))
	c.Signal = unix.SIGTERM
	return c
}

// present answers everybody who has asked.
func (a *agent) present(c rendezvous.Present) {
	for _, reply := range a.status.asked {
		reply <- status.Reply{View: c.View}
	}
	a.status.asked = nil
}

// reports tells the coordinator of this node, from memory. Only the times of files
// that workers write themselves are asked of the kernel, which may hang: beside
// the loop, and never twice at a time.
func (a *agent) reports(serial int) {
	now := time.Now()
	n := status.Node{
		Version: a.node.Version, PID: a.node.PID, Keeper: os.Getppid(), Up: now.Sub(a.born).Milliseconds(), State: status.Idle,
	}
	if f := a.status.findings.Load(); f != nil {
		n.Findings = *f
	}
	var list []*worker
	if a.current != nil {
		n.Round = a.current.world.Round
		n.State, n.Ranks, list = a.current.report(now)
	}
	answer := func() { a.events.post(rendezvous.Reported{Serial: serial, Body: n.Report()}) }
	if len(list) == 0 || !a.status.looking.CompareAndSwap(false, true) {
		answer()
		return
	}
	go func() { // not waited for: a file system that hangs must not keep the agent
		defer a.status.looking.Store(false)
		for i, wk := range list {
			r := &n.Ranks[i]
			r.Seen = status.SeenAll
			if wk.out.Hidden() {
				r.Seen = status.SeenStderr
			}
			r.Printed(wk.out.LastOutput(), now)
		}
		answer()
	}()
}

// report is how this node's workers are.
func (w *workers) report(now time.Time) (state string, ranks []status.Rank, list []*worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[string]int{}
	for _, wk := range w.list {
		r := status.Rank{
			Rank: wk.rank, LocalRank: wk.local, PID: wk.proc.Pid(), State: status.Running, Seen: status.SeenUnknown,
			Started: wk.started.Truncate(time.Millisecond), Up: now.Sub(wk.started).Milliseconds(),
		}
		select {
		case <-wk.proc.Done():
			e := wk.proc.Exit()
			r.Up = e.At.Sub(wk.started).Milliseconds()
			switch {
			case e.Success():
				r.State = status.Done
			case !w.stopped.IsZero() && e.At.After(w.stopped):
				r.State = status.Stopped
			default:
				r.State = status.Failed
			}
			if e.Signal != 0 {
				r.Signal = rendezvous.SignalName(e.Signal)
			} else {
				r.ExitCode = &e.Code
			}
		default:
			if !w.stopped.IsZero() {
				r.State = status.Stopping
			}
		}
		if wk.cause != nil {
			r.Message = wk.cause.Message
			if r.Message == "" {
				r.Message = wk.cause.Line()
			}
		}
		count[r.State]++
		ranks = append(ranks, r)
	}
	for _, state := range []string{status.Stopping, status.Running, status.Failed, status.Stopped, status.Done} {
		if count[state] > 0 {
			return state, ranks, w.list
		}
	}
	return status.Idle, nil, nil
}

// warned keeps what the preflight found of a job that starts all the same.
func (a *agent) warned(found []preflight.Finding) {
	var out []status.Finding
	for _, f := range found {
		if f.Severity == preflight.Error || f.Severity == preflight.Warning {
			out = append(out, status.Finding{ID: f.ID, Title: f.Title, Severity: string(f.Severity), Text: f.Text})
		}
	}
	a.status.findings.Store(&out)
}
