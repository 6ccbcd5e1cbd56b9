package logs

import (
	"fmt"
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
	all Std
	per map[int]Std // if not nil: local ranks that it lacks have none
}

// For returns the streams of one local rank.
func (s StdSpec) For(localRank int) Std {
	if s.per != nil {
		return s.per[localRank]
	}
	return s.all
}

// Any reports whether the spec names a stream of any of that many workers.
func (s StdSpec) Any(workers int) bool {
	for r, std := range s.per {
		if r < workers && std != 0 {
			return true
		}
	}
	return s.all != 0 && workers > 0
}

// String returns the spec as ParseStd reads it.
func (s StdSpec) String() string {
	if s.per == nil {
		return strconv.Itoa(int(s.all))
	}
	ranks := make([]int, 0, len(s.per))
	for r := range s.per {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	parts := make([]string, len(ranks))
	for i, r := range ranks {
		parts[i] = fmt.Sprintf("%d:%d", r, s.per[r])
	}
	return strings.Join(parts, ",")
}

// ParseStd reads "0" (none), "1" (stdout), "2" (stderr) or "3" (both) for all
// local ranks, or a list like "0:3,1:0". A local rank that the list does not
// name has none. Unlike torchrun, ParseStd accepts local ranks of more than one
// digit.
func ParseStd(s string) (StdSpec, error) {
	const usage = "give 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all workers, or a list like 0:3,1:0"
	if !strings.ContainsAny(s, ":,") {
		std, ok := parseBits(s)
		if !ok {
			return StdSpec{}, fmt.Errorf("%q does not name streams: %s", s, usage)
		}
		return StdSpec{all: std}, nil
	}
	per := make(map[int]Std)
	for part := range strings.SplitSeq(s, ",") {
		rank, bits, _ := strings.Cut(part, ":")
		r, ok := parseRank(rank)
		if !ok {
			return StdSpec{}, fmt.Errorf("%q in %q does not begin with a local rank: %s", part, s, usage)
		}
		std, ok := parseBits(bits)
		if !ok {
			return StdSpec{}, fmt.Errorf("%q in %q does not end with 0, 1, 2 or 3: %s", part, s, usage)
		}
		if _, twice := per[r]; twice {
			return StdSpec{}, fmt.Errorf("local rank %d is named twice in %q", r, s)
		}
		per[r] = std
	}
	return StdSpec{per: per}, nil
}

func parseBits(s string) (Std, bool) {
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
