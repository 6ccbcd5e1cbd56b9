package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Findings returns what the logs that were read mean, the most probable cause
// first. It returns none for a job that did not fail. The scanner may go on
// reading.
//
// A cause is the earliest event of class Primary: in time, or in the order of the
// logs and their lines where they have no time. Beside it, events that an earlier
// one explains are consequences.
func (s *Scanner) Findings() []Finding {
	s.job.findHosts()
	all := s.hypotheses()
	if len(all) == 0 || !s.job.failed && !slices.ContainsFunc(all, (*hypothesis).showsFailure) {
		return nil
	}
	slices.SortStableFunc(all, func(a, b *hypothesis) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), order(a.first, b.first), cmp.Compare(a.row.Key, b.row.Key))
	})
	setSeverities(all)
	doubtful := !s.job.failed && !slices.ContainsFunc(all, s.showsCertainFailure)
	var found []Finding
	for _, severity := range []Severity{SeverityCause, SeverityConsequence, SeverityHarmless} {
		for _, h := range all {
			if h.severity == severity {
				f := s.finding(h)
				f.Doubtful = doubtful && severity != SeverityHarmless
				found = append(found, f)
			}
		}
	}
	return found
}

// hypothesis is a possible explanation of the failure: the events of one meaning.
// It becomes a finding.
type hypothesis struct {
	row      *compiledRow
	events   []*event
	count    int64
	first    *event
	tier     tier
	severity Severity
}

// showsFailure reports whether h alone shows that the job failed.
func (h *hypothesis) showsFailure() bool {
	if h.row.Kind == Harmless {
		return h.tier == tierCause
	}
	return h.tier != tierHarmless && slices.ContainsFunc(h.events, func(e *event) bool {
		return !e.mayBeHandled() && (e.kind != Warning || e.inTraceback)
	})
}

// showsCertainFailure reports whether h shows a failure that no program can have
// handled, or an error after which its stream printed no more than a worker prints
// while it ends. After the line of a good end that takes more than a symptom.
func (s *Scanner) showsCertainFailure(h *hypothesis) bool {
	return h.showsFailure() && slices.ContainsFunc(h.events, func(e *event) bool {
		switch {
		case s.job.wentWell[e.log] && e.kind.tier() >= tierSymptom && e.kind != Stop:
			return false
		case e.kind == Root || e.kind.tier() == tierConsequence:
			return true
		case e.kind == Logged && e.row.Key == rowLogged: // programs log many errors
			return false
		case e.kind.has(catchable):
			return e.later == 0 && e.other <= 3
		}
		return e.later <= lastLines
	})
}

// hypotheses returns the hypotheses with their tiers. They come from the groups of
// events, from lines that show something together and from ends that launchers
// report.
func (s *Scanner) hypotheses() []*hypothesis {
	all := map[string]*hypothesis{}
	add := func(key string, row *compiledRow, e *event, count int64) {
		if key == row.Key+"\x00" {
			key = row.Key
		}
		h := all[key]
		if h == nil {
			h = &hypothesis{row: row}
			all[key] = h
		}
		h.events = append(h.events, e)
		h.count += count
	}
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[key]
		for i, recorded := range g.events {
			e := new(event)
			*e = *recorded // a later call must not read what this one finds out
			e.handled = e.handled || s.wasOvercome(e) || e.isMild() && len(s.job.exited) > 0 || e.kind.has(catchable) && s.overcame[e.likeness()]
			count := int64(1)
			if i == 0 {
				count += g.count - int64(len(g.events))
			}
			if g.row.Key == rowCrashed && s.isRASCrash(e) {
				crash := *e
				crash.row = s.matcher.byKey[rowRAS]
				add(rowRAS, crash.row, &crash, count)
				continue
			}
			add(key, g.row, e, count)
		}
	}
	markStale(byKey(all))
	for _, e := range s.combine(byKey(all)) {
		add(e.row.Key, e.row, e, 1)
	}
	if e := s.job.hint; e != nil && !s.overcame[e.likeness()] && !slices.ContainsFunc(byKey(all), e.isOutweighedBy) {
		add(e.row.Key, e.row, e, 1)
	}
	if e := s.job.lastExit; len(all) == 0 && e != nil && s.job.failed && !s.wasOvercome(e) && e.log == len(s.logs)-1 && s.number-e.number < maxLastWords {
		add(e.row.Key, e.row, e, 1) // the log ends with it, and has no other word
	}
	list := byKey(all)
	var lost *event // the first that shows a lost peer
	for _, h := range list {
		s.rate(h)
		if h.row.Kind.has(lossOfPeer) && (lost == nil || before(h.first, lost)) {
			lost = h.first
		}
	}
	for _, h := range list {
		explains := func(o *hypothesis) bool {
			return o != h && o.tier < tierVague && slices.Contains(o.row.Explains, h.row.ID())
		}
		if h.tier < tierVague && slices.ContainsFunc(list, explains) || lost != nil && (h.tier == tierVague || h.row.Kind == Symptom && !before(h.first, lost)) {
			h.tier = tierConsequence
		}
	}
	return list
}

// isOutweighedBy reports whether h may explain the failure, or knows the line of the hint e.
func (e *event) isOutweighedBy(h *hypothesis) bool {
	mayExplain := h.row.Kind != Harmless && h.row.Key != rowSummary
	return slices.ContainsFunc(h.events, func(o *event) bool {
		return mayExplain && !o.survived() || o.log == e.log && o.number == e.number
	})
}

// byKey returns hypotheses in the order of their keys. The result of Findings must
// not depend on the order of a map, because times and lines may contradict each other.
func byKey(all map[string]*hypothesis) []*hypothesis {
	var list []*hypothesis
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[key])
	}
	return list
}

// rate finds the worker of each event, and the first event and the tier of h.
func (s *Scanner) rate(h *hypothesis) {
	for _, e := range h.events {
		s.locate(e)
	}
	h.first = slices.MinFunc(h.events, func(a, b *event) int {
		return cmp.Or(cmp.Compare(s.tierOf(a), s.tierOf(b)), order(a, b))
	})
	h.tier = s.tierOf(h.first)
}

// tierOf returns the tier of a hypothesis with the event e alone.
func (s *Scanner) tierOf(e *event) tier {
	t := e.kind.tier()
	switch {
	case e.row.CauseIf != "" && s.job.facts[e.row.CauseIf]:
		return tierCause
	case t < tierSurvived && e.survived():
		return tierSurvived
	}
	return t
}

// isRASCrash reports whether NCCL's RAS thread crashed: frames of that thread
// follow, or frames of a libnccl that has the bug.
func (s *Scanner) isRASCrash(e *event) bool {
	at := lineRef{e.log, e.number}
	const stack = 80 // lines
	near := func(f lineRef) bool { return f.near(at, stack) }
	if slices.ContainsFunc(s.job.nccl.ras, near) {
		return true
	}
	return strings.HasPrefix(s.job.nccl.version, "2.26.") && slices.ContainsFunc(s.job.nccl.frames, near)
}

// setSeverities sets the severities of hypotheses in order of probability. A
// hypothesis is a consequence if a better explanation comes before it.
func setSeverities(all []*hypothesis) {
	top := all[0]
	for i, h := range all {
		switch {
		case h.tier == tierHarmless:
			h.severity = SeverityHarmless
		case h.tier == tierConsequence,
			h.tier != top.tier && (top.tier == tierCause || h.tier > tierAbsence),
			i > 0 && h.tier == tierCause && h.row.Kind == Unreachable:
			h.severity = SeverityConsequence
		default:
			h.severity = SeverityCause
		}
	}
}

// order compares the times of a and b, or their logs and lines where times are
// unknown or equal. Of two logs an event with a time comes first.
func order(a, b *event) int {
	if a.when.isKnown() != b.when.isKnown() && a.log != b.log {
		if a.when.isKnown() {
			return -1
		}
		return 1
	}
	if a.when.isKnown() && b.when.isKnown() {
		if c := a.when.cmp(b.when); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.number, b.number))
}

func before(a, b *event) bool { return order(a, b) < 0 }

// comparable reports whether it is known which of a and b came first.
func comparable(a, b *event) bool {
	return a.log == b.log || a.when.isKnown() && b.when.isKnown()
}
