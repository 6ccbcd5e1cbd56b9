package surroundings

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds the names of one list. Slurm's own limit of nodes is 65,533.
const maxHosts = 1 << 16

// ParseHosts expands a list of hosts in Slurm's form, as scontrol show hostnames
// does: "n[1-3,07],login". Numbers keep their leading zeros, and a name may have
// several brackets.
func ParseHosts(list string) ([]string, error) {
	var hosts []string
	for _, part := range splitOutside(list) {
		if part == "" {
			continue // Slurm ignores it, too
		}
		names, err := expand(part, maxHosts-len(hosts))
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, names...)
	}
	return hosts, nil
}

// splitOutside splits a list at the commas that are not within brackets.
func splitOutside(list string) (parts []string) {
	depth, start := 0, 0
	for i, c := range []byte(list) {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, list[start:i])
			start = i + 1
		}
	}
	return append(parts, list[start:])
}

// expand returns the names that one part means, at most limit. The last bracket of
// several counts fastest.
func expand(part string, limit int) ([]string, error) {
	names := []string{""}
	for rest := part; ; {
		before, after, bracket := strings.Cut(rest, "[")
		if strings.ContainsAny(before, "] \t\n") {
			return nil, fmt.Errorf("%q is no name of a host", short(part))
		}
		for i := range names {
			names[i] += before
		}
		if !bracket {
			break
		}
		inner, next, closed := strings.Cut(after, "]")
		if !closed {
			return nil, fmt.Errorf("%q has a bracket that is not closed", short(part))
		}
		numbers, err := expandRanges(inner, limit/len(names))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", short(part), err)
		}
		product := make([]string, 0, len(names)*len(numbers))
		for _, name := range names {
			for _, number := range numbers {
				product = append(product, name+number)
			}
		}
		names, rest = product, next
	}
	if len(names) > limit {
		return nil, errTooMany
	}
	return names, nil
}

var errTooMany = fmt.Errorf("there are more than %d hosts", maxHosts)

// expandRanges expands the inside of a bracket: "1-3,07".
func expandRanges(inner string, limit int) (numbers []string, err error) {
	for part := range strings.SplitSeq(inner, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		first, err1 := strconv.ParseUint(lo, 10, 32)
		last, err2 := strconv.ParseUint(hi, 10, 32)
		if err1 != nil || err2 != nil || first > last {
			return nil, fmt.Errorf("%q is neither a number nor a range of numbers", short(part))
		}
		if last-first >= uint64(max(limit-len(numbers), 0)) {
			return nil, errTooMany
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(lo), n))
		}
	}
	return numbers, nil
}

// countOf returns the count of one node from Slurm's list of counts, "2(x3),1".
func countOf(list string, node int) (int, error) {
	at := 0
	for part := range strings.SplitSeq(list, ",") {
		text, times, repeated := strings.Cut(part, "(x")
		n, err := strconv.Atoi(text)
		times, closed := strings.CutSuffix(times, ")")
		repeat := 1
		if repeated && err == nil {
			if repeat, err = strconv.Atoi(times); !closed {
				err = strconv.ErrSyntax
			}
		}
		if err != nil || n < 1 || n > largest || repeat < 1 || repeat > largest {
			return 0, fmt.Errorf("%q is no count like 2 or 2(x3)", short(part))
		}
		if at += repeat; node < at {
			return n, nil
		}
	}
	return 0, fmt.Errorf("it has no count for node %d", node)
}
