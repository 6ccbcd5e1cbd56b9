package diagnose

import (
	"cmp"
	"slices"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// preferTopic moves an error whose words name a topic before the first one, if that one names
// none and the same writer printed both: other words of the same error, or what a library
// printed before it raised an exception.
func (s *Scanner) preferTopic(all []*hypothesis) {
	hasTopic := func(h *hypothesis) bool { return !h.row.Topical || s.matcher.topicID(h.row, h.first.text) != "" }
	top := all[0]
	if hasTopic(top) {
		return
	}
	isBeside := func(h *hypothesis) bool {
		distance := h.first.number - top.first.number
		switch top.row.Key {
		case catalogue.RowLogged:
			return max(distance, -distance) < detailLines
		case catalogue.RowFatal:
			return h.row == top.row && 0 < distance && distance < lastLines
		case catalogue.RowException:
			return -detailLines < distance && distance < 0 && h.first.later == 0 && h.first.kind.Has(catalogue.General)
		}
		return false
	}
	for i, h := range all {
		if h.row.Kind.Has(catalogue.General) && h.tier < catalogue.TierSurvived && h.first.stream == top.first.stream && h.first.rank == top.first.rank && isBeside(h) && hasTopic(h) {
			moveToFront(all, i)
			return
		}
	}
}

// moveToFront makes the i-th hypothesis the first one, of its tier.
func moveToFront(all []*hypothesis, i int) {
	h := all[i]
	h.tier = all[0].tier
	copy(all[1:], all[:i])
	all[0] = h
}

// preferOvercome moves the first error that a program overcame, or seemed to, before the first
// one, if all others only sum up other errors: it tried again, until it gave up.
func preferOvercome(all []*hypothesis) {
	top := all[0]
	for i, h := range all {
		switch {
		case h.tier < catalogue.TierSurvived && h.row.Key != catalogue.RowSummary, h.tier > catalogue.TierSurvived:
			return
		case h.tier == catalogue.TierSurvived && h.row.Kind.Tier() <= catalogue.TierClue && before(h.first, top.first):
			moveToFront(all, i)
			return
		}
	}
}

// preferSpecific moves the first hypothesis that says more before one of the same tier that
// only sums up other errors.
func preferSpecific(all []*hypothesis) {
	if all[0].row.Key != catalogue.RowSummary {
		return
	}
	for i, h := range all {
		if h.tier == all[0].tier && h.row.Key != catalogue.RowSummary {
			moveToFront(all, i)
			return
		}
	}
}

// adoptHost gives the first hypothesis, if no line says where it is from, the only host of the
// lines beside it that are about the same: of its effects, or with its meaning.
func adoptHost(all []*hypothesis) {
	top := all[0].first
	if top.host != "" || top.hasOrigin() || top.peer != "" {
		return
	}
	host := ""
	for _, h := range all[1:] {
		distance := h.first.number - top.number
		isAbout := h.row.ID() == top.row.ID() || slices.Contains(top.row.Explains, h.row.ID()) || slices.Contains(top.row.Checks, h.row.ID())
		if h.first.log != top.log || h.first.host == "" || !isAbout || max(distance, -distance) > 2*besideSpan {
			continue
		}
		if host != "" && host != h.first.host {
			return
		}
		host = h.first.host
	}
	top.host = host
}

// markConsequences gives the tier of consequences to hypotheses that a better one
// explains: by its row, for errors that say little by the loss of a peer, and for a server
// that was not reached by the end of another process before.
func (s *Scanner) markConsequences(list []*hypothesis) {
	var lost *event // the first that shows a lost peer
	for _, h := range list {
		if h.row.Kind.Has(catalogue.LossOfPeer) && (lost == nil || before(h.first, lost)) {
			lost = h.first
		}
	}
	for _, h := range list {
		explains := func(o *hypothesis) bool {
			return o != h && o.tier < catalogue.TierVague && slices.Contains(o.row.Explains, h.row.ID())
		}
		if h.tier < catalogue.TierVague && slices.ContainsFunc(list, explains) || lost != nil && (h.tier == catalogue.TierVague || h.row.Kind == catalogue.Symptom && !before(h.first, lost)) {
			h.tier = catalogue.TierConsequence
		}
		if exit := s.job.firstExit; exit != nil && s.seeksPeer(h) && comparable(exit, h.first) && before(exit, h.first) && exit.stream != h.first.stream {
			h.tier = catalogue.TierConsequence // its peer is what ended
		}
	}
}

// seeksPeer reports whether h may explain the failure by a server or a host that was not
// reached.
func (s *Scanner) seeksPeer(h *hypothesis) bool {
	id := cmp.Or(s.matcher.topicID(h.row, h.first.text), h.row.ID())
	return h.tier < catalogue.TierVague && (id == "X-CONNECT" || id == "X-DNS")
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
func (s *Scanner) tierOf(e *event) catalogue.Tier {
	t := e.kind.Tier()
	switch {
	case e.row.CauseIf != "" && s.job.facts[e.row.CauseIf] != "":
		return catalogue.TierCause
	case t < catalogue.TierSurvived && e.survived():
		return catalogue.TierSurvived
	}
	return t
}

// setSeverities sets the severities of hypotheses in order of probability. A
// hypothesis is a consequence if a better explanation comes before it.
func setSeverities(all []*hypothesis) {
	top := all[0]
	for i, h := range all {
		switch {
		case h.tier == catalogue.TierHarmless:
			h.severity = SeverityHarmless
		case h.tier == catalogue.TierConsequence,
			h.tier != top.tier && (top.tier == catalogue.TierCause || h.tier > catalogue.TierAbsence),
			i > 0 && h.tier == catalogue.TierCause && h.row.Kind == catalogue.Unreachable:
			h.severity = SeverityConsequence
		default:
			h.severity = SeverityCause
		}
	}
}

// order compares the times of a and b, or their logs and lines where times are
// unknown or equal. Of two logs an event with a time comes first.
func order(a, b *event) int {
	if a.when.IsKnown() != b.when.IsKnown() && a.log != b.log {
		if a.when.IsKnown() {
			return -1
		}
		return 1
	}
	if a.when.IsKnown() && b.when.IsKnown() {
		if c := a.when.Cmp(b.when); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.log, b.log), cmp.Compare(a.number, b.number))
}

func before(a, b *event) bool { return order(a, b) < 0 }

// comparable reports whether it is known which of a and b came first.
func comparable(a, b *event) bool {
	return a.log == b.log || a.when.IsKnown() && b.when.IsKnown()
}
