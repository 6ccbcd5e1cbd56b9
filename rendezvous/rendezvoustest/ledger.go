package rendezvoustest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Ledger watches all agents of one run id and notes what must not happen.
type Ledger struct {
	fenced bool
	began  time.Time

	mu      sync.Mutex
	lines   []string
	broken  []string
	worlds  map[string]rendezvous.World             // the latest, by job and round
	accepts map[string]map[rendezvous.NodeID]bool   // by digest
	alive   map[rendezvous.NodeID]*rendezvous.World // whose workers live there
	spans   map[rendezvous.NodeID][]span            // of workers
	labels  map[rendezvous.NodeID]string
	frozen  map[rendezvous.NodeID]time.Time // until when the node's process is stopped
	ended   map[rendezvous.NodeID]bool      // agents that crashed or finished
	made    []rendezvous.World              // worlds that were started, in that order
	prompt  bool                            // every agent learns of a failure in time
}

// span is the life of a node's workers of one round.
type span struct {
	Job         string
	Round       int
	Begin, Over time.Time // Over is zero while they live
}

func newLedger(fenced bool) *Ledger {
	return &Ledger{
		fenced: fenced, began: time.Now(), worlds: map[string]rendezvous.World{}, accepts: map[string]map[rendezvous.NodeID]bool{},
		alive: map[rendezvous.NodeID]*rendezvous.World{}, spans: map[rendezvous.NodeID][]span{}, labels: map[rendezvous.NodeID]string{},
		frozen: map[rendezvous.NodeID]time.Time{}, ended: map[rendezvous.NodeID]bool{}, prompt: true,
	}
}

// note keeps a line for the reader of a failed case.
func (l *Ledger) note(f string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked(f, args...)
}

func (l *Ledger) noteLocked(f string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf("%9.3f ", time.Since(l.began).Seconds())+fmt.Sprintf(f, args...))
}

func (l *Ledger) breachLocked(f string, args ...any) {
	l.noteLocked("BREACH: "+f, args...)
	l.broken = append(l.broken, fmt.Sprintf(f, args...))
}

// breach notes what must not happen.
func (l *Ledger) breach(f string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breachLocked(f, args...)
}

func (l *Ledger) accepted(id rendezvous.NodeID, digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepts[digest] == nil {
		l.accepts[digest] = map[rendezvous.NodeID]bool{}
	}
	l.accepts[digest][id] = true
}

// started notes that workers of a world begin at a node.
func (l *Ledger) started(id rendezvous.NodeID, w rendezvous.World) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, label := w.Digest(), l.labels[id]
	l.noteLocked("%s starts round %d of %s (term %d, %s) with %d nodes", label, w.Round, w.Job, w.Term, d[:6], len(w.Members))
	key := fmt.Sprintf("%s/%d", w.Job, w.Round)
	if old, ok := l.worlds[key]; ok && old.Digest() != d && (l.fenced || l.lives(old)) {
		l.breachLocked("two worlds in round %d: %s and %s", w.Round, old.Digest()[:6], d[:6])
	}
	l.worlds[key] = w
	l.checkSplit(w, d)
	if l.alive[id] != nil {
		l.breachLocked("%s starts round %d while round %d runs there", label, w.Round, l.alive[id].Round)
	}
	for _, m := range w.Members {
		if m.ID != w.Coordinator && !l.accepts[d][m.ID] {
			l.breachLocked("%s starts round %d, which %s has not accepted", label, w.Round, l.labels[m.ID])
		}
	}
	for o, lives := range l.alive {
		if (l.fenced || w.Index(o) >= 0) && lives.Digest() != d && l.acts(o) && (!l.fenced || l.acts(id)) {
			l.breachLocked("round %d of %s starts on %s while round %d of %s runs on %s", w.Round, w.Job, label, lives.Round, lives.Job, l.labels[o])
		}
	}
	l.alive[id] = &w
	l.spans[id] = append(l.spans[id], span{Job: w.Job, Round: w.Round, Begin: time.Now()})
}

// acts reports whether an agent's process could act for the last second.
func (l *Ledger) acts(id rendezvous.NodeID) bool {
	until, was := l.frozen[id]
	return !was || time.Since(until) > time.Second
}

// freeze notes until when an agent's process cannot act.
func (l *Ledger) freeze(id rendezvous.NodeID, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen[id] = until
}

// lives reports whether an agent of a world has not ended. Without a fence, nodes
// that find all agents of the last world lost cannot know which round they were in.
func (l *Ledger) lives(w rendezvous.World) bool {
	return slices.ContainsFunc(w.Members, func(m rendezvous.Member) bool { return !l.ended[m.ID] })
}

// checkSplit checks that, without a fence, worlds that follow each other share a
// node, unless the agents of the first have ended. Two that share none are two jobs.
func (l *Ledger) checkSplit(w rendezvous.World, digest string) {
	if l.fenced || slices.ContainsFunc(l.made, func(v rendezvous.World) bool { return v.Digest() == digest }) {
		return
	}
	between := func(a, b, c int) bool { return a < b && b < c || c < b && b < a }
	for _, v := range l.made {
		next := !slices.ContainsFunc(l.made, func(o rendezvous.World) bool { return between(v.Round, o.Round, w.Round) })
		shares := slices.ContainsFunc(v.Members, func(m rendezvous.Member) bool { return w.Index(m.ID) >= 0 })
		if next && !shares && l.lives(v) {
			l.breachLocked("round %d (restart %d) and round %d (restart %d) have no node in common", v.Round, v.Restart, w.Round, w.Restart)
		}
	}
	l.made = append(l.made, w)
}

// mustStop checks that no worker of a round lives a while after its first failure.
func (l *Ledger) mustStop(w rendezvous.World, within time.Duration) {
	time.AfterFunc(within, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id, lives := range l.alive {
			if l.prompt && lives.Job == w.Job && lives.Round == w.Round {
				l.breachLocked("%s still runs round %d, %v after its failure", l.labels[id], w.Round, within)
			}
		}
	})
}

// over notes that no worker lives at a node any more.
func (l *Ledger) over(id rendezvous.NodeID, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.alive[id]; w != nil {
		l.noteLocked("%s: no worker of round %d lives any more: %s", l.labels[id], w.Round, why)
		delete(l.alive, id)
		s := l.spans[id]
		s[len(s)-1].Over = time.Now()
	}
}

func (l *Ledger) finished(id rendezvous.NodeID, o rendezvous.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked("%s finishes: %s", l.labels[id], describe(&o))
	l.ended[id] = true
	if l.alive[id] != nil {
		l.breachLocked("%s finishes while its workers run", l.labels[id])
	}
}

func describe(o *rendezvous.Outcome) string {
	if o == nil {
		return "nothing"
	}
	if o.Cause == nil {
		return fmt.Sprintf("%d (success)", o.Code)
	}
	return fmt.Sprintf("%d (%s: %s)", o.Code, o.Cause.Kind, o.Cause.Line())
}
