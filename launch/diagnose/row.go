package diagnose

import (
	"regexp"
	"slices"
	"strings"
)

// Class says what a line means for the failure of a job.
type Class string

const (
	// Primary marks a cause of the failure.
	Primary Class = "cause"
	// Hint marks a cause if nothing else in the log explains the failure, and a
	// consequence otherwise.
	Hint Class = "cause if nothing else is"
	// Consequence marks an effect of an earlier failure, perhaps of another rank.
	Consequence Class = "consequence"
	// Harmless marks lines that jobs that work print, too.
	Harmless Class = "harmless"
)

// Row is one entry of the map from lines to causes: a pattern and its meaning. The
// first row of the map that matches a line counts.
type Row struct {
	// Key names the row. A number is that of the NCCL catalogue. A letter after
	// it splits an entry whose class depends on a field of the line. "w..", "x..",
	// "y.." and "z.." are rows beyond the catalogue.
	Key string
	// Checks are the ids of the checks that concern the row. The first is the id
	// of its findings.
	Checks []string
	Class  Class
	// Pattern is an RE2 expression. It matches anywhere in a line, in any case.
	// Its named groups may be rank and rank2 (to blame), pid, pid2, peer and host.
	Pattern string
	Cause   string // its meaning: half a sentence
	Fix     string // the next step for the user
	Seen    string // releases that print it
	Source  string // the source of the text or of its meaning

	// Quote is a text. A finding shows its first line that contains the text, if it
	// has such a line.
	Quote string
	// Weak rows match lines that jobs that work print as well. They count only
	// beside other evidence of a failure.
	Weak bool
	// Root rows match failures that no other failure of the job brings about: the
	// kernel, a GPU, a scheduler. They are causes whatever came before them.
	Root bool
	// Explains are the ids of findings that are consequences beside the row.
	Explains []string
	// PeerLost rows match lines about the loss of a peer or of the store. A worker
	// that prints such a line last failed as a consequence.
	PeerLost bool
	// FirstOnly rows are consequences if another cause came before them, because
	// the peer that cannot be reached may have ended.
	FirstOnly bool
	// IfAlone hints are consequences beside lines about a lost peer.
	IfAlone bool
	// Last hints count only if nothing else may be a cause.
	Last bool
	// Ordered hints become the cause if they came before all causes. A worker that
	// is stopped from outside may print any error.
	Ordered bool
	// IfInfiniBand rows are harmless, and causes if the job asked for InfiniBand.
	IfInfiniBand bool
	// Catchable rows match errors that programs catch. A program that prints more
	// than a few lines afterwards survived the error.
	Catchable bool
}

// ID returns the id of a finding from this row.
func (r *Row) ID() string { return r.Checks[0] }

// idsWithoutCheck returns the ids without "X-" that `gorun check` does not have. No
// check can find them before they happen.
func idsWithoutCheck() []string {
	return ids("G04", "L11", "N07", "N09")
}

// hasCheck reports whether `gorun check` has a check id.
func hasCheck(id string) bool {
	return !strings.HasPrefix(id, "X-") && !slices.Contains(idsWithoutCheck(), id)
}

// compiledRow is a row with its expression, which is compiled when a line may match.
type compiledRow struct {
	Row
	re func() *regexp.Regexp
}

// Rows returns the map in the order of matching: more specific rows come first,
// causes before consequences.
func Rows() []Row {
	var rows []Row
	for _, part := range [][]Row{versionRows(), deviceRows(), networkRows(), verbsRows(), systemRows(), launchRows(), workerRows(), lostRows(), everydayRows(), catchAllRows()} {
		rows = append(rows, part...)
	}
	return rows
}

func ids(s ...string) []string { return s }
