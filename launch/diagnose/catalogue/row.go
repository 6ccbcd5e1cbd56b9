// Package catalogue is the map from lines to causes: Rows returns it. It is data: a row
// has an expression, a meaning and a fix, and one Kind says how far such a line explains
// the failure of a job. docs/explain.md is written from it.
//
// No row depends on another, but for their order: the first row that matches a line
// counts.
package catalogue

import (
	"slices"
	"strings"
)

// Row is one entry of the map from lines to causes: a pattern and its meaning. The
// first row of the map that matches a line counts. ../testdata/rows.tsv has a line
// that the row matches, and a similar line that it must not match.
type Row struct {
	// Key names the row. A number is that of the NCCL catalogue. A letter after
	// it splits an entry whose kind depends on a field of the line. "w..", "x..",
	// "y.." and "z.." are rows beyond the catalogue.
	Key string
	// Checks are the ids of the checks that concern the row. The first is the id
	// of its findings.
	Checks []string
	Kind   Kind
	// Pattern is an RE2 expression. It matches anywhere in a line, in any case.
	// Its named groups may be rank (to blame), pid, peer and host. Several of one name
	// differ in a digit at the end: host, host2.
	Pattern string
	Cause   string // its meaning: half a sentence
	Fix     string // the next step for the user
	Seen    string // releases that print it
	Source  string // the source of the text or of its meaning

	// Quote is a text. A finding shows its first line that contains the text, if it
	// has such a line.
	Quote string
	// Explains are the ids of findings that are consequences beside the row.
	Explains []string
	// Topical rows show the words of a program, of which Topics say more than Cause and Fix.
	Topical bool
	// CauseIf is a fact about the job that makes a Harmless row a cause.
	CauseIf Fact
}

// Fact is something that lines say about the whole job.
type Fact string

const (
	// AskedInfiniBand says that the job asked for InfiniBand, or uses it.
	AskedInfiniBand Fact = "InfiniBand was asked for"
	// AgentFailed says that an agent of torchrun failed itself, not one of its workers.
	AgentFailed Fact = "an agent of torchrun failed"
	// HostMemory is how much of a host's memory a program says is used, if that is most of it.
	HostMemory Fact = "the memory of a host is used up"
	// FullHost is that host, "" if the line does not name it.
	FullHost Fact = "a host"
)

// ID returns the id of a finding from this row.
func (r *Row) ID() string { return r.Checks[0] }

// IDsWithoutCheck returns the ids without "X-" that `gorun check` does not have. No
// check can find them before they happen.
func IDsWithoutCheck() []string {
	return ids("G04", "L11", "N07", "N09")
}

// HasCheck reports whether `gorun check` has a check id.
func HasCheck(id string) bool {
	return !strings.HasPrefix(id, "X-") && !slices.Contains(IDsWithoutCheck(), id)
}

// Rows returns the map in the order of matching: more specific rows come first,
// causes before consequences.
func Rows() []Row {
	var rows []Row
	for _, part := range [][]Row{selfTestRows(), versionRows(), deviceRows(), networkRows(), verbsRows(), systemRows(), launchRows(), workerRows(), lostRows(), everydayRows(), catchAllRows()} {
		rows = append(rows, part...)
	}
	return rows
}

func ids(s ...string) []string { return s }

// IsOfRank reports whether a cause with an id is a fault of the rank that reports it. Other
// causes are faults of a node, a service or the whole job, and any rank may report them.
func IsOfRank(id string) bool {
	if id[0] == 'X' {
		return !slices.Contains(ids("X-ARGS", "X-AUTH", "X-BUILD", "X-CONNECT", "X-DDP-UNUSED", "X-DISK", "X-DNS", "X-FILE", "X-LIBRARY", "X-MODULE", "X-PORT", "X-RESOURCES", "X-SSH", "X-START"), id)
	}
	return id[0] == 'D' && !slices.Contains(ids("D03", "D04", "D10"), id) || id[0] == 'G' || id[0] == 'R' || id[0] == 'S'
}

// IsOfHost reports whether a cause with an id may be a fault of the host that reports it,
// and not of the whole job or its program.
func IsOfHost(id string) bool {
	return !slices.Contains(ids("X-ARGS", "X-AUTH", "X-ERROR", "X-PYEXC", "X-RESOURCES", "X-TIMELIMIT", "X-USAGE"), id)
}
