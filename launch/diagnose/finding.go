package diagnose

import (
	"strings"

	"github.com/gorun/gorun/internal/term"
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
	// Doubtful means that nothing shows that the job failed. The program
	// printed more after the line, so it may have handled the error.
	Doubtful bool `json:"doubtful,omitempty"`

	// Rank is the rank to blame or, for a consequence, the first affected; -1
	// if the log does not say. Ranks are all such ranks, ascending, at most 64.
	Rank  int   `json:"rank"`
	Ranks []int `json:"ranks,omitempty"`
	// Local is that rank's local rank on Host; -1 if the log does not say.
	Local int    `json:"local_rank"`
	Host  string `json:"host,omitempty"`
	Peer  string `json:"peer,omitempty"` // the peer that the line names as lost or not reached

	File  string `json:"file"` // of the first line; "-" for standard input
	Line  int64  `json:"line"` // from 1; 0: no single line
	Count int64  `json:"count"`
	Text  string `json:"text"` // that line, without prefixes and colours

	Meaning string `json:"meaning"` // half a sentence
	Fix     string `json:"fix"`
}

// Log says where text comes from.
type Log struct {
	Name string // a file's name
	Rank int    // the rank that wrote it; -1: several, or unknown
	// Local is the local rank that wrote it; -1 as for Rank.
	Local int
	Host  string
	// Tail marks the end of one worker's output. Such logs come in the order of
	// the failures. Times and numbers of their lines mean nothing.
	Tail bool
}

// Stderr returns the Log of the end of a worker's standard error.
func Stderr(rank, local int, host string) Log {
	return Log{Name: "stderr", Rank: rank, Local: local, Host: host, Tail: true}
}

const (
	maxText  = 400 // characters of a line in a finding
	maxRanks = 64  // in a finding
)

// plainText makes a line fit to be shown: valid UTF-8, without control characters,
// bounded.
func plainText(p []byte) string {
	s := strings.ToValidUTF8(string(p[:min(len(p), 4*maxText)]), "")
	s = strings.ReplaceAll(term.Plain(s), "\t", " ")
	if r := []rune(s); len(r) > maxText {
		s = string(r[:maxText]) + "…"
	}
	return strings.TrimSpace(s)
}
