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
	groups := s.settle()
	if len(groups) == 0 || !s.job.failed && !slices.ContainsFunc(groups, (*verdict).evident) {
		return nil
	}
	slices.SortStableFunc(groups, func(a, b *verdict) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), order(a.first, b.first), cmp.Compare(a.row.Key, b.row.Key))
	})
	demote(groups)
	doubt := !s.job.failed && !slices.ContainsFunc(groups, (*verdict).sure)
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

// verdict is a group of events that becomes a finding.
type verdict struct {
	row      *compiled
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
	tierWentOn
	tierConsequence
	tierHarmless
)

// evident reports whether the group alone shows that the job failed.
func (v *verdict) evident() bool {
	if v.row.IfIB && v.tier == tierCause {
		return true
	}
	return v.tier != tierHarmless && slices.ContainsFunc(v.events, func(e *event) bool {
		return !e.doubtful() && (!v.row.Weak || e.raised)
	})
}

// sure reports whether the group shows a failure that no program can have
// handled, or an error after which its stream printed nothing.
func (v *verdict) sure() bool {
	return v.evident() && (!v.row.MayGoOn || slices.ContainsFunc(v.events, func(e *event) bool { return e.later == 0 }))
}

// settle makes verdicts of the groups, of what several lines show together and
// of what launchers report.
func (s *Scanner) settle() []*verdict {
	all := map[string]*verdict{}
	add := func(key string, row *compiled, e *event, count int64) {
		if key == row.Key+"\x00" {
			key = row.Key
		}
		v := all[key]
		if v == nil {
			v = &verdict{row: row}
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
			if g.row.Key == rowCrashed && s.inRAS(e) {
				ras := *e
				ras.row = s.m.byKey[rowRAS]
				add(rowRAS, ras.row, &ras, count)
				continue
			}
			add(key, g.row, e, count)
		}
	}
	s.firstOf(all)
	for _, e := range s.togetherTold(all) {
		add(e.row.Key, e.row, e, 1)
	}
	list := slices.Collect(maps.Values(all))
	lost, better := false, false
	for _, v := range list {
		s.settleOne(v)
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

// settleOne finds the worker of each event, and the group's first event and
// tier.
func (s *Scanner) settleOne(v *verdict) {
	for _, e := range v.events {
		s.place(e)
	}
	tier := func(e *event) int {
		switch {
		case e.class == Harmless && e.row.IfIB && s.job.nccl.askedIB:
			return tierCause
		case e.class == Harmless:
			return tierHarmless
		case e.class == Consequence:
			return tierConsequence
		case e.wentOn():
			return tierWentOn
		case e.class == Hint:
			return tierHint
		}
		return tierCause
	}
	v.first = slices.MinFunc(v.events, func(a, b *event) int { return cmp.Or(cmp.Compare(tier(a), tier(b)), order(a, b)) })
	v.tier = tier(v.first)
}

// inRAS reports whether a crash is one of NCCL's RAS thread: the frames of that
// thread follow, or those of a libnccl that has the bug.
func (s *Scanner) inRAS(e *event) bool {
	at := spot{e.log, e.number}
	const stack = 80 // lines
	near := func(f spot) bool { return f.near(at, stack) }
	if slices.ContainsFunc(s.job.nccl.ras, near) {
		return true
	}
	return strings.HasPrefix(s.job.nccl.version, "2.26.") && slices.ContainsFunc(s.job.nccl.frames, near)
}

// demote sets severities. A verdict is a consequence if a better explanation
// comes before it. groups are in order of probability.
func demote(groups []*verdict) {
	top := groups[0]
	for i, v := range groups {
		switch {
		case v.tier == tierHarmless:
			v.severity = SeverityHarmless
		case v.tier == tierConsequence:
			v.severity = SeverityConsequence
		case i > 0 && top.tier == tierCause && (v.tier != tierCause || v.row.AfterDeath || v.row.Weak):
			v.severity = SeverityConsequence
		case i > 0 && top.tier < tierWentOn && v.tier == tierWentOn:
			v.severity = SeverityConsequence
		default:
			v.severity = SeverityCause
		}
	}
}

// order compares the times of a and b, or their logs and lines where times are
// unknown or equal. Of two logs an event with a time comes first.
func order(a, b *event) int {
	if a.when.known() != b.when.known() && a.log != b.log {
		if a.when.known() {
			return -1
		}
		return 1
	}
	if a.when.known() && b.when.known() {
		if c := a.when.cmp(b.when); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.number, b.number))
}

func before(a, b *event) bool { return order(a, b) < 0 }

// comparable reports whether it is known which of a and b came first.
func comparable(a, b *event) bool {
	return a.log == b.log || a.when.known() && b.when.known()
}
