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
// A cause is the earliest line of class Primary: in time, or in the order of
// the logs and their lines where they have no time. If there is one, other
// lines that may be causes but that an earlier line explains are consequences.
func (s *Scanner) Findings() []Finding {
	s.job.findHosts()
	groups := s.hypotheses()
	if len(groups) == 0 || !s.job.failed && !slices.ContainsFunc(groups, (*hypothesis).showsFailure) {
		return nil
	}
	slices.SortStableFunc(groups, func(a, b *hypothesis) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), order(a.first, b.first), cmp.Compare(a.row.Key, b.row.Key))
	})
	setSeverities(groups)
	doubt := !s.job.failed && !slices.ContainsFunc(groups, (*hypothesis).showsCertainFailure)
	var found []Finding
	for _, tier := range []Severity{SeverityCause, SeverityConsequence, SeverityHarmless} {
		for _, g := range groups {
			if g.severity == tier {
				f := s.finding(g)
				f.Doubtful = doubt && tier == SeverityCause
				found = append(found, f)
			}
		}
	}
	return found
}

// hypothesis is a group of events that becomes a finding.
type hypothesis struct {
	row      *compiledRow
	events   []*event
	count    int64
	first    *event
	tier     int
	severity Severity
}

// The tiers of probability, the most probable first.
const (
	tierCause = iota
	tierHint
	tierSurvived
	tierConsequence
	tierHarmless
)

// showsFailure reports whether the group alone shows that the job failed.
func (v *hypothesis) showsFailure() bool {
	if v.row.IfInfiniBand && v.tier == tierCause {
		return true
	}
	return v.tier != tierHarmless && slices.ContainsFunc(v.events, func(e *event) bool {
		return !e.mayBeHandled() && (!v.row.Weak || e.inTraceback)
	})
}

// showsCertainFailure reports whether the group shows a failure that no program can have
// handled, or an error after which its stream printed nothing.
func (v *hypothesis) showsCertainFailure() bool {
	return v.showsFailure() && (!v.row.Catchable || slices.ContainsFunc(v.events, func(e *event) bool { return e.later == 0 }))
}

// hypotheses makes verdicts of the groups, of what several lines show together and
// of what launchers report.
func (s *Scanner) hypotheses() []*hypothesis {
	all := map[string]*hypothesis{}
	add := func(key string, row *compiledRow, e *event, count int64) {
		if key == row.Key+"\x00" {
			key = row.Key
		}
		v := all[key]
		if v == nil {
			v = &hypothesis{row: row}
			all[key] = v
		}
		v.events = append(v.events, e)
		v.count += count
	}
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[key]
		for i, e := range g.events {
			count := int64(1)
			if i == 0 {
				count += g.count - int64(len(g.events))
			}
			if g.row.Key == rowCrashed && s.isRASCrash(e) {
				ras := *e
				ras.row = s.m.byKey[rowRAS]
				add(rowRAS, ras.row, &ras, count)
				continue
			}
			add(key, g.row, e, count)
		}
	}
	s.promoteEarliestHint(all)
	for _, e := range s.combine(all) {
		add(e.row.Key, e.row, e, 1)
	}
	list := slices.Collect(maps.Values(all))
	lost, better := false, false
	for _, v := range list {
		s.rate(v)
		lost = lost || v.row.PeerLost
		better = better || v.tier <= tierHint && !v.row.Last
	}
	for _, v := range list {
		if v.tier == tierHint && (lost && v.row.IfAlone || better && v.row.Last) {
			v.tier = tierConsequence
		}
	}
	return list
}

// rate finds the worker of each event, and the group's first event and
// tier.
func (s *Scanner) rate(v *hypothesis) {
	for _, e := range v.events {
		s.locate(e)
	}
	tier := func(e *event) int {
		switch {
		case e.class == Harmless && e.row.IfInfiniBand && s.job.nccl.askedIB:
			return tierCause
		case e.class == Harmless:
			return tierHarmless
		case e.class == Consequence:
			return tierConsequence
		case e.survived():
			return tierSurvived
		case e.class == Hint:
			return tierHint
		}
		return tierCause
	}
	v.first = slices.MinFunc(v.events, func(a, b *event) int { return cmp.Or(cmp.Compare(tier(a), tier(b)), order(a, b)) })
	v.tier = tier(v.first)
}

// isRASCrash reports whether a crash is one of NCCL's RAS thread: the frames of that
// thread follow, or those of a libnccl that has the bug.
func (s *Scanner) isRASCrash(e *event) bool {
	at := lineRef{e.log, e.number}
	const stack = 80 // lines
	near := func(f lineRef) bool { return f.near(at, stack) }
	if slices.ContainsFunc(s.job.nccl.ras, near) {
		return true
	}
	return strings.HasPrefix(s.job.nccl.version, "2.26.") && slices.ContainsFunc(s.job.nccl.frames, near)
}

// setSeverities sets severities. A verdict is a consequence if a better explanation
// comes before it. groups are in order of probability.
func setSeverities(groups []*hypothesis) {
	top := groups[0]
	for i, v := range groups {
		switch {
		case v.tier == tierHarmless:
			v.severity = SeverityHarmless
		case v.tier == tierConsequence:
			v.severity = SeverityConsequence
		case i > 0 && top.tier == tierCause && (v.tier != tierCause || v.row.FirstOnly || v.row.Weak):
			v.severity = SeverityConsequence
		case i > 0 && top.tier < tierSurvived && v.tier == tierSurvived:
			v.severity = SeverityConsequence
		default:
			v.severity = SeverityCause
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
