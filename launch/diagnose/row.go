package diagnose

import (
	"regexp"
	"slices"
	"strings"
)

// Class is what a line says about the failure of a job.
type Class string

const (
	// Primary: what the line tells of made the job fail.
	Primary Class = "cause"
	// Hint: a cause if nothing else in the log explains the failure, else a
	// consequence of that.
	Hint Class = "cause if nothing else is"
	// Consequence: something else failed before, perhaps on another rank.
	Consequence Class = "consequence"
	// Harmless: jobs that work print it, too.
	Harmless Class = "harmless"
)

// Row is one entry of the map from lines to causes: what a line looks like and
// what it means. Rows are data; the first of the map that matches a line counts.
type Row struct {
	// Key names the row: a number is that of the NCCL catalogue (a letter splits
	// one whose class depends on a field of the line), "x.." is a row beyond it.
	Key string
	// Checks are the ids of the checks that concern it, the id of a finding first.
	Checks []string
	Class  Class
	// Pattern is RE2, matched anywhere in a line and without regard to case. Its
	// groups may be named rank, rank2 (to blame), pid, pid2, peer and host.
	Pattern string
	Cause   string // what it means: half a sentence
	Fix     string // what to do
	Seen    string // releases that print it, as far as known
	Source  string // where the text or its meaning comes from

	// Quote is in the line that a finding shows, if one of its lines has it.
	Quote string
	// Weak lines are printed by jobs that work as well: they count only beside
	// other evidence of a failure.
	Weak bool
	// PeerLost lines tell that a peer or the store was gone: a worker whose last
	// words they are fell over as a consequence.
	PeerLost bool
	// AfterDeath makes a cause a consequence when another cause came before it:
	// the peer that cannot be reached may have died.
	AfterDeath bool
	// IfAlone hints count only where no consequence of a lost peer is told, either.
	IfAlone bool
	// Last hints count only where nothing else that may be a cause is told.
	Last bool
	// Ordered hints come before all causes that came after them, as far as
	// times tell: who is stopped from outside may complain in any words.
	Ordered bool
	// IfIB makes a harmless row a cause when InfiniBand was asked for.
	IfIB bool
	// MayGoOn rows are errors that programs catch: who prints more than a few
	// lines afterwards went on.
	MayGoOn bool
}

// ID is the id of a finding from this row.
func (r *Row) ID() string { return r.Checks[0] }

// onlyTold are the ids without X that are no checks of `gorun check`: they show
// when they have happened.
func onlyTold() []string {
	return ids("G04", "L11", "N07", "N09")
}

// checked reports whether `gorun check` looks for it.
func checked(id string) bool {
	return !strings.HasPrefix(id, "X-") && !slices.Contains(onlyTold(), id)
}

// compiled is a row with its expression.
type compiled struct {
	Row
	re func() *regexp.Regexp // compiled when a line may match
}

// Rows returns the map, in the order in which rows are tried: what is more
// specific comes first, causes before consequences.
func Rows() []Row {
	var rows []Row
	for _, part := range [][]Row{versionRows(), deviceRows(), networkRows(), verbsRows(), systemRows(), workerRows(), lostRows()} {
		rows = append(rows, part...)
	}
	return rows
}

// ids is short for the checks of a row.
func ids(s ...string) []string { return s }
