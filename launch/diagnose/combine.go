package diagnose

import (
	"cmp"
	"maps"
	"slices"
)

// isDirect reports whether e alone shows a cause.
func (e *event) isDirect() bool { return e.kind.tier() == tierCause && !e.survived() }

// promoteFirst makes e a cause if it came before all direct causes. Order in time is
// evidence: what happened to the job first explains what happened to it later.
func (e *event) promoteFirst(direct []*event) {
	mayPrecede := func(o *event) bool {
		return o.kind == Root || !comparable(e, o) || !before(e, o) || slices.Contains(e.named, o.rank)
	}
	if len(direct) > 0 && !slices.ContainsFunc(direct, mayPrecede) {
		e.kind = Primary
	}
}

// rivals returns the events that a stop must precede to be the cause: causes and clues
// or, if there are none and no watchdog waited, errors in words that no row knows.
func (s *Scanner) rivals(direct, weaker []*event) []*event {
	all := slices.Clone(direct)
	var loud []*event
	hasOther := false
	for _, e := range weaker {
		switch {
		case e.kind.tier() == tierClue:
			all = append(all, e)
		case e.kind.has(general):
			loud = append(loud, e)
		case e.kind != Stop:
			hasOther = true
		}
	}
	if len(all) == 0 && !hasOther && len(s.job.timeouts) == 0 {
		return loud
	}
	return all
}

// combine returns the events that only several lines together show.
func (s *Scanner) combine(all []*hypothesis) []*event {
	var direct, weaker []*event
	var stop *event // the first one
	for _, h := range all {
		for _, e := range h.events {
			if h.row.Kind == Stop {
				if stop == nil || before(e, stop) {
					stop = e
				}
			}
			switch t := e.kind.tier(); {
			case e.isDirect():
				direct = append(direct, e)
			case h.row.Key == rowStopped, t == tierVague && !e.inTraceback: // a launcher stops the other workers after any end
			case e.kind != Warning && e.kind != Harmless && !e.survived():
				weaker = append(weaker, e)
			}
		}
	}
	if stop != nil {
		begun := *stop // the workers may hear of it before its line
		if first := s.job.stopping; first != nil && first.log == stop.log && before(first, stop) {
			begun.number, begun.when = first.number, first.when
		}
		begun.promoteFirst(s.rivals(direct, weaker))
		stop.kind = begun.kind
		if stop.kind == Stop && stop.row.Key == rowNodeFailed { // errors in unknown words may be its effects
			stop.kind = Clue
		}
	}
	s.nameWriters(direct)
	s.nameWriters(weaker)
	var combined []*event
	if w := s.timeoutEvent(); w != nil {
		w.promoteFirst(direct)
		combined = append(combined, w)
	}
	if s.job.sharedGPU != nil && len(direct) == 0 {
		combined = append(combined, s.job.sharedGPU)
	}
	if e := s.twiceEvent(); e != nil && len(direct) == 0 {
		combined = append(combined, e)
	}
	for _, e := range s.endEvents() {
		sameWorker := func(o *event) bool {
			if e.row.Key == rowKilled && o.kind.tier() == tierConsequence { // nobody is killed because a peer was lost
				return false
			}
			return o.rank < 0 || o.rank == e.rank || o.pid > 0 && o.pid == e.pid
		}
		sameCrash := func(o *event) bool { return o.row.Key == e.row.Key || o.row.Key == rowRAS }
		isCrash := e.kind.tier() == tierCause
		switch {
		case isCrash && slices.ContainsFunc(direct, sameCrash), !isCrash && (len(direct) > 0 || slices.ContainsFunc(weaker, sameWorker)):
		default:
			combined = append(combined, e)
		}
	}
	for _, find := range []func([]*hypothesis) *event{s.hostIDEvent, s.exitEvent} {
		if e := find(all); e != nil && (e.kind.tier() == tierCause || len(direct) == 0 && len(combined) == 0) {
			combined = append(combined, e)
		}
	}
	s.nameOnlyHost(all)
	explicit := func(e *event) bool { return e.kind.tier() < tierSurvived && e.kind != Stop }
	if len(direct) == 0 && len(combined) == 0 && !slices.ContainsFunc(weaker, explicit) {
		if e := s.hangEvent(); e != nil {
			combined = append(combined, e)
		}
	}
	return combined
}

// hangEvent returns an event for the ranks that began to initialise a
// communicator and did not finish, nil if there are none. The log of a job that
// hangs ends there. The event counts only if nothing else explains the failure.
func (s *Scanner) hangEvent() *event {
	if len(s.job.inits) == 0 {
		return nil
	}
	open := slices.SortedFunc(maps.Keys(s.job.inits), func(a, b initKey) int {
		return cmp.Or(cmp.Compare(a.comm, b.comm), cmp.Compare(a.rank, b.rank))
	})
	var ranks []int
	began := map[int]bool{}
	for _, k := range open {
		if k.comm == open[0].comm {
			ranks = append(ranks, k.rank)
			began[k.rank] = true
		}
	}
	last := s.job.inits[open[len(open)-1]]
	e := &event{row: s.matcher.byKey[rowMissing], kind: Absence, derived: true, log: last.log, number: last.number, origin: origin{rank: -1, local: -1, task: -1}}
	e.text = rankList(ranks) + " began to initialise NCCL and did not end"
	var missing []int
	for r := range s.worldSize() {
		if !began[r] {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		e.named = s.job.writers.gaps(missing)
		e.text += "; " + rankList(missing) + " did not begin, as far as this log shows"
	}
	return e
}
