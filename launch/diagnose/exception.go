package diagnose

import (
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/python"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

// codeOnly matches an exception that says no more than a constant.
var codeOnly = match.Lazy(`^[\w.]+: [A-Z0-9]+_[A-Z0-9_]+$`)

// unreached matches what the system says of a server that cannot be reached.
var unreached = match.Lazy(`(?i)connection refused|connection timed out|no route to host|(?:network|host) is unreachable|failed to connect to all addresses`)

// stopText matches the text of an exception that a handler of signals raised.
var stopText = match.Lazy(`(?i)\b(?:received|got|caught|handling) (?:a |the )?(?:termination )?(?:signal )?(?:SIG(?:TERM|INT|HUP)\b|15\b)`)

// toldToStop matches the end of a process by a signal from outside.
var toldToStop = match.Lazy(`died with <Signals\.SIG(?:TERM|INT|HUP)\b`)

// meaningOf returns the row and the kind of an exception. The row is "" if a launcher
// raised e because a worker failed.
func (m *matcher) meaningOf(e *python.Exception) (key string, kind catalogue.Kind) {
	switch name := e.Class[strings.LastIndexByte(e.Class, '.')+1:]; {
	case name == "ChildFailedError", name == "ProcessRaisedException", spawnedLine().MatchString(strings.TrimPrefix(e.Text(), "Exception: ")):
		return "", catalogue.NoKind
	case name == "RendezvousTimeoutError":
		return catalogue.RowNoRendezvous, catalogue.AbsenceOfAll
	case name == "KeyboardInterrupt":
		return catalogue.RowInterrupted, catalogue.Vague
	case name == "SystemExit", name == "SignalException":
		return catalogue.RowStopException, catalogue.Consequence
	case stopText().MatchString(e.Text()):
		return catalogue.RowStopSignal, catalogue.Ending
	case m.showsLostPeer(e):
		return catalogue.RowPeerException, catalogue.PeerLost
	case unreached().MatchString(e.Text()) && (peerIn(e.Text()) != "" || strings.Contains(e.Text(), "RpcError")):
		return catalogue.RowUnreached, catalogue.Catchable
	case e.FromLauncher && e.Script == "":
		return catalogue.RowLauncherException, catalogue.Vague
	case name == "ModuleNotFoundError":
		return catalogue.RowNoModule, catalogue.Catchable
	case name == "FileNotFoundError", name == "PermissionError", name == "NotADirectoryError", name == "IsADirectoryError":
		return catalogue.RowNoFile, catalogue.Catchable
	case rayLoss().MatchString(e.Class) && ownerAddress(e) != "":
		return catalogue.RowOwnerDied, catalogue.Vague
	case rayLoss().MatchString(e.Class):
		return catalogue.RowActorDied, catalogue.Vague
	case name == "EOFError" && e.SaysNothing(), name == "BrokenPipeError", name == "ConnectionResetError", name == "ConnectionAbortedError": // the other side had ended
		return catalogue.RowException, catalogue.Symptom
	case strings.Contains(e.Source, "from_parent"): // the process that started it had ended
		return catalogue.RowStopException, catalogue.Consequence
	case name == "CalledProcessError" && toldToStop().MatchString(e.Text()):
		return catalogue.RowStopException, catalogue.Consequence
	case name == "CalledProcessError": // the process that failed printed more
		return catalogue.RowException, catalogue.Ending
	case codeOnly().MatchString(e.Text()), name == "ProcessExitedException", isDistributed(e):
		return catalogue.RowException, catalogue.CatchableClue
	}
	return catalogue.RowException, catalogue.Catchable
}

// showsLostPeer reports whether e was raised because a peer or the store was lost.
func (m *matcher) showsLostPeer(e *python.Exception) bool {
	text := e.Class + ": " + strings.Join(e.Message, "\n")
	showsLoss := func(line string) bool {
		row := m.rowOf([]byte(line))
		return row != nil && row.Kind.Has(catalogue.LossOfPeer)
	}
	isLost := isDistributed(e) && weakLostPeer().MatchString(text) || slices.ContainsFunc(strings.Split(text, "\n"), showsLoss)
	return isLost && !workerFault().MatchString(text)
}

// weakLostPeer matches words that programs also print about other connections
// (data, logging). They count only in an exception of torch.distributed.
var weakLostPeer = match.Lazy("(?i)" + catalogue.ConnectionClosed + `|(?:read|write) error \[.*timed out`)

// workerFault matches failures of the worker itself, even where NCCL or its
// watchdog reports them.
var workerFault = match.AnyOf(
	`(?i)CUDA error`, `Cuda failure`, `unhandled cuda error`, `CUDA out of memory`,
	`OutOfMemoryError`, `device-side assert`, `illegal memory access`, `ncclInvalidUsage`,
)

var (
	distributedFile = match.Lazy(`/torch/distributed/|torch[/\\]_?c10d`)
	// storeSource matches a call of the store. Old versions raise only
	// "RuntimeError: Connection reset by peer" from a method of the store. The
	// method has no Python frame, so only the line of its call shows the store.
	storeSource = match.Lazy(`(?i)store(?:\(\))?\.(?:get|set|add|wait|check|compare_set|delete_key|num_keys)\(`)
)

// isDistributed reports whether torch.distributed raised e.
func isDistributed(e *python.Exception) bool {
	return strings.HasPrefix(e.Class, "torch.distributed.") ||
		e.Class == "RuntimeError" && (distributedFile().MatchString(e.File) || storeSource().MatchString(e.Source))
}

// recordException records an exception. end is the number of the line that ended
// it, 0 if none did. An event within the traceback explains the exception better
// than the exception's class.
func (s *Scanner) recordException(t *tracebackReader, e python.Exception, end int64) {
	defer func() { t.lineBefore = lineBefore{} }() // of this exception only
	if e.FromLauncher && !strings.HasSuffix(e.Class, "ChildFailedError") {
		s.job.facts[catalogue.AgentFailed] = "yes"
	}
	events := t.events
	t.events = nil
	if t.quotes {
		t.previous.kind, t.quotes = catalogue.Consequence, false
	}
	if n := len(events); n > 0 && events[n-1].number == end {
		events, t.events = events[:n-1], events[n-1:]
	}
	switch best := strongest(events); {
	case best != nil:
		if last := t.previous; last != nil && last.row.Key == catalogue.RowDataset && !e.Chained && best.kind.Tier() <= catalogue.TierClue {
			last.kind = catalogue.Consequence // it is about this one
		}
		s.explainBy(best, t, &e)
	case t.lead != nil && !t.lead.kind.Has(catalogue.General) && t.lead.kind.MayExplain() && e.SaysNothing():
		s.explainBy(t.lead, t, &e)
	case t.previous != nil && (e.Chained || t.previous.row.Key == catalogue.RowDataset):
		t.extendPrevious(&e)
	case rayTaskHead().MatchString(e.Text()):
		s.job.failed = true // the traceback of the task follows
	case s.addSpawnEnd(e.Text(), &t.last):
	default:
		key, kind, reason := s.meaningInContext(&e)
		if key == "" {
			s.job.failed = true
			return
		}
		ev := s.exceptionEvent(t, &e, s.matcher.byKey[key])
		ev.kind, ev.text = kind, match.PlainText([]byte(e.Text()+reason))+placeOf(&e)
		if t.isBare = e.SaysNothing(); t.isBare && t.lead != nil && t.lead.kind.Has(catalogue.General) {
			ev.text = t.lead.text + ": " + ev.text
		}
		t.previous = s.record(ev, e.Text()[:min(len(e.Text()), 200)])
	}
}

// placeOf returns the file and line where e was raised, in brackets after a blank, "" if
// they are unknown.
func placeOf(e *python.Exception) string {
	place := e.Place()
	if place == "" {
		return ""
	}
	dir, file := path.Split(place)
	return " (" + match.PlainText([]byte(path.Join(path.Base(dir), file))) + ")"
}

// unusedParameters matches the line in which DDP says which parameters of the model a step did
// not use, at the end of a long message.
var unusedParameters = match.Lazy(`^Parameter(?: indices|s) which did not receive grad for rank \d+: `)

// explainBy adds what e says to the event of a line of its message or of the line before it,
// which says more than the exception does.
func (s *Scanner) explainBy(best *event, t *tracebackReader, e *python.Exception) {
	if best.rank < 0 {
		best.rank = t.rank
	}
	if best.rank < 0 && best.local < 0 && t.spawned >= 0 {
		best.local = t.spawned
	}
	s.fillTask(best)
	s.nameByMessage(best, e)
	best.inTraceback, best.isUncaught, best.later = true, e.FromMain, e.LaterLines()
	for _, line := range e.Message {
		if unusedParameters().MatchString(line) && !strings.Contains(best.text, line) {
			best.text = match.PlainText([]byte(line)) + ": " + best.text
			break
		}
	}
	if len(best.text) < match.MaxText {
		if last := e.LastError(); last != "" && !strings.Contains(best.text, last) {
			best.text += ": " + match.PlainText([]byte(last))
		}
		if at := placeOf(e); !strings.HasSuffix(best.text, at) {
			best.text += at
		}
	}
	best.handled = best.handled || t.isHandled && best.kind != catalogue.Root
	if best.excerpt != nil && len(best.excerpt.before) == 0 {
		best.excerpt.before = framesOf(e)
	}
	t.previous = best
}

// extendPrevious adds e, which was raised while the previous exception was handled, to that
// one.
func (t *tracebackReader) extendPrevious(e *python.Exception) {
	t.previous.later = e.LaterLines() // the lines between belong to one traceback
	if t.isBare && !e.SaysNothing() {
		t.previous.text += ": " + match.PlainText([]byte(e.Text()))
		t.isBare = false
	}
	if !e.Chained && t.previous.number > t.last.number-100 { // the dataset's own exception
		t.previous.text += ": " + match.PlainText([]byte(e.Text())) + placeOf(e)
	}
}

// meaningInContext returns the row and the kind of e as meaningOf does, or those of a row
// that knows all lines of its message together. reason is the error that the message quotes
// from another process.
func (s *Scanner) meaningInContext(e *python.Exception) (key string, kind catalogue.Kind, reason string) {
	key, kind = s.matcher.meaningOf(e)
	if key == catalogue.RowException && kind == catalogue.Catchable {
		if row := s.matcher.rowOf([]byte(e.Text())); row != nil && row.Kind.Tier() == catalogue.TierCause {
			key, kind = row.Key, row.Kind
		}
	}
	if key == catalogue.RowException && (strings.HasPrefix(e.Class, "ray.exceptions.") || s.matcher.wordings.Has(wording.Summary, []byte(e.Text()))) {
		key, kind = catalogue.RowSummary, catalogue.Vague
		if reason = s.errorIn(e.Message); reason != "" {
			key, kind = catalogue.RowLogged, catalogue.CatchableClue
		}
	}
	return key, kind, reason
}

// exceptionEvent makes the event of an exception that ended at t's last line: its writer,
// and whether the program handled it.
func (s *Scanner) exceptionEvent(t *tracebackReader, e *python.Exception, row *compiledRow) *event {
	ev := s.newEvent(row, &t.last)
	if ev.rank < 0 || t.isNamed {
		ev.rank = t.rank
	}
	if ev.rank < 0 && ev.local < 0 && t.spawned >= 0 {
		ev.local = t.spawned
	}
	ev.repeated, ev.isUncaught = t.repeated, e.FromMain
	s.fillTask(ev)
	ev.later = e.LaterLines()
	ev.handled = t.isHandled || s.job.wentWell[ev.log] && e.Script == "" // finalizers fail at exit
	for _, line := range e.Message[min(1, len(e.Message)):] {
		if python.ErrorLine().MatchString(line) { // of another exception
			break
		}
		if n := number(trailingRank(), []byte(line)); n >= 0 && !ev.hasOrigin() {
			ev.rank = n
		}
		ev.handled = ev.handled || saysItGoesOn().MatchString(line)
	}
	if ev.host == "" && !ev.hasOrigin() {
		ev.nameOrigin(s.matcher.wordings, []byte(e.Text()))
	}
	s.nameByMessage(ev, e)
	ev.excerpt = s.messageOf(e)
	return ev
}

// errorIn returns the last line of a message that a program below the exception printed as
// its error, "" if there is none.
func (s *Scanner) errorIn(message []string) string {
	for _, line := range slices.Backward(message[min(1, len(message)):]) {
		text := []byte(strings.TrimSpace(line))
		if row := s.matcher.rowOf(text); row != nil && row.Kind.Tier() <= catalogue.TierLogged && !s.matcher.wordings.Has(wording.Summary, text) {
			return ": " + string(text)
		}
	}
	return ""
}

// nameByMessage gives an exception the host that a later line of its message names, where
// nothing else says where it is from.
func (s *Scanner) nameByMessage(ev *event, e *python.Exception) {
	if owner := ownerAddress(e); owner != "" {
		ev.host = owner
		return
	}
	for _, line := range e.Message[min(1, len(e.Message)):] {
		if host := s.matcher.wordings.Named(wording.Host, []byte(line)); host != nil && ev.host == "" && !ev.hasOrigin() {
			ev.host = match.PlainText(host)
		}
	}
}

// trailingRank matches the rank that tracing's loggers print below a text.
var trailingRank = match.Lazy(`^ rank=(\d{1,6})$`)

// strongest returns the first event of the strongest kind, nil if there is
// none.
func strongest(events []*event) *event {
	rank := func(e *event) int {
		switch e.kind.Tier() {
		case catalogue.TierCause:
			return 0
		case catalogue.TierConsequence: // an exception that names a lost peer
			return 1
		case catalogue.TierHarmless:
			return 3
		}
		return 2
	}
	var best *event
	for _, e := range events {
		if rank(e) < 3 && e.kind != catalogue.Warning && (best == nil || rank(e) < rank(best)) {
			best = e
		}
	}
	return best
}

// saysItGoesOn matches a line of a message, or of the program after it, that says what the
// program does in spite of the exception.
var saysItGoesOn = match.Lazy(`(?i)^\W{0,3}(?:(?:we are |we will |i am |will )?(?:retry|retrying|retried|skip|skipping|skipped|ignoring|ignored|falling back|fell back|continuing|recovered)|using \S+ instead)\b`)
