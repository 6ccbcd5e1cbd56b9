package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/flight"
	"github.com/gorun/gorun/launch/hang"
	"github.com/gorun/gorun/launch/stacks"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
)

// gatherTime is how long the nodes may take to say where their ranks are: the first dump of
// PyTorch's flight recorder takes 4.5 s.
const gatherTime = 4800 * time.Millisecond

// InquiryOptions says what an Inquiry needs.
type InquiryOptions struct {
	Timeout time.Duration
	End     bool // a hang ends the round if a collective is known in which ranks wait
	Final   bool // and no restart follows
	// Ask asks all nodes and returns a view with their answers.
	Ask func(ctx context.Context, q rendezvous.Question) ([]byte, error)
	// BeforeStop gathers what only processes that are about to be killed give.
	BeforeStop func(ctx context.Context, cause *rendezvous.Cause)
	// Post takes what was found out.
	Post func(h rendezvous.Hung)
	Say  func(format string, args ...any)
}

// Inquiry finds out whether the round that this agent coordinates hangs.
type Inquiry struct {
	opts   InquiryOptions
	wanted chan int // has the round that may hang

	round   int
	job     *hang.Case
	found   gathered
	silence silence
	stopped bool // the round was ended
}

// silence is that of nodes which did not answer the last question, or not for all of their
// ranks.
type silence struct {
	since time.Time // zero: all have answered
	nodes []string  // empty: the question itself has failed
}

// begin notes that these nodes do not answer.
func (s *silence) begin(now time.Time, nodes []string) {
	if s.since.IsZero() {
		s.since = now
	}
	s.nodes = nodes
}

// String names the nodes.
func (s *silence) String() string {
	const most = 4
	switch n := len(s.nodes); {
	case n == 0:
		return "any node"
	case n > most:
		return fmt.Sprintf("%s and %d more nodes", strings.Join(s.nodes[:most], ", "), n-most)
	default:
		return strings.Join(s.nodes, ", ")
	}
}

// gathered is what nodes said of where their ranks are.
type gathered struct {
	at    time.Time // zero: nothing was asked
	tries int       // questions that did not reach the nodes; 0: all have
	known []hang.Known
	job   stacks.Job
}

// NewInquiry returns an inquiry that nobody has asked for yet.
func NewInquiry(o InquiryOptions) *Inquiry {
	return &Inquiry{opts: o, wanted: make(chan int, 1), round: -1}
}

// Investigate asks for an inquiry into a round. It does not block.
func (q *Inquiry) Investigate(round int) {
	select {
	case <-q.wanted: // it is about to be looked into, or of an earlier round
	default:
	}
	select {
	case q.wanted <- round:
	default:
	}
}

// Run inquires until ctx ends.
func (q *Inquiry) Run(ctx context.Context) {
	again := time.NewTimer(time.Hour)
	again.Stop()
	isDue := false // again will fire
	for {
		select {
		case <-ctx.Done():
			return
		case round := <-q.wanted:
			switch {
			case round == q.round && isDue && q.job.Ends(): // which only time confirms
				continue
			case round != q.round:
				q.round, q.job, q.found, q.silence, q.stopped = round, hang.NewCase(q.opts.Timeout), gathered{}, silence{}, false
			}
		case <-again.C:
			isDue = false
		}
		if wait := q.inquire(ctx); wait > 0 {
			again.Reset(wait)
			isDue = true
		}
	}
}

// inquire asks the nodes once and does what follows. It returns when to ask again; 0: when
// a node suspects something.
func (q *Inquiry) inquire(ctx context.Context) time.Duration {
	if q.stopped {
		return 0
	}
	if q.found.tries > 0 && q.found.tries < maxTries {
		q.found = q.gather(ctx, q.found.tries)
	}
	e, p, runs := q.evidence(ctx)
	if !runs || ctx.Err() != nil {
		return 0
	}
	a := hang.Judge(e)
	d, err := q.job.Step(a)
	if err != nil {
		q.opts.Say("%v", err)
		return 0
	}
	switch action := d.Action; {
	case action == hang.Report || a.State == hang.Hangs && q.job.Reported() && q.ends(&a.Finding):
		q.report(ctx, &a.Finding, p)
	case action == hang.Gather:
		q.found = q.gather(ctx, 0)
	case action == hang.TakeBack:
		q.opts.Post(rendezvous.Hung{Round: q.round})
		q.opts.Say("the ranks go on: the job does not hang any more")
	case action == hang.Doubt:
		still := ""
		if q.job.Reported() {
			still = " still"
		}
		q.opts.Say("no answer from %s for %s about what the ranks do: it is not known whether the job%s hangs", &q.silence, e.Silent.Truncate(time.Second), still)
	}
	if d.Again == 0 {
		q.found, q.silence = gathered{}, silence{}
	}
	return d.Again
}

// evidence asks all nodes what their ranks do. It returns false if the round does not run.
// A question that fails is one that no node has answered.
func (q *Inquiry) evidence(ctx context.Context) (e hang.Evidence, p places, runs bool) {
	answer, err := q.opts.Ask(ctx, rendezvous.Question{Topic: status.TopicSigns})
	var v rendezvous.View
	var nodes []status.NodeAnswer
	if err == nil {
		v, nodes, err = status.DecodeAnswers(answer, status.TopicSigns)
	}
	if err != nil {
		q.silence.begin(time.Now(), nil)
		return hang.Evidence{Size: 1, Timeout: q.opts.Timeout, Silent: time.Since(q.silence.since)}, p, true
	}
	if v.Phase != "running" || v.Round != q.round {
		return e, p, false
	}
	e = hang.Evidence{Size: v.Size, Timeout: q.opts.Timeout}
	var silent []string
	for _, n := range nodes {
		if n.GroupRank < 0 {
			continue
		}
		p.nodes = append(p.nodes, v.Nodes[slices.IndexFunc(v.Nodes, func(o rendezvous.NodeView) bool { return o.GroupRank == n.GroupRank })])
		signs := decodeSigns(n, q.round)
		if len(signs) < n.Workers {
			silent = append(silent, n.Name())
		}
		e.Signs = append(e.Signs, signs...)
	}
	if len(e.Signs) < e.Size {
		q.silence.begin(time.Now(), silent)
		e.Silent = time.Since(q.silence.since)
	} else {
		q.silence = silence{}
	}
	if !q.found.at.IsZero() {
		e.Asked = true
		passed := time.Since(q.found.at)
		for _, k := range q.found.known {
			if k.Age > 0 {
				k.Age += passed
			}
			e.Known = append(e.Known, k)
		}
		p.job = &q.found.job
	}
	return e, p, true
}

// Signs is a node's answer to the question for its signs.
type Signs struct {
	Round int         `json:"round"`
	Signs []hang.Sign `json:"signs"`
}

// Bounds of the signs of another node.
const (
	maxLines = 64  // of a rank
	maxText  = 512 // bytes
)

// decodeSigns reads the signs of another node, which it does not trust.
func decodeSigns(n status.NodeAnswer, round int) (all []hang.Sign) {
	var s Signs
	if !n.Answered || json.Unmarshal(n.Body, &s) != nil || s.Round != round {
		return nil
	}
	seen := map[int]bool{}
	for _, sign := range s.Signs {
		if sign.Rank < n.FirstRank || sign.Rank >= n.FirstRank+n.Workers || seen[sign.Rank] {
			continue
		}
		seen[sign.Rank] = true
		sign.State = clean(sign.State)
		sign.Lines = slices.Clone(sign.Lines[:min(len(sign.Lines), maxLines)]) // what is beyond goes
		for i := range sign.Lines {
			l := &sign.Lines[i]
			l.Last = clean(l.Last)
			if l.Open != nil {
				l.Open.Text, l.Open.Where = clean(l.Open.Text), clean(l.Open.Where)
			}
		}
		all = append(all, sign)
	}
	return all
}

func clean(text string) string { return term.Line(term.Cut(text, maxText)) }

// places says where the ranks are.
type places struct {
	nodes []rendezvous.NodeView
	job   *stacks.Job // nil: not asked
}

// node returns the node of a rank, nil if it is not known.
func (p *places) node(rank int) *rendezvous.NodeView {
	for i := range p.nodes {
		if n := &p.nodes[i]; rank >= n.FirstRank && rank < n.FirstRank+n.Workers {
			return n
		}
	}
	return nil
}

// place returns the names of places for a sentence.
func (p *places) place() hang.Place {
	return hang.Place{
		Host: func(rank int) string {
			if n := p.node(rank); n != nil {
				return clean(n.Host)
			}
			return ""
		},
		Where: p.where,
	}
}

// where returns where in the program a rank is, "" if that is not known.
func (p *places) where(rank int) string {
	if p.job == nil {
		return ""
	}
	s := p.job.Find(rank)
	if s == nil {
		return ""
	}
	return s.Where()
}

// maxTries bounds the questions of one gather that fail.
const maxTries = 3

// gather asks all nodes in which collectives and where in the program their ranks are. It
// has failed so many times before.
func (q *Inquiry) gather(ctx context.Context, tries int) gathered {
	var dumps, stack []byte
	var failed atomic.Bool
	var wg sync.WaitGroup
	ask := func(topic string, to *[]byte) {
		wg.Go(func() {
			answer, err := q.opts.Ask(ctx, rendezvous.Question{Topic: topic, Within: gatherTime})
			if err != nil {
				failed.Store(true)
			}
			*to = answer
		})
	}
	ask(status.TopicCollectives, &dumps)
	ask(status.TopicStacks, &stack)
	wg.Wait()
	found := gathered{at: time.Now(), known: knownByDumps(dumps)}
	if failed.Load() {
		found.tries = tries + 1
	}
	if job, err := stacks.DecodeJob(stack); err == nil {
		found.job = job
		if k, ok := knownByStacks(&job); ok && len(found.known) == 0 {
			found.known = []hang.Known{k}
		}
	}
	return found
}

// knownByDumps returns the waits that the ranks' flight recorders show, the causes first.
func knownByDumps(view []byte) (all []hang.Known) {
	_, nodes, err := status.DecodeAnswers(view, status.TopicCollectives)
	if err != nil {
		return nil
	}
	var dumps []flight.Dump
	for _, n := range nodes {
		if a, err := flight.DecodeAnswer(n.Body); n.Answered && err == nil {
			dumps = append(dumps, a.Dumps...)
		}
	}
	for _, v := range flight.Compare(dumps) {
		all = append(all, hang.Known{
			Waiting: v.Waiting, Ranks: v.Ranks(), Collective: v.Collective(), Text: v.String(), Where: v.Where(), WaitAt: v.Call.Where(),
			Closed: v.Kind == flight.Cycle, Other: v.Kind == flight.Other, Age: v.Call.For,
		})
	}
	return all
}

// knownByStacks returns the wait that the ranks' stacks show: some are in a collective, and
// the others are in another one or in none.
func knownByStacks(job *stacks.Job) (k hang.Known, ok bool) {
	w, ok := job.Wait()
	if !ok {
		return k, false
	}
	k = hang.Known{Waiting: w.Waiting, Ranks: w.Ranks, Collective: w.Call, WaitAt: w.At, Other: w.Other != ""}
	k.Text = "ranks wait in " + w.Call
	if k.Other {
		k.Text = fmt.Sprintf("%s is in %s, not in the %s at %s in which %s wait", hang.Ranks(w.Ranks[:1]), w.Other, w.Call, w.At, hang.Ranks(w.Waiting))
	}
	return k, true
}

// ends reports whether a finding ends the round.
func (q *Inquiry) ends(f *hang.Finding) bool {
	return q.opts.End && f.MayStop(q.opts.Timeout)
}

// report reports a hang and, if the user wants that and the finding is sure enough, ends the
// round.
func (q *Inquiry) report(ctx context.Context, f *hang.Finding, p places) {
	c := &rendezvous.Cause{
		Kind: rendezvous.KindHang, GroupRank: -1, Rank: -1, LocalRank: -1, Message: f.Sentence(p.place()), Time: time.Now(),
		Hang: rendezvous.Hang{Ranks: f.Ranks, Collective: f.Collective, Where: f.Where, Final: q.opts.Final},
	}
	if len(f.Ranks) > 0 {
		c.Rank = f.Ranks[0]
		c.PID = f.PID(c.Rank)
		if n := p.node(c.Rank); n != nil {
			c.Node, c.Host, c.Addr, c.GroupRank, c.LocalRank = n.ID, n.Host, n.Addr, n.GroupRank, c.Rank-n.FirstRank
		}
		if where := p.where(c.Rank); where != "" && (c.Where == "" || !f.IsStopped(c.Rank)) { // a stopped worker is asked in vain
			c.Where = where
		}
	}
	q.stopped = q.ends(f)
	if q.stopped && q.opts.BeforeStop != nil {
		q.opts.BeforeStop(ctx, c)
	}
	if q.opts.End && !q.stopped {
		c.Message += "; the job is not ended, as no collective is known in which ranks wait"
	}
	q.opts.Post(rendezvous.Hung{Round: q.round, Cause: c, Stop: q.stopped})
}
