package diagnose

import (
	"strings"

	"github.com/gorun/gorun/internal/term"
)

// Severity is what a finding has to do with the failure.
type Severity string

const (
	SeverityCause       Severity = "cause"
	SeverityConsequence Severity = "consequence"
	SeverityHarmless    Severity = "harmless"
)

// Finding is what all lines of one meaning tell together.
type Finding struct {
	ID       string   `json:"id"`               // "D01", "X-CUDAOOM"
	Checks   []string `json:"checks,omitempty"` // further checks that concern it
	Row      string   `json:"row"`              // of the map: docs/explain.md
	Severity Severity `json:"severity"`
	// Doubtful: nothing tells that the job failed, and who printed the line went on
	// to print more, so that this may be an error that its program handled.
	Doubtful bool `json:"doubtful,omitempty"`

	// Rank is the one to blame or, of consequences, the first that was hit; -1
	// if the log does not tell. Ranks are all, ascending, at most 64.
	Rank  int   `json:"rank"`
	Ranks []int `json:"ranks,omitempty"`
	// Local is that rank's local rank on Host; -1 if the log does not tell.
	Local int    `json:"local_rank"`
	Host  string `json:"host,omitempty"`
	Peer  string `json:"peer,omitempty"` // whom the line names as gone or not reached

	File  string `json:"file"` // of the first line; "-" for standard input
	Line  int64  `json:"line"` // from 1; 0: no single line
	Count int64  `json:"count"`
	Text  string `json:"text"` // that line, without what only decorates it

	Meaning string `json:"meaning"` // half a sentence
	Fix     string `json:"fix"`
}

// Log says where text comes from.
type Log struct {
	Name string // a file's name
	Rank int    // whose output it is; -1 if it is of several, or not known
	// Local is the local rank of whose output it is; -1 as for Rank.
	Local int
	Host  string
	// Tail: it is the end of one worker's output, and such logs come in the order
	// of the failures; times and numbers of its lines mean nothing.
	Tail bool
}

// Stderr is the end of what a worker wrote to its standard error.
func Stderr(rank, local int, host string) Log {
	return Log{Name: "stderr", Rank: rank, Local: local, Host: host, Tail: true}
}

const (
	maxText  = 400 // characters of a line in a finding
	maxRanks = 64  // in a finding
)

// text makes a line of bytes fit to be shown: valid, without control characters,
// bounded.
func text(p []byte) string {
	s := strings.ToValidUTF8(string(p[:min(len(p), 4*maxText)]), "")
	s = strings.ReplaceAll(term.Plain(s), "\t", " ")
	if r := []rune(s); len(r) > maxText {
		s = string(r[:maxText]) + "…"
	}
	return strings.TrimSpace(s)
}
