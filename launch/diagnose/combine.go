package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// isDirect reports whether e alone shows a cause.
func (e *event) isDirect() bool { return e.kind.Tier() == catalogue.TierCause && !e.survived() }

// promoteFirst makes e a cause if it came before all direct causes. Order in time is
// evidence: what happened to the job first explains what happened to it later.
func (e *event) promoteFirst(direct []*event) {
	mayPrecede := func(o *event) bool {
		if e.kind == catalogue.Stop && o.kind == catalogue.Unreachable && !(e.when.IsKnown() && o.when.IsKnown()) {
			return false // what was stopped cannot be reached
		}
		return o.kind == catalogue.Root || !comparable(e, o) || !before(e, o) || slices.Contains(e.named, o.rank)
	}
	if len(direct) > 0 && !slices.ContainsFunc(direct, mayPrecede) {
		e.kind = catalogue.Primary
	}
}

// suspects are the events that may explain the failure.
type suspects struct {
	causes []*event // each alone shows a cause
	others []*event // they count if there is no cause
	stop   *event   // the first stop from outside; nil: none
}

// suspectsOf sorts the events of all hypotheses.
func suspectsOf(all []*hypothesis) suspects {
	var of suspects
	for _, h := range all {
		for _, e := range h.events {
			if e.kind == catalogue.Stop && (of.stop == nil || before(e, of.stop)) {
				of.stop = e
			}
			switch t := e.kind.Tier(); {
			case e.isDirect():
				of.causes = append(of.causes, e)
			case h.row.Key == catalogue.RowStopped, t == catalogue.TierVague && !e.inTraceback: // a launcher stops the other workers after any end
			case t != catalogue.TierWarning && t != catalogue.TierHarmless && !e.survived():
				of.others = append(of.others, e)
			}
		}
	}
	return of
}

// rivals returns the events that a stop must precede to be the cause: causes and clues
// or, if there are none and no watchdog waited, errors in words that no row knows.
func (of *suspects) rivals(hasTimeouts bool) []*event {
	all := slices.Clone(of.causes)
	var loud []*event
	hasOther := hasTimeouts
	for _, e := range of.others {
		switch {
		case e.kind.Tier() == catalogue.TierClue:
			all = append(all, e)
		case e.kind.Has(catalogue.General):
			loud = append(loud, e)
		case e.kind != catalogue.Stop:
			hasOther = true
		}
	}
	if len(all) == 0 && !hasOther {
		return loud
	}
	return all
}

// weighStop makes the stop a cause if it came before its rivals. The workers may hear of
// it before its line.
func (s *Scanner) weighStop(of suspects) {
	begun := *of.stop
	if first := s.job.stopping; first != nil && first.log == begun.log && before(first, &begun) {
		begun.number, begun.when = first.number, first.when
	}
	begun.promoteFirst(of.rivals(len(s.job.timeouts) > 0))
	of.stop.kind = begun.kind
	if begun.kind == catalogue.Stop && begun.row.Key == catalogue.RowNodeFailed { // errors in unknown words may be its effects
		of.stop.kind = catalogue.Clue
	}
}

// combine returns the events that only several lines together show.
func (s *Scanner) combine(all []*hypothesis) []*event {
	of := suspectsOf(all)
	if of.stop != nil {
		s.weighStop(of)
	}
	s.nameWriters(of.causes)
	s.nameWriters(of.others)
	s.nameProcess(all)
	var combined []*event
	add := func(e *event, counts bool) {
		if e != nil && counts {
			combined = append(combined, e)
		}
	}
	hasNoCause := len(of.causes) == 0
	timeout := s.timeoutEvent()
	if timeout != nil {
		timeout.promoteFirst(of.causes)
	}
	add(timeout, true)
	add(s.twiceEvent(), hasNoCause)
	for _, e := range s.endEvents() {
		if e.row.Key == catalogue.RowKilled && slices.ContainsFunc(of.others, e.endsAfter) {
			e.kind = catalogue.Ending
		}
		add(e, !of.explain(e))
	}
	add(s.hostIDEvent(all), true)
	add(s.exitEvent(all), hasNoCause && len(combined) == 0)
	s.nameOnlyHost(all)
	isExplicit := func(e *event) bool { return e.kind.Tier() < catalogue.TierSurvived && e.kind != catalogue.Stop }
	add(s.hangEvent(), hasNoCause && len(combined) == 0 && !slices.ContainsFunc(of.others, isExplicit))
	return combined
}

// explain reports whether other events explain the end e: a crash by its own line, any
// other end by a cause or by an error of the same worker.
func (of *suspects) explain(end *event) bool {
	if end.kind.Tier() == catalogue.TierCause {
		return slices.ContainsFunc(of.causes, func(o *event) bool { return o.row.Key == end.row.Key || o.row.Key == catalogue.RowRAS })
	}
	return len(of.causes) > 0 || slices.ContainsFunc(of.others, func(o *event) bool {
		if end.row.Key == catalogue.RowKilled && o.kind.Tier() >= catalogue.TierConsequence {
			return false // no consequence kills a process
		}
		return o.rank < 0 || o.rank == end.rank || o.pid > 0 && o.pid == end.pid
	})
}

// minMessage is the shortest message by which two lines are known to be about one error, in
// bytes.
const minMessage = 16

// findRaisers gives an exception that one process raised and another reported the place of
// its first report: schedulers of tasks raise the errors of their workers once more.
func findRaisers(all []*hypothesis) {
	for _, h := range all {
		e := h.first
		_, message, ok := strings.Cut(e.text, ": ")
		if message, _, _ = strings.Cut(message, " ("); h.row.Key != catalogue.RowException || !ok || len(message) < minMessage {
			continue
		}
		for _, o := range all {
			if first := o.first; first.row.Kind.Has(catalogue.General) && first.stream != e.stream && comparable(first, e) && before(first, e) && strings.Contains(first.text, message) {
				e.log, e.number, e.when, e.stream, e.origin, e.text = first.log, first.number, first.when, first.stream, first.origin, first.text
			}
		}
	}
}

// endsAfter reports whether the worker's end e soon follows the error o in words that no
// row knows: a program that said why it stops was not killed for its memory.
func (e *event) endsAfter(o *event) bool {
	return o.kind.Has(catalogue.General) && o.log == e.log && o.number <= e.number && e.number-o.number <= 3*lastLines
}

// exitEvent returns an event for the first rank that ended normally before the others
// lost a peer, nil if there is none.
func (s *Scanner) exitEvent(all []*hypothesis) *event {
	var lost []*event
	for _, h := range all {
		if h.row.Kind.Has(catalogue.LossOfPeer) {
			lost = append(lost, h.events...)
		}
	}
	if !slices.ContainsFunc(lost, func(e *event) bool { return !e.isMild() }) {
		return nil
	}
	var first *event
	for _, rank := range slices.Sorted(maps.Keys(s.job.exited)) {
		e := s.job.exited[rank]
		isAhead := len(lost) > 0
		for _, o := range lost {
			isAhead = isAhead && o.rank != rank && before(e, o)
		}
		if isAhead && !e.handled && (first == nil || before(e, first)) {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	return copies(first)[0]
}

// hostIDEvent returns an event if two ranks on different hosts say that they share a
// GPU: NCCL takes the hosts for one.
func (s *Scanner) hostIDEvent(all []*hypothesis) *event {
	hosts := map[int]string{}
	for _, h := range all {
		for _, e := range h.events {
			if h.row.Key != catalogue.RowTwoOnGPU || len(e.named) != 2 || e.host == "" {
				continue
			}
			hosts[e.named[0]] = e.host // the rank that prints the line comes first in it
			other := hosts[e.named[1]]
			if addresses := s.job.nccl.addressesOf(e.host); len(addresses) > 1 { // two hosts of one name
				other = strings.Join(addresses, ", ")
			}
			if other != "" && other != e.host {
				both := *e
				both.row = s.matcher.byKey[catalogue.RowHostID]
				both.kind, both.host, both.derived = both.row.Kind, "", true
				both.text = other + " and " + e.host + ": " + e.text
				return &both
			}
		}
	}
	return nil
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
	e := &event{row: s.matcher.byKey[catalogue.RowMissing], kind: catalogue.Absence, marks: marks{derived: true}, log: last.log, number: last.number, origin: unknownOrigin()}
	e.text = rankList(ranks) + " began to initialise NCCL and did not end"
	var missing []int
	for r := range s.worldSize() {
		if !began[r] {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		e.named = s.job.gaps(missing)
		e.text += "; " + rankList(missing) + " did not begin, as far as this log shows"
	}
	return e
}
