package diagnose

import "slices"

// promoteEarliestHint makes the first Ordered hint a cause if there are causes and it came
// before all of them.
func (s *Scanner) promoteEarliestHint(known map[string]*hypothesis) {
	var hint *event
	for _, v := range known {
		for _, e := range v.events {
			if v.row.Ordered {
				e.class = v.row.Class // an earlier call may have changed it
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
	for _, v := range known {
		for _, e := range v.events {
			if e.class == Primary && !v.row.Weak && !e.survived() {
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
func (s *Scanner) combine(known map[string]*hypothesis) []*event {
	var direct, weaker []*event
	for _, v := range known {
		for _, e := range v.events {
			switch {
			case e.class == Primary && !e.survived() && !v.row.Weak:
				direct = append(direct, e)
			case v.row.Key == rowStopped, v.row.Last: // a launcher stops the other workers after any end
			case !v.row.Weak && e.class != Harmless && !e.survived():
				weaker = append(weaker, e)
			}
		}
	}
	var combined []*event
	if w := s.timeoutEvent(); w != nil {
		later := func(e *event) bool {
			return comparable(w, e) && order(w, e) < 0 && !slices.Contains(w.named, e.rank)
		}
		if len(direct) > 0 && !slices.ContainsFunc(direct, func(e *event) bool { return !later(e) }) {
			w.class = Primary // all direct causes came after it
		}
		combined = append(combined, w)
	}
	if s.job.sharedGPU != nil && len(direct) == 0 {
		combined = append(combined, s.job.sharedGPU)
	}
	for _, e := range s.endEvents() {
		same := func(o *event) bool { return o.rank < 0 || o.rank == e.rank || o.pid > 0 && o.pid == e.pid }
		crash := func(o *event) bool { return o.row.Key == e.row.Key || o.row.Key == rowRAS }
		switch {
		case e.class == Primary && slices.ContainsFunc(direct, crash):
			for _, o := range direct {
				if crash(o) {
					o.fillOrigin(e)
				}
			}
		case e.class != Primary && (len(direct) > 0 || slices.ContainsFunc(weaker, same)):
		default:
			combined = append(combined, e)
		}
	}
	if len(direct) == 0 && len(combined) == 0 {
		if e := s.hangEvent(); e != nil {
			combined = append(combined, e)
		}
	}
	return combined
}
