package logs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Std is a set of standard streams, as a bit mask: torchrun's 0, 1, 2 or 3.
type Std uint8

const (
	Stdout Std = 1 << iota
	Stderr
)

// StdSpec says for each local rank which streams an option names: the value of
// -r/--redirects or -t/--tee. The zero value names none.
type StdSpec struct {
	all    Std
	byRank map[int]Std // if not nil: other local ranks have no stream
}

// For returns the streams of one local rank.
func (s StdSpec) For(localRank int) Std {
	if s.byRank != nil {
		return s.byRank[localRank]
	}
	return s.all
}

// Any reports whether the spec names a stream of any of that many workers.
func (s StdSpec) Any(workers int) bool {
	for r, std := range s.byRank {
		if r < workers && std != 0 {
			return true
		}
	}
	return s.all != 0 && workers > 0
}

// String returns the spec as ParseStd reads it.
func (s StdSpec) String() string {
	if s.byRank == nil {
		return strconv.Itoa(int(s.all))
	}
	var parts []string
	for _, r := range slices.Sorted(maps.Keys(s.byRank)) {
		parts = append(parts, fmt.Sprintf("%d:%d", r, s.byRank[r]))
	}
	return strings.Join(parts, ",")
}

// ParseStd reads "0" (none), "1" (stdout), "2" (stderr) or "3" (both) for all
// local ranks, or a list like "0:3,1:0". Local ranks that the list does not name
// have no stream; of several values for a rank the last one counts. Unlike torchrun, ParseStd accepts local ranks of more than one
// digit.
func ParseStd(s string) (StdSpec, error) {
	const usage = "give 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all workers, or a list like 0:3,1:0"
	if !strings.ContainsAny(s, ":,") {
		std, ok := parseStreams(s)
		if !ok {
			return StdSpec{}, fmt.Errorf("%q does not name streams: %s", s, usage)
		}
		return StdSpec{all: std}, nil
	}
	byRank := make(map[int]Std)
	for part := range strings.SplitSeq(s, ",") {
		rank, bits, _ := strings.Cut(part, ":")
		r, ok := parseRank(rank)
		if !ok {
			return StdSpec{}, fmt.Errorf("%q in %q does not begin with a local rank: %s", part, s, usage)
		}
		std, ok := parseStreams(bits)
		if !ok {
			return StdSpec{}, fmt.Errorf("%q in %q does not end with 0, 1, 2 or 3: %s", part, s, usage)
		}
		byRank[r] = std
	}
	return StdSpec{byRank: byRank}, nil
}

func parseStreams(s string) (Std, bool) {
	if len(s) != 1 || s[0] < '0' || s[0] > '3' {
		return 0, false
	}
	return Std(s[0] - '0'), true
}

// parseRank accepts digits only, because strconv.Atoi would accept a sign as
// well.
func parseRank(s string) (int, bool) {
	if s == "" || len(s) > 5 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
