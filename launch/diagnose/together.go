package diagnose

import "slices"

// firstOf makes the first Ordered hint a cause if there are causes and it came
// before all of them.
func (s *Scanner) firstOf(known map[string]*verdict) {
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
			if e.class == Primary && !v.row.Weak && !e.wentOn() {
				if !comparable(hint, e) || before(e, hint) {
					return
				}
				class = Primary
			}
		}
	}
	hint.class = class
}

// togetherTold returns the events that only several lines together show.
func (s *Scanner) togetherTold(known map[string]*verdict) []*event {
	var direct, weaker []*event
	for _, v := range known {
		for _, e := range v.events {
			switch {
			case e.class == Primary && !e.wentOn() && !v.row.Weak:
				direct = append(direct, e)
			case v.row.Key == rowStopped, v.row.Last: // a launcher stops the other workers after any end
			case !v.row.Weak && e.class != Harmless && !e.wentOn():
				weaker = append(weaker, e)
			}
		}
	}
	var told []*event
	if w := s.waits(); w != nil {
		later := func(e *event) bool {
			return comparable(w, e) && order(w, e) < 0 && !slices.Contains(w.named, e.rank)
		}
		if len(direct) > 0 && !slices.ContainsFunc(direct, func(e *event) bool { return !later(e) }) {
			w.class = Primary // all direct causes came after it
		}
		told = append(told, w)
	}
	if s.job.shared != nil && len(direct) == 0 {
		told = append(told, s.job.shared)
	}
	for _, e := range s.endings() {
		same := func(o *event) bool { return o.rank < 0 || o.rank == e.rank || o.pid > 0 && o.pid == e.pid }
		crash := func(o *event) bool { return o.row.Key == e.row.Key || o.row.Key == rowRAS }
		switch {
		case e.class == Primary && slices.ContainsFunc(direct, crash):
			for _, o := range direct {
				if crash(o) {
					o.take(e)
				}
			}
		case e.class != Primary && (len(direct) > 0 || slices.ContainsFunc(weaker, same)):
		default:
			told = append(told, e)
		}
	}
	if len(direct) == 0 && len(told) == 0 {
		if e := s.hanging(); e != nil {
			told = append(told, e)
		}
	}
	return told
}
