package flight

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the verdict in one sentence.
func (v Verdict) String() string {
	group := cmp.Or(v.Group.Desc, v.Group.Name, "a process group")
	number := fmt.Sprintf("%s, number %d of %s", v.Call.What(), v.Call.Seq, group)
	switch who := Ranks(v.Ranks()); v.Kind {
	case Other:
		other := *v.Suspects[0].Last
		return fmt.Sprintf("%s called %s%s as number %d of %s, where %s called %s%s",
			who, other.What(), at(other), v.Call.Seq, group, Ranks(v.Waiting), v.Call.What(), at(v.Call))
	case Silent:
		return fmt.Sprintf("%s left no dump, and %s%s in %s%s", who, wait(v.Waiting), since(v.Call), number, at(v.Call))
	case Cycle:
		var each []string
		for _, s := range v.Suspects[:min(len(v.Suspects), maxNamed)] {
			each = append(each, fmt.Sprintf("rank %d in %s, number %d%s", s.Rank, s.Last.What(), s.Last.Seq, at(*s.Last)))
		}
		return fmt.Sprintf("%s wait for each other: %s", who, strings.Join(each, "; "))
	case Stuck:
		verb := "are all in"
		switch len(v.Waiting) {
		case 1:
			verb = "is in"
		case 2:
			verb = "are both in"
		}
		return fmt.Sprintf("%s %s %s%s, and it does not end", Ranks(v.Waiting), verb, number, at(v.Call))
	default:
		called := number
		if v.Call.P2P {
			called = fmt.Sprintf("the other side of %s of %s", v.Call.What(), group)
		}
		return fmt.Sprintf("%s did not call %s, in which %s%s%s; %s", who, called, wait(v.Waiting), since(v.Call), at(v.Call), v.lastCalls())
	}
}

// Ranks lists the ranks that the others wait for.
func (v Verdict) Ranks() []int {
	var all []int
	for _, s := range v.Suspects {
		all = append(all, s.Rank)
	}
	return all
}

// Collective names the call that the waiting ranks wait in: "all_reduce number 7 of
// default_pg".
func (v Verdict) Collective() string {
	return fmt.Sprintf("%s number %d of %s", strings.TrimPrefix(v.Call.Name, "nccl:"), v.Call.Seq, cmp.Or(v.Group.Desc, v.Group.Name, "a process group"))
}

// Where returns the line of the program that tells most about the first suspect: where it
// made the call that differs, or its last one. It is "" if the recorder kept no line.
func (v Verdict) Where() string {
	if len(v.Suspects) == 0 || v.Suspects[0].Last == nil {
		return ""
	}
	return v.Suspects[0].Last.Where()
}

// lastCalls says what the suspects called last.
func (v Verdict) lastCalls() string {
	last := v.Suspects[0].Last
	switch {
	case len(v.Suspects) > 1:
		return "each dump has its rank's last call"
	case last == nil:
		return "it made no call there"
	}
	return fmt.Sprintf("its last call there was %s, number %d%s", last.What(), last.Seq, at(*last))
}

// since says how long a call has waited.
func since(c Call) string {
	if c.For < time.Second {
		return ""
	}
	return " since " + c.For.Truncate(time.Second).String()
}

func at(c Call) string {
	if where := c.Where(); where != "" {
		return " (" + where + ")"
	}
	return ""
}

func wait(ranks []int) string {
	if len(ranks) == 1 {
		return Ranks(ranks) + " waits"
	}
	return Ranks(ranks) + " wait"
}

// maxNamed is the number of ranks that a text names.
const maxNamed = 8

// Ranks names ranks: "rank 3", "ranks 0 and 2", and of more than eight the number.
func Ranks(ranks []int) string {
	switch {
	case len(ranks) == 1:
		return fmt.Sprintf("rank %d", ranks[0])
	case len(ranks) > maxNamed:
		return fmt.Sprintf("%d ranks (%d to %d)", len(ranks), ranks[0], ranks[len(ranks)-1])
	}
	var names []string
	for _, r := range ranks {
		names = append(names, strconv.Itoa(r))
	}
	if len(names) == 0 {
		return "no rank"
	}
	return "ranks " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
