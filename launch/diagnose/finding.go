package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
)

// Severity says how a finding relates to the failure.
type Severity string

const (
	SeverityCause       Severity = "cause"
	SeverityConsequence Severity = "consequence"
	SeverityHarmless    Severity = "harmless"
)

// Finding sums up all lines of one meaning.
type Finding struct {
	ID       string   `json:"id"`               // "D01", "X-CUDAOOM"
	Checks   []string `json:"checks,omitempty"` // further checks that concern it
	Row      string   `json:"row"`              // key of the row in docs/explain.md
	Severity Severity `json:"severity"`
	// Doubtful means that no line shows that the job failed. The program
	// printed more after the line, so it may have handled the error.
	Doubtful bool `json:"doubtful,omitempty"`

	// Rank is the rank to blame or, for a consequence, the first affected rank; -1:
	// unknown. Ranks are all such ranks, ascending, at most 64.
	Rank  int   `json:"rank"`
	Ranks []int `json:"ranks,omitempty"`
	// ofJob means that the fault is one of the whole job, or of several processes, which Rank
	// only reports.
	ofJob bool
	// otherHosts is how many other hosts printed lines of the same meaning.
	otherHosts int
	// isPod means that Host is a pod of Kubernetes.
	isPod bool
	// Local is that rank's local rank on Host; -1: unknown.
	Local int    `json:"local_rank"`
	Host  string `json:"host,omitempty"`
	Node  string `json:"node,omitempty"` // of Kubernetes, on which the pod Host ran
	Peer  string `json:"peer,omitempty"` // the lost or unreachable peer that the line names

	File string `json:"file"` // of the first line; "-" for standard input
	// Section is the file or the command whose lines File contains there, as tail's heads and
	// prompts of a shell show it.
	Section string `json:"section,omitempty"`
	Line    int64  `json:"line"` // from 1; 0: none
	Count   int64  `json:"count"`
	Text    string `json:"text"` // that line, without prefixes and colours

	// Context is what the same writer printed right before the line and after it, at most
	// 7 lines.
	Context []string `json:"context,omitempty"`

	Meaning string `json:"meaning"` // half a sentence
	Fix     string `json:"fix"`

	// Evidence are the lines that speak for the finding, the strongest first, at most
	// 8.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is a line, or several lines together, that speak for a finding.
type Evidence struct {
	Certainty Certainty `json:"certainty"`
	File      string    `json:"file"`
	Line      int64     `json:"line"`           // from 1; 0: none
	Time      string    `json:"time,omitempty"` // of the log: month, day and clock
	Rank      int       `json:"rank"`           // that wrote it; -1: unknown
	Host      string    `json:"host,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Text      string    `json:"text"`
}

// Certainty says how evidence shows what it shows.
type Certainty string

const (
	Explicit Certainty = "explicit" // a program wrote it
	Derived  Certainty = "derived"  // several lines show it, or what is missing in them
	Handled  Certainty = "handled"  // a program wrote it, and went on
)

const (
	// maxRanks and maxEvidence bound a finding.
	maxRanks    = 64
	maxEvidence = 8
)

// shownEvent returns the event whose line the finding shows: the first, or an
// event that soon follows it and has the row's Quote.
func (h *hypothesis) shownEvent() *event {
	if h.row.Quote != "" {
		const report = 200 // lines
		for _, e := range h.events {
			if e.log == h.first.log && e.number >= h.first.number && e.number-h.first.number < report && strings.Contains(e.text, h.row.Quote) {
				return e
			}
		}
	}
	return h.first
}

// finding returns the finding of a hypothesis.
func (s *Scanner) finding(h *hypothesis) Finding {
	e := h.shownEvent()
	f := Finding{
		ID: h.row.ID(), Checks: h.row.Checks[1:], Row: h.row.Key, Severity: h.severity,
		Rank: e.rank, Local: e.local, Host: e.host, Peer: s.job.nccl.nameHost(e.peer), File: s.logs[e.log].Name, Section: e.section, Line: e.number,
		Count: h.count, Text: e.text, Context: e.excerpt.lines(), Meaning: h.row.Cause, Fix: h.row.Fix,
	}
	if s.logs[e.log].isTail {
		f.Line = 0
	}
	f.ofJob = slices.ContainsFunc(h.events, func(e *event) bool { return e.isShared })
	s.refine(&f, h.row, e)
	s.place(&f, h, e)
	s.sharpen(&f, h.row, e)
	f.Evidence = s.evidence(h, e)
	return f
}

// refine makes the meaning and the fix of f more precise than those of its row, by what
// the line is about and by what the job says of itself.
func (s *Scanner) refine(f *Finding, row *compiledRow, e *event) {
	if row.Topical {
		if topic := s.matcher.topics.of(f.Text); topic != nil {
			f.Meaning, f.Fix = topic.Cause, topic.Fix
			f.ofJob = f.ofJob || len(topic.Checks) == 0
			if len(topic.Checks) > 0 {
				f.ID, f.Checks = topic.Checks[0], topic.Checks[1:]
			}
		}
	}
	if python := s.job.interpreterOf(e); python != "" && f.ID == "X-MODULE" {
		f.Fix = "the interpreter is " + python + ": " + f.Fix
	}
}

// place names the ranks, the host and the peer of f: those of the shown event, or those
// that the other events of its hypothesis agree on.
func (s *Scanner) place(f *Finding, h *hypothesis, shown *event) {
	ranks := h.allRanks()
	if accused := h.accused(); accused >= 0 {
		ranks, f.Rank, f.Host, f.Local = []int{accused}, accused, s.job.hostOf(accused), -1
	}
	if h.row.Kind.IsAbsence() && len(shown.named) == 0 { // its writer waits, and is not at fault
		ranks, f.Rank, f.Local, f.ofJob = nil, -1, -1, true
	}
	if h.row.Kind == catalogue.Unreachable { // its writer reports a peer
		f.ofJob = true
	}
	if world := s.worldSize(); world > 1 && len(ranks) >= world { // no rank differs from the others
		f.ofJob = true
	}
	if f.Rank < 0 && len(ranks) == 1 {
		only := ranks[0]
		at := slices.IndexFunc(h.events, func(e *event) bool { return e.rank == only })
		if at >= 0 && !sameHost(h.events[at].host, f.Host) { // another host printed the shown line
			ranks = nil
		} else {
			f.Rank = only
		}
		if f.Host == "" && at >= 0 {
			f.Host = h.events[at].host
		}
	}
	if f.Host == "" && f.Rank < 0 {
		f.Host = onlyHost(h.events)
	}
	f.Host = cmp.Or(f.Host, shown.home, s.logs[shown.log].ranOn.known())
	if len(ranks) > 1 && s.job.onSeveralHosts(ranks) || f.ID == "X-TIMELIMIT" && s.hasSeveralHosts() { // that ends all of them
		f.Host = ""
	}
	if f.Rank < 0 && f.Host != "" {
		f.otherHosts = h.hostsBeside(f.Host)
	}
	f.Node = s.job.nodes[f.Host]
	f.isPod = f.Node != "" || h.row.Key == catalogue.RowScheduling
	if f.Peer == "" && f.ID != "X-PORT" { // that names the writer's own address
		f.Peer = s.job.nccl.nameHost(peerIn(shown.text))
	}
	if f.Peer == "" && f.ID == "R02" {
		f.Peer = s.job.writers.endpoint.known()
	}
	f.Ranks = ranks[:min(len(ranks), maxRanks)]
}

// hostsBeside returns how many hosts besides one the events of h are of.
func (h *hypothesis) hostsBeside(host string) int {
	others := map[string]bool{}
	for _, e := range h.events {
		if !sameHost(e.host, host) {
			others[e.host] = true
		}
	}
	return len(others)
}

// accused returns the only rank that several reports of ranks in different collectives all
// name, -1 if there is none. Each report names its writer, too.
func (h *hypothesis) accused() int {
	var common []int
	reports := 0
	for _, e := range h.events {
		switch {
		case h.row.ID() != "X-DESYNC" || len(e.named) != 2:
			return -1
		case reports == 0:
			common = slices.Clone(e.named)
		default:
			common = slices.DeleteFunc(common, func(r int) bool { return !slices.Contains(e.named, r) })
		}
		reports++
	}
	if len(common) != 1 {
		return -1
	}
	return common[0]
}

// allRanks returns the ranks of all events of h, ascending. An event whose line names
// ranks is of these, and not of its writer's.
func (h *hypothesis) allRanks() []int {
	ranks := maps.Clone(h.ranks)
	if ranks == nil {
		ranks = map[int]struct{}{}
	}
	for _, e := range h.events {
		if e.rank >= 0 && len(e.named) == 0 {
			ranks[e.rank] = struct{}{}
		}
		for _, r := range e.named {
			ranks[r] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(ranks))
}

// lostAddress matches the address of the other side in a line about a connection that
// failed.
var lostAddress = match.Lazy(`(?i)(?:\bconnect(?:ion|ing|ed)?\b(?: attempt)?(?: to| with| from)?(?: remote| peer| host| server| address)?(?: at)?|\bdial tcp|\b(?:peer|remote|reach|read error|write error|endpoint)\b(?: at)?|\bipv[46]:)[\s:=('"]*(?:\w+://)?(\[[\w.:%-]+\]:\d+|(?:\d{1,3}\.){3}\d{1,3}(?:<\d+>|:\d+)?|[a-z][\w-]*(?:\.[\w-]+)*:\d{2,5}\b)`)

// peerIn returns the address of the other side in a line about a connection that failed,
// "" if the line names none.
func peerIn(text string) string {
	if !isAboutConnection().MatchString(text) {
		return ""
	}
	for _, m := range lostAddress().FindAllStringSubmatch(text, 4) {
		if !sourcePlace().MatchString(m[1]) {
			return m[1]
		}
	}
	return ""
}

// sourcePlace matches a line of a source file, which looks like an address.
var sourcePlace = match.Lazy(`\.(?:py|pyx|cc?|cpp|cu|hh?|hpp|go|rs|java|scala):\d+$`)

// isAboutConnection matches what the system and programs say of a connection that
// failed.
var isAboutConnection = match.Lazy(`(?i)refused|timed out|timeout|no route|unreachable|reset by|aborted?\b|closed|broken pipe|(?:failed|unable|could not|cannot) (?:to )?connect`)

// onlyHost returns the host of events that have one, "" if they have none or several.
func onlyHost(events []*event) string {
	host := ""
	for _, e := range events {
		if e.host != "" && host != "" && e.host != host {
			return ""
		}
		host = cmp.Or(host, e.host)
	}
	return host
}

// evidence returns the events of a hypothesis, the shown event first and the others in
// their order.
func (s *Scanner) evidence(h *hypothesis, shown *event) []Evidence {
	events := slices.SortedStableFunc(slices.Values(h.events), func(a, b *event) int {
		switch {
		case a == shown:
			return -1
		case b == shown:
			return 1
		}
		return order(a, b)
	})
	var all []Evidence
	for _, e := range events[:min(len(events), maxEvidence)] {
		v := Evidence{Certainty: Explicit, File: s.logs[e.log].Name, Line: e.number, Time: e.when.Text(), Rank: e.rank, Host: e.host, PID: e.pid, Text: e.text}
		switch {
		case e.derived:
			v.Certainty = Derived
		case e.survived():
			v.Certainty = Handled
		}
		if s.logs[e.log].isTail {
			v.Line = 0
		}
		all = append(all, v)
	}
	return all
}
