package diagnose

import (
	"cmp"
	"maps"
	"slices"
)

// isDirect reports whether e alone shows a cause.
func (e *event) isDirect() bool { return e.class == Primary && !e.row.Weak && !e.survived() }

// promoteEarliestHint makes the earliest Ordered hint a cause if there are direct
// causes and the hint came before all of them.
func promoteEarliestHint(all []*hypothesis) {
	var hint *event
	for _, h := range all {
		for _, e := range h.events {
			if h.row.Ordered {
				e.class = h.row.Class // an earlier call may have changed it
				if hint == nil || before(e, hint) {
					hint = e
				}
			}
		}
	}
	if hint == nil {
		return
	}
	class := hint.class
	for _, h := range all {
		for _, e := range h.events {
			if e.isDirect() {
				if !comparable(hint, e) || before(e, hint) {
					return
				}
				class = Primary
			}
		}
	}
	hint.class = class
}

// combine returns the events that only several lines together show.
func (s *Scanner) combine(all []*hypothesis) []*event {
	var direct, weaker []*event
	for _, h := range all {
		for _, e := range h.events {
			switch {
			case e.isDirect():
				direct = append(direct, e)
			case h.row.Key == rowStopped, h.row.Last && !e.inTraceback: // a launcher stops the other workers after any end
			case !h.row.Weak && e.class != Harmless && !e.survived():
				weaker = append(weaker, e)
			}
		}
	}
	var combined []*event
	if w := s.timeoutEvent(); w != nil {
		mayPrecede := func(e *event) bool {
			return e.row.Root || !comparable(w, e) || !before(w, e) || slices.Contains(w.named, e.rank)
		}
		if len(direct) > 0 && !slices.ContainsFunc(direct, mayPrecede) {
			w.class = Primary // all direct causes came after it
		}
		combined = append(combined, w)
	}
	if s.job.sharedGPU != nil && len(direct) == 0 {
		combined = append(combined, s.job.sharedGPU)
	}
	for _, e := range s.endEvents() {
		sameWorker := func(o *event) bool { return o.rank < 0 || o.rank == e.rank || o.pid > 0 && o.pid == e.pid }
		sameCrash := func(o *event) bool { return o.row.Key == e.row.Key || o.row.Key == rowRAS }
		switch {
		case e.class == Primary && slices.ContainsFunc(direct, sameCrash):
			for _, o := range direct {
				if sameCrash(o) {
					o.fillOrigin(e)
				}
			}
		case e.class != Primary && (len(direct) > 0 || slices.ContainsFunc(weaker, sameWorker)):
			for _, o := range weaker {
				if len(s.job.ends) == 1 && sameWorker(o) {
					o.fillOrigin(e)
				}
			}
		default:
			combined = append(combined, e)
		}
	}
	for _, find := range []func([]*hypothesis) *event{s.hostIDEvent, s.exitEvent} {
		if e := find(all); e != nil && (e.class == Primary || len(direct) == 0 && len(combined) == 0) {
			combined = append(combined, e)
		}
	}
	s.nameOnlyHost(all)
	explicit := func(e *event) bool { return e.class == Hint && !e.row.Ordered }
	if len(direct) == 0 && len(combined) == 0 && !slices.ContainsFunc(weaker, explicit) {
		if e := s.hangEvent(); e != nil {
			combined = append(combined, e)
		}
	}
	return combined
}

// nameOnlyHost gives causes without an origin the host on which all workers ended
// that launchers report.
func (s *Scanner) nameOnlyHost(all []*hypothesis) {
	host := ""
	for _, end := range s.job.ends {
		if h := end.event.host; h == "" || host != "" && h != host {
			return
		}
		host = end.event.host
	}
	hasOrigin := func(e *event) bool {
		return e.host != "" || e.rank >= 0 || e.local >= 0 || e.pid > 0 || e.task >= 0
	}
	for _, h := range all {
		if h.row.Class == Primary && !slices.ContainsFunc(h.events, hasOrigin) {
			h.events[0].host = host
		}
	}
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
	e := &event{row: s.matcher.byKey[rowMissing], class: Hint, derived: true, log: last.log, number: last.number, origin: origin{rank: -1, local: -1, task: -1}}
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
