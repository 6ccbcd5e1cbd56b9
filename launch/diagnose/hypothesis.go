package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// Findings returns what the logs that were read mean, the most probable cause
// first. It returns none for a job that did not fail. The scanner may go on
// reading.
//
// A cause is the earliest event of the most probable tier: in time, or in the order of the
// logs and their lines where they have no time. Beside it, events that an earlier
// one explains are consequences.
func (s *Scanner) Findings() []Finding {
	s.job.findHosts()
	s.findSpans()
	all := s.hypotheses()
	if len(all) == 0 || !s.job.failed && !slices.ContainsFunc(all, (*hypothesis).showsFailure) {
		return nil
	}
	slices.SortStableFunc(all, func(a, b *hypothesis) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), order(a.first, b.first), cmp.Compare(a.row.Key, b.row.Key))
	})
	preferSpecific(all)
	s.preferTopic(all)
	preferOvercome(all)
	adoptHost(all)
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
	ranks    map[int]struct{} // of recorded events that are not kept, too; nil: none are
	count    int64
	first    *event
	tier     catalogue.Tier
	severity Severity
}

// showsFailure reports whether h alone shows that the job failed.
func (h *hypothesis) showsFailure() bool {
	return h.tier != catalogue.TierHarmless && slices.ContainsFunc(h.events, func(e *event) bool {
		return !e.mayBeHandled() && (e.kind != catalogue.Warning || e.inTraceback)
	})
}

// showsCertainFailure reports whether h shows a failure that no program can have
// handled, or an error after which its stream printed no more than a worker prints
// while it ends. After the line of a good end that takes more than a clue.
func (s *Scanner) showsCertainFailure(h *hypothesis) bool {
	return h.showsFailure() && slices.ContainsFunc(h.events, func(e *event) bool {
		switch {
		case e.survived(), s.job.wentWell[e.log] && e.kind != catalogue.Stop:
			return false
		case e.kind == catalogue.Root:
			return true
		case e.kind == catalogue.Warning && !e.inTraceback, e.kind == catalogue.Logged && e.row.Key == catalogue.RowLogged, e.row.Key == catalogue.RowCascade: // programs log many errors
			return false
		case e.kind.Has(catalogue.MayBeCaught):
			return e.later == 0 && e.other <= 3 || e.isUncaught && e.later <= 2 && e.other <= lastLines
		}
		return e.later <= lastLines
	})
}

// hypotheses returns the hypotheses with their tiers. They come from the groups of
// events, from lines that show something together and from ends that launchers
// report.
func (s *Scanner) hypotheses() []*hypothesis {
	list := s.weigh(s.wasOvercome)
	saysLittle := func(h *hypothesis) bool { return h.tier >= catalogue.TierEnding }
	if len(s.job.restarted) > 0 && s.job.failed && !slices.ContainsFunc(list, func(h *hypothesis) bool { return !saysLittle(h) }) {
		return s.weigh(s.endedWell) // the last attempt failed as the one before it
	}
	return list
}

// weigh returns the hypotheses without the errors that were overcome.
func (s *Scanner) weigh(wasOvercome func(*event) bool) []*hypothesis {
	all := s.recorded(wasOvercome)
	markStale(all.list())
	for _, e := range s.combine(all.list()) {
		all.add(e.row.Key, e, 1)
	}
	for _, e := range s.lastResort(all) {
		all.add(e.row.Key, e, 1)
	}
	list := all.list()
	for _, h := range list {
		s.rate(h)
	}
	findRaisers(list)
	s.markConsequences(list)
	return list
}

// hypothesisSet holds hypotheses by their keys: a row, or a row and a detail.
type hypothesisSet map[string]*hypothesis

// add adds an event, which stands for count lines.
func (all hypothesisSet) add(key string, e *event, count int64) {
	h := all[key]
	if h == nil {
		h = &hypothesis{row: e.row}
		all[key] = h
	}
	h.events = append(h.events, e)
	h.count += count
}

// list returns the hypotheses in the order of their keys. The result of Findings must
// not depend on the order of a map, because times and lines may contradict each other.
func (all hypothesisSet) list() []*hypothesis {
	var list []*hypothesis
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[key])
	}
	return list
}

// recorded returns the hypotheses of the lines that were recorded. Their events are
// copies, because a later call of Findings must not read what this one finds out.
func (s *Scanner) recorded(wasOvercome func(*event) bool) hypothesisSet {
	all := hypothesisSet{}
	overcome := s.overcomeErrors()
	for key, g := range s.groups {
		for i, recorded := range g.events {
			e := new(event)
			*e = *recorded
			e.handled = e.handled || wasOvercome(e) || e.isMild() && len(s.job.exited) > 0 || overcome[e.likeness()]
			count := int64(1)
			if i == 0 {
				count += g.count - int64(len(g.events))
			}
			if e.row.Key == catalogue.RowCrashed && s.isRASCrash(e) {
				e.row = s.matcher.byKey[catalogue.RowRAS]
				all.add(catalogue.RowRAS, e, count)
				continue
			}
			all.add(key, e, count)
		}
		if h := all[key]; h != nil && g.count > keptEvents {
			h.ranks = g.ranks
		}
	}
	return all
}

// overcomeErrors returns the likenesses of the errors that the program survived at least
// once, so that they are no reason for its end.
func (s *Scanner) overcomeErrors() map[string]bool {
	all := map[string]bool{}
	for _, g := range s.groups {
		for _, e := range g.events {
			if e.kind.Has(catalogue.MayBeCaught) && e.later > lastLines {
				all[e.likeness()] = true
			}
		}
	}
	return all
}

// lastResort returns what the ends of the logs say, if nothing else explains the failure.
func (s *Scanner) lastResort(all hypothesisSet) []*event {
	exit := s.job.lastExit
	if exit != nil && (!s.job.failed || s.wasOvercome(exit) || exit.log != len(s.logs)-1 || s.number-exit.number >= maxLastWords) {
		exit = nil
	}
	isReason := func(h *hypothesis) bool {
		return h.row.Key != catalogue.RowSummary && !(h.row.Key == catalogue.RowException && h.events[0].kind == catalogue.Symptom) // of a pipe whose other end had ended
	}
	if exit != nil && exit.row.Key != catalogue.RowNoReason && !slices.ContainsFunc(all.list(), isReason) { // the code is a signal
		return copies(exit)
	}
	if e := s.job.hint; e != nil && !s.overcomeErrors()[e.likeness()] && !slices.ContainsFunc(all.list(), e.isOutweighedBy) {
		return copies(e)
	}
	if len(all) == 0 && exit != nil {
		return copies(exit)
	}
	return nil
}

// copies returns a copy of an event that a later call of Findings may need as it is.
func copies(e *event) []*event {
	one := *e
	return []*event{&one}
}

// isOutweighedBy reports whether h may explain the failure, or knows the line of the hint e.
func (e *event) isOutweighedBy(h *hypothesis) bool {
	mayExplain := h.row.Kind != catalogue.Harmless && h.row.Key != catalogue.RowSummary
	return slices.ContainsFunc(h.events, func(o *event) bool {
		return mayExplain && !o.survived() || o.log == e.log && o.number == e.number
	})
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
