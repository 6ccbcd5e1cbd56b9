package diagnose

import (
	"regexp"
	"slices"
	"strings"
)

// Class says what a line means for the failure of a job.
type Class string

const (
	// Primary marks what made the job fail.
	Primary Class = "cause"
	// Hint marks a cause if nothing else in the log explains the failure, else
	// a consequence of that.
	Hint Class = "cause if nothing else is"
	// Consequence marks what an earlier failure brought about, perhaps on
	// another rank.
	Consequence Class = "consequence"
	// Harmless marks what jobs that work print, too.
	Harmless Class = "harmless"
)

// Row is one entry of the map from lines to causes: what a line looks like and
// what it means. The first row of the map that matches a line counts.
type Row struct {
	// Key names the row. A number is that of the NCCL catalogue. A letter after
	// it splits an entry whose class depends on a field of the line. "x.." is a
	// row beyond the catalogue.
	Key string
	// Checks are the ids of the checks that concern it. The first is the id of
	// a finding.
	Checks []string
	Class  Class
	// Pattern is an RE2 expression, matched anywhere in a line and without
	// regard to case. Its groups may be named rank, rank2 (to blame), pid,
	// pid2, peer and host.
	Pattern string
	Cause   string // what it means: half a sentence
	Fix     string // what to do
	Seen    string // releases that print it, as far as known
	Source  string // where the text or its meaning comes from

	// Quote is a text. A finding shows the line that has it, if one of its
	// lines does.
	Quote string
	// Weak lines are printed by jobs that work as well. They count only beside
	// other evidence of a failure.
	Weak bool
	// PeerLost lines say that a peer or the store was lost. A worker whose last
	// words they are failed as a consequence.
	PeerLost bool
	// FirstOnly makes a cause a consequence when another cause came before it,
	// because the peer that cannot be reached may have ended.
	FirstOnly bool
	// IfAlone hints count only if no consequence of a lost peer was found
	// either.
	IfAlone bool
	// Last hints count only if nothing else was found that may be a cause.
	Last bool
	// Ordered hints become the cause if there are causes and the hint came before
	// all of them, as far as times show. A worker that is stopped from outside
	// may print any error.
	Ordered bool
	// IfInfiniBand makes a harmless row a cause if the job asked for InfiniBand.
	IfInfiniBand bool
	// Catchable rows are errors that programs catch. A program that prints more
	// than a few lines afterwards went on.
	Catchable bool
}

// ID returns the id of a finding from this row.
func (r *Row) ID() string { return r.Checks[0] }

// idsWithoutCheck returns the ids without "X-" that are no checks of `gorun check`.
// They show only when they have happened.
func idsWithoutCheck() []string {
	return ids("G04", "L11", "N07", "N09")
}

// hasCheck reports whether `gorun check` looks for id.
func hasCheck(id string) bool {
	return !strings.HasPrefix(id, "X-") && !slices.Contains(idsWithoutCheck(), id)
}

// compiledRow is a row with its expression.
type compiledRow struct {
	Row
	re func() *regexp.Regexp // compiled when a line may match
}

// Rows returns the map in the order in which rows are tried: more specific rows
// come first, causes before consequences.
func Rows() []Row {
	var rows []Row
	for _, part := range [][]Row{versionRows(), deviceRows(), networkRows(), verbsRows(), systemRows(), workerRows(), lostRows()} {
		rows = append(rows, part...)
	}
	return rows
}

// ids makes a list of ids for a row.
func ids(s ...string) []string { return s }
