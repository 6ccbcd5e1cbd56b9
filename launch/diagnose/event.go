package diagnose

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
	"github.com/gorun/gorun/launch/diagnose/wording"
)

const (
	maxGroups  = 512  // groups of events
	maxDetails = 16   // groups of events that differ in numbers only
	keptEvents = 64   // events of each group, half of them the first and half the last
	maxWaiting = 64   // events whose later lines are counted
	maxTracked = 4096 // streams with a traceback, ends, hosts with a version
	// survivedAfter is the number of later lines that shows that the job survived an
	// error. It is more than the other workers print after one has failed.
	survivedAfter = 2000
	// hintLines lines without progress count as one line with progress, because hints and
	// help texts follow an error.
	hintLines = 10
	// wentOnBeside is the number of such lines of another worker that show that the job
	// survived an error in words that no row knows.
	wentOnBeside = 12
	// passedAfter is the number of lines with a number of the training, of any worker, after
	// which a wait is over, or work was started again.
	passedAfter = 2
)

// event is one piece of evidence: a line or a traceback that has a meaning.
type event struct {
	row     *compiledRow
	kind    catalogue.Kind // the row's, unless the event changes it
	log     int
	number  int64
	section string // the file or the command whose lines the log contains; "": unknown
	when    prefix.Stamp
	stream  streamKey

	origin
	text string

	following
	marks

	excerpt *excerpt // nil: the event is not the first of its meaning
}

// marks are what other lines show of an event.
type marks struct {
	inTraceback bool // a traceback contains it
	derived     bool // several lines show it together, or what is missing in them
	handled     bool // the program or its launcher overcame it, as another line says
	repeated    bool // its lines are of a flood
	isShared    bool // other processes printed its line, too
	isUncaught  bool // it is an exception that nothing in the program caught
}

// following counts the lines after an event.
type following struct {
	later int // lines of its stream that show that it went on
	other int // all of its stream
	steps int // of any stream that show a number of the training
	// beside counts the lines of the stream witness, the first other one that showed
	// progress after the event.
	beside  int
	witness streamKey
}

// origin names the rank and the process of an event, as far as they are known.
// Unknown numbers are -1 (pid: 0), unknown names are empty.
type origin struct {
	rank, local, task, pid int
	host, peer             string
	home                   string // the host of the log, which counts where nothing names another
	named                  []int  // ranks that the line itself names
}

// unknownOrigin returns the origin of an event that no rank or process is known for.
func unknownOrigin() origin { return origin{rank: -1, local: -1, task: -1} }

// mayBeHandled reports whether more lines followed e than a worker prints while it
// ends.
func (e *event) mayBeHandled() bool {
	return e.survived() || e.kind.Has(catalogue.LastOnly) && e.later > 2
}

// survived reports whether the worker survived e.
func (e *event) survived() bool {
	return e.handled || e.kind.Has(catalogue.MayPass) && !e.inTraceback && e.steps > passedAfter || e.later > survivedAfter || e.kind.Has(catalogue.MayBeCaught) && e.later > lastLines || e.kind.Has(catalogue.General) && e.beside > wentOnBeside
}

// displace marks e as handled after which so many errors came that it is not the last
// word of its writer.
func (e *event) displace() { e.handled = e.handled || e.kind.Has(catalogue.MayBeCaught) }

// isMild reports whether e is a warning about a lost peer, as ranks print them that end
// after another one.
func (e *event) isMild() bool {
	return e.row.Kind.Has(catalogue.LossOfPeer) && strings.HasPrefix(e.text, "[W")
}

// likeness returns what equal errors have in common: the row and the text without its
// numbers.
func (e *event) likeness() string {
	return e.row.Key + ":" + strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, e.text[:min(len(e.text), 80)])
}

// hasOrigin reports whether a line says which process e is of.
func (e *event) hasOrigin() bool {
	return e.rank >= 0 || e.local >= 0 || e.pid > 0 || e.task >= 0 || len(e.named) > 0
}

// fillOrigin sets the rank, pid and host of e to those of a worker's end.
func (e *event) fillOrigin(end *event) {
	e.rank, e.local, e.pid, e.host = end.rank, end.local, end.pid, cmp.Or(end.host, e.host)
	e.task = max(e.task, end.task)
}

// group holds events of one meaning: the first ones and the last ones.
type group struct {
	row    *compiledRow
	count  int64
	events []*event
	ring   int              // the index in the second half that the next event takes
	ranks  map[int]struct{} // of all events
}

// record adds an event to the group of its row and detail.
func (s *Scanner) record(e *event, detail string) *event {
	g := s.groupOf(e, detail)
	g.count++
	if g.count == 1 && e.excerpt == nil && e.kind.MayExplain() {
		s.openExcerpt(e)
	}
	s.flood.present.group = g
	s.followCrash(e)
	if last := s.lastEvent; last == nil || e.kind.Tier() <= last.kind.Tier() || last.stream != e.stream || e.number-last.number > detailLines {
		s.lastEvent = e
	}
	if e.rank >= 0 && len(e.named) == 0 && len(g.ranks) < maxTracked {
		g.ranks[e.rank] = struct{}{}
	}
	if len(g.events) < keptEvents {
		g.events = append(g.events, e)
	} else {
		g.events[keptEvents/2+g.ring] = e
		g.ring = (g.ring + 1) % (keptEvents / 2)
	}
	if e.kind.MayExplain() {
		s.follow(e)
	}
	return e
}

// follow begins to count the lines that follow e. Of many errors of one stream the oldest
// is not its last word.
func (s *Scanner) follow(e *event) {
	if len(s.followed) >= maxWaiting {
		at := max(0, slices.IndexFunc(s.followed, func(o *event) bool { return o.stream == e.stream }))
		if o := s.followed[at]; o.stream == e.stream {
			o.displace()
		}
		s.followed = slices.Delete(s.followed, at, at+1)
	}
	s.followed = append(s.followed, e)
}

// groupOf returns the group of the events with the row and the detail of e. Of many
// details that differ in numbers only, the last ones share a group.
func (s *Scanner) groupOf(e *event, detail string) *group {
	key := strings.TrimSuffix(e.row.Key+"\x00"+detail, "\x00")
	if detail != "" && s.groups[key] == nil {
		likeness := e.likeness()
		switch {
		case len(s.groups) >= maxGroups:
			key = e.row.Key
		case s.details[likeness] >= maxDetails:
			key = likeness
		default:
			s.details[likeness]++
		}
	}
	if s.groups[key] == nil {
		s.groups[key] = &group{row: e.row, ranks: map[int]struct{}{}}
	}
	return s.groups[key]
}

// newEvent returns the event of a line.
func (s *Scanner) newEvent(row *compiledRow, l *line) *event {
	return &event{
		row: row, kind: row.Kind, log: l.stream.log, number: l.number, section: s.sectionName(), when: l.When, stream: l.stream,
		text: match.PlainText(l.raw), marks: marks{repeated: s.flood.isRepeated()},
		origin: origin{rank: l.Rank, local: l.Local, task: l.Task, pid: l.PID, host: l.Host, home: s.present().home.known()},
	}
}

// tensorOptions matches the part of torch's fingerprints of collectives that is the same for
// all ranks.
var tensorOptions = match.Lazy(`, TensorDeviceTypes=TensorOptions\(.*?memory_format=\([^)]*\)\)`)

// newMatch returns the event of a line that a row matches. The start of a long line says
// little.
func (s *Scanner) newMatch(row *compiledRow, f *match.Fields, l *line) *event {
	e := s.newEvent(row, l)
	if len(l.raw) > match.MaxText && bytes.Contains(l.raw, []byte("TensorOptions(")) {
		e.text = match.PlainText(tensorOptions().ReplaceAll(l.raw, nil))
	} else if len(l.raw) > match.MaxText && f.Start > match.MaxText/2 {
		e.text = "… " + match.PlainText(l.raw[f.Start:])
	}
	return e
}

// recordMatch records a line that a row matches.
func (s *Scanner) recordMatch(row *compiledRow, f *match.Fields, l *line) {
	if isQuoted(l.raw, f.Start) && row.Key != catalogue.RowMount && row.Key != catalogue.RowMountRefused { // of which kubectl shows the Output:
		return
	}
	if row.Kind.Has(catalogue.General) {
		s.recordLoud(row, f, l)
		return
	}
	if (row.Key == catalogue.RowUnknownWarning || row.Key == catalogue.RowTransport) && s.matcher.wordings.Has(wording.Cascade, l.raw) {
		row = s.matcher.byKey[catalogue.RowCascade]
	}
	if last := s.unfinished.event; row.Key == catalogue.RowMPIAdapter && last != nil && last.row.Key == catalogue.RowMPI && last.stream == l.stream {
		return // a line of the stack of the error
	}
	e := s.newMatch(row, f, l)
	if row.Key == catalogue.RowSelfTest || row.Key == catalogue.RowTwiceCheckedIn { // the rank that reports it is not at fault
		e.origin = unknownOrigin()
	}
	e.named = f.Numbers("rank")
	e.peer = f.Text("peer")
	e.host = cmp.Or(f.Text("host"), e.host)
	if pid := f.Number("pid"); pid >= 0 {
		e.pid = pid
	}
	if e.host == "" && e.rank < 0 {
		e.host = s.podOf(l)
	}
	if e.host == "" && e.peer == "" && !e.hasOrigin() && row.Key != catalogue.RowSelfTest {
		e.nameOrigin(s.matcher.wordings, l.raw)
	}
	if last := s.lastEvent; e.host == "" && !e.hasOrigin() && s.inRecordOf(last, l) {
		e.host = last.host
	}
	if last := s.lastEvent; row.Key == catalogue.RowActorNode && last != nil && last.row.Key == catalogue.RowActorDied && last.stream == e.stream && e.number-last.number < detailLines {
		e.host = last.host
	}
	e.readFields(l.raw)
	if strings.HasPrefix(row.Source, "help-") || isHeadline(e.text) { // Open MPI wraps the lines of its help texts
		s.unfinished = unfinished{event: e, from: l.number}
	}
	restarted, hasRestarted := s.job.overcome[l.stream.log]
	if row.Kind.Has(catalogue.MayBeCaught) && bytes.HasPrefix(l.raw, []byte("[W")) || (row.Kind.Has(catalogue.MayBeCaught) || row.Kind == catalogue.Clue) && levelOfTensorFlow().Match(l.raw) { // the level of torch's logger
		e.kind = catalogue.Warning
	}
	e.handled = row.Kind.Has(catalogue.MayBeCaught) && warningLine().Match(l.raw) ||
		row.Kind == catalogue.Primary && maySurvive(row) && s.matcher.wordings.GoesOn(l.raw) ||
		row.Key == catalogue.RowStopped && hasRestarted && l.number-restarted < detailLines // a restart stops the workers that are left
	s.record(e, "")
	if t := s.tracebacks[l.stream]; t != nil && t.isOpen() {
		t.events = append(t.events[:min(len(t.events), 16)], e)
	}
}

// maySurvive reports whether a process can go on after an error of a row.
func maySurvive(row *compiledRow) bool {
	return !slices.Contains([]string{"X-CUDAERR", "X-LIBRARY", "X-RESOURCES", "X-SEGV", "D01"}, row.ID())
}

// levelOfTensorFlow matches the front of a line that TensorFlow wrote as a warning or as
// information.
var levelOfTensorFlow = match.Lazy(`^[WI] \S+\.cc:\d+\] `)

// countLaterLines counts the lines of a stream that follow an error, because the
// program may have caught the error.
func (s *Scanner) countLaterLines(l *line) {
	words := s.matcher.wordings
	if len(s.followed) == 0 || len(l.raw) == 0 || isShutdownLine(l.raw) {
		return
	}
	isStep := words.Has(wording.Step, l.raw)
	if l.raw[0] == ' ' && !isStep {
		return
	}
	isSoon := func(e *event) bool { return e.later < 3 && e.stream == l.stream }
	soon := slices.ContainsFunc(s.followed, isSoon)
	if soon && (words.Has(wording.Cascade, l.raw) || words.Has(wording.Summary, l.raw)) {
		return
	}
	progresses := words.Progresses(l.raw) || isResult(l.raw)
	recovers := soon && words.GoesOn(l.raw)
	kept := s.followed[:0]
	for _, e := range s.followed {
		if isStep && !slices.Contains(e.named, l.Rank) {
			e.steps++
		}
		if e.stream == l.stream {
			e.handled = e.handled || recovers && e.later < 3 && e.kind != catalogue.Root && e.kind != catalogue.Stop && maySurvive(e.row)
			if e.other++; progresses || e.other%hintLines == 0 {
				e.later++
			}
		} else if progresses && (e.beside == 0 || e.witness == l.stream) {
			e.beside++
			e.witness = l.stream
		}
		if !e.survived() && l.number-e.number < maxFollowed {
			kept = append(kept, e)
		}
	}
	s.followed = kept
}

// isResult reports whether a line is a row of numbers, as programs print their results.
func isResult(line []byte) bool {
	return line[0] <= '9' && bytes.ContainsAny(bytes.TrimSpace(line), " \t") && len(bytes.Trim(line, "0123456789.eE+- \t\r")) == 0
}

// isShutdownLine reports whether workers print such a line while they end: torch's
// warnings, stack frames, NCCL's messages.
func isShutdownLine(line []byte) bool {
	return len(line) > 3 && line[0] == '[' && bytes.IndexByte([]byte("EWIF"), line[1]) >= 0 && (line[2] != ' ' || line[3] > '9') ||
		bytes.HasPrefix(line, []byte("frame #")) || bytes.HasPrefix(line, []byte("terminate called")) || bytes.Contains(line, []byte("NCCL ")) ||
		bytes.HasPrefix(line, []byte("-----")) || bytes.HasPrefix(line, []byte("note: ")) || bytes.HasPrefix(line, []byte("Exception ignored")) || catalogue.LauncherLine().Match(line)
}

// nameOrigin gives e the host and the rank that a text names, where nothing else does.
func (e *event) nameOrigin(words *wording.Matcher, text []byte) {
	if host := words.Named(wording.Host, text); host != nil && e.host == "" {
		e.host = match.PlainText(host)
	}
	if rank := words.Named(wording.Rank, text); rank != nil && e.rank < 0 {
		e.rank, _ = strconv.Atoi(string(rank))
	}
}
