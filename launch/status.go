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
	"github.com/gorun/gorun/launch/workers"
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
		Answer: a.answerStatus, Secret: a.secrets.given, Pool: a.pool,
	}
	if err := s.Listen(ctx); err != nil {
		a.note(err.Error())
		return
	}
	a.wg.Go(func() {
		if err := s.Serve(ctx); err != nil {
			a.note(err.Error())
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
func (a *agent) inspected(e inspectEvent) (event rendezvous.Event, done func()) {
	switch e.request.Type {
	case status.TypeStatus:
		a.status.asked = append(a.status.asked, e.reply)
		return rendezvous.Query{}, func() {}
	case status.TypeEnv:
		a.workers.replyEnv(e.reply)
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
		text += " by " + term.Cut(r.User, 64)
	}
	text += " on " + a.node.Name()
	if r.Message != "" {
		text += ": " + term.Cut(r.Message, status.MaxMessage)
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
		Version: a.node.Version, PID: a.node.PID, Keeper: os.Getppid(), Up: now.Sub(a.born).Milliseconds(),
	}
	if f := a.status.findings.Load(); f != nil {
		n.Findings = *f
	}
	all, round := a.workers.list()
	n.Round = round
	n.State, n.Ranks = rankStates(all, now)
	answer := func() { a.events.post(rendezvous.Reported{Serial: serial, Body: n.Report()}) }
	if len(all) == 0 || !a.status.looking.CompareAndSwap(false, true) {
		answer()
		return
	}
	go func() { // not waited for: a file system that hangs must not keep the agent
		defer a.status.looking.Store(false)
		for i, w := range all {
			r := &n.Ranks[i]
			r.Seen = status.SeenAll
			if w.Output.Hidden() {
				r.Seen = status.SeenStderr
			}
			r.Printed(w.Output.LastOutput(), now)
		}
		answer()
	}()
}

// rankStates tells how workers are, and the node with them.
func rankStates(all []workers.Worker, now time.Time) (node string, ranks []status.Rank) {
	count := map[string]int{}
	for _, w := range all {
		r := status.Rank{
			Rank: w.Rank, LocalRank: w.LocalRank, PID: w.PID, Seen: status.SeenUnknown,
			Started: w.Started.Truncate(time.Millisecond), Up: now.Sub(w.Started).Milliseconds(),
		}
		switch e := w.Exit; {
		case e == nil && w.Stopped:
			r.State = status.Stopping
		case e == nil:
			r.State = status.Running
		case e.Success():
			r.State = status.Done
		case w.Stopped:
			r.State = status.Stopped
		default:
			r.State = status.Failed
		}
		if e := w.Exit; e != nil {
			r.Up = e.At.Sub(w.Started).Milliseconds()
			if e.Signal != 0 {
				r.Signal = rendezvous.SignalName(e.Signal)
			} else {
				r.ExitCode = &e.Code
			}
		}
		if w.Cause != nil {
			r.Message = w.Cause.Message
			if r.Message == "" {
				r.Message = w.Cause.Line()
			}
		}
		count[r.State]++
		ranks = append(ranks, r)
	}
	for _, state := range []string{status.Stopping, status.Running, status.Failed, status.Stopped, status.Done} {
		if count[state] > 0 {
			return state, ranks
		}
	}
	return status.Idle, nil
}

// keep keeps what the preflight found of a job that starts all the same.
func (s *statusServer) keep(found []preflight.Finding) {
	var out []status.Finding
	for _, f := range found {
		if f.Severity == preflight.Error || f.Severity == preflight.Warning {
			out = append(out, status.Finding{ID: f.ID, Title: f.Title, Severity: string(f.Severity), Text: f.Text})
		}
	}
	s.findings.Store(&out)
}

// maxFindings bounds what gorun status shows of one node.
const maxFindings = 64

// add keeps what was found while the job runs.
func (s *statusServer) add(f status.Finding) {
	var all []status.Finding
	if old := s.findings.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all[:min(len(all), maxFindings)], f)
	s.findings.Store(&all)
}
