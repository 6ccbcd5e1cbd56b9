package status

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// Service is the agent's part: it answers the clients of the agent's socket. Any
// goroutine may call its methods, except Open, AddQuery and AnswerQueries, which only
// the agent's loop may call.
type Service struct {
	opts      ServiceOptions
	open      bool
	calls     []Call       // calls that wait for a view
	reading   atomic.Bool  // a goroutine reads the times of files
	answering atomic.Int32 // number of questions that are being answered

	mu       sync.Mutex
	job      string // job of the last world
	findings []Finding
}

// ServiceOptions holds what a Service needs from its agent.
type ServiceOptions struct {
	Started  time.Time // start of the agent
	Secret   Secret
	Pool     *accept.Pool
	Call     func(Call) // passes a request to the agent's loop, without blocking
	Say      func(format string, args ...any)
	Wait     *sync.WaitGroup       // for the goroutine that serves
	NoSocket bool                  // Open opens no socket
	Board    func() *board.Node    // of this node; nil: there is none
	Steps    func() map[int]uint64 // how far the program of each rank is, if it says so; for a node with a Board
	Topics   Topics
}

// Call is a request that the agent's loop answers.
type Call struct {
	Request
	reply chan<- Reply // has room for one
}

// NewCall returns a call and a channel that receives its reply.
func NewCall(r Request) (Call, <-chan Reply) {
	reply := make(chan Reply, 1)
	return Call{r, reply}, reply
}

// Reply answers the call. It may be called once.
func (c Call) Reply(r Reply) { c.reply <- r }

// NewService returns the service of an agent. It starts nothing.
func NewService(o ServiceOptions) *Service { return &Service{opts: o} }

// Open opens the socket at its first call. If that fails the job continues.
func (s *Service) Open(ctx context.Context, n rendezvous.Node) {
	if s.open || s.opts.NoSocket {
		return
	}
	s.open = true
	keeper := os.Getppid()
	server := &Server{
		Hello: func() Hello {
			s.mu.Lock()
			defer s.mu.Unlock()
			return Hello{Version: Version, RunID: n.RunID, Job: s.job, Host: n.Host, Addr: n.Addr, PID: n.PID, Keeper: keeper}
		},
		Answer: s.answer, Secret: s.opts.Secret, Pool: s.opts.Pool,
	}
	if err := server.Listen(ctx); err != nil {
		s.opts.Say("%v", err)
		return
	}
	s.opts.Wait.Go(func() {
		if err := server.Serve(ctx); err != nil {
			s.opts.Say("%v", err)
		}
	})
}

// answer passes a request to the agent's loop and returns the reply.
func (s *Service) answer(ctx context.Context, r Request) Reply {
	call, reply := NewCall(r)
	s.opts.Call(call)
	limit := time.NewTimer(r.limit())
	defer limit.Stop()
	select {
	case answer := <-reply:
		return answer
	case <-ctx.Done():
	case <-limit.C:
	}
	select {
	case answer := <-reply: // the loop may have replied before it ended
		return answer
	default:
		return Reply{Error: "the job has just ended"}
	}
}

// AddQuery keeps a call until AnswerQueries answers it.
func (s *Service) AddQuery(c Call) { s.calls = append(s.calls, c) }

// AnswerQueries answers every query with this question.
func (s *Service) AnswerQueries(question rendezvous.Question, view []byte) {
	s.calls = slices.DeleteFunc(s.calls, func(c Call) bool {
		if c.Question != question {
			return false
		}
		c.Reply(Reply{View: view})
		return true
	})
}

// SetJob stores the job of the world that starts.
func (s *Service) SetJob(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job = job
}

// SetFindings keeps the errors and warnings about a world that starts in spite of them.
// They replace all earlier findings.
func (s *Service) SetFindings(found []preflight.Finding) {
	var list []Finding
	for _, f := range found {
		if f.Severity == preflight.Error || f.Severity == preflight.Warning {
			list = append(list, newFinding(f))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = list
}

// AddFinding keeps a finding of the running job.
func (s *Service) AddFinding(f preflight.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.findings), maxStored)
	s.findings = append(s.findings[:n:n], newFinding(f))
}

// maxStored bounds the findings that a Service keeps, besides the last one.
const maxStored = 64

func newFinding(f preflight.Finding) Finding {
	return Finding{ID: f.ID, Title: f.Title, Severity: string(f.Severity), Text: f.Text}
}

// Report makes this node's report for the coordinator from memory and calls post with
// it. Only the times of files that workers write themselves come from the kernel,
// which may hang. So a separate goroutine reads them, never two at a time.
func (s *Service) Report(n rendezvous.Node, round int, all []workers.Worker, post func([]byte)) {
	now := time.Now()
	out := NodeReport{Version: n.Version, PID: n.PID, Keeper: os.Getppid(), Up: now.Sub(s.opts.Started).Milliseconds(), Round: round}
	out.State, out.Ranks = ranksOf(all, now)
	if s.opts.Board != nil {
		b := s.opts.Board()
		addCalls(out.Ranks, b.Calls(), now)
		steps := s.opts.Steps()
		for i := range out.Ranks {
			out.Ranks[i].Step = steps[out.Ranks[i].Rank]
		}
	}
	s.mu.Lock()
	out.Findings = s.findings
	s.mu.Unlock()
	if len(all) == 0 || !s.reading.CompareAndSwap(false, true) {
		post(out.Encode())
		return
	}
	go func() { // not awaited: a file system may hang
		defer s.reading.Store(false)
		for i, w := range all {
			r := &out.Ranks[i]
			r.Seen = SeenAll
			if w.Output.Hidden() {
				r.Seen = SeenStderr
			}
			r.Output = ageMS(w.Output.LastOutput(), now)
		}
		post(out.Encode())
	}()
}

// addCalls adds to each rank the call in which it has been longest.
func addCalls(ranks []Rank, calls []board.Call, now time.Time) {
	for _, c := range calls {
		i := slices.IndexFunc(ranks, func(r Rank) bool { return r.Rank == c.Rank && r.State == Running })
		if age := now.Sub(c.Since).Milliseconds(); i >= 0 && (ranks[i].Call == "" || age > ranks[i].CallAge) {
			ranks[i].Call, ranks[i].CallAge = c.Text, age
		}
	}
}

// ranksOf returns the states of the workers, and the node's state that follows from
// them.
func ranksOf(all []workers.Worker, now time.Time) (node string, ranks []Rank) {
	count := map[string]int{}
	for _, w := range all {
		r := Rank{
			Rank: w.Rank, LocalRank: w.LocalRank, PID: w.PID, Seen: SeenUnknown,
			Started: w.Started.Truncate(time.Millisecond), Up: now.Sub(w.Started).Milliseconds(),
		}
		switch e := w.Exit; {
		case e == nil && w.Stopped:
			r.State = Stopping
		case e == nil:
			r.State = Running
		case e.Success():
			r.State = Done
		case w.Stopped:
			r.State = Stopped
		default:
			r.State = Failed
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
	for _, state := range []string{Stopping, Running, Failed, Stopped, Done} {
		if count[state] > 0 {
			return state, ranks
		}
	}
	return Idle, nil
}

// AbortText says in one line which user ended the job, on which node and why.
func (r Request) AbortText(node string) string {
	text := "the job was aborted"
	if r.User != "" {
		text += " by " + term.Cut(r.User, 64)
	}
	text += " on " + node
	if r.Message != "" {
		text += ": " + term.Cut(r.Message, MaxMessage)
	}
	return term.Lines(strings.ReplaceAll(text, "\n", " "))
}
