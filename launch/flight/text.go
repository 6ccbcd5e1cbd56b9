package flight

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// String returns the verdict in one sentence.
func (v Verdict) String() string {
	group := cmp.Or(v.Group.Desc, v.Group.Name, "a process group")
	number := fmt.Sprintf("%s, number %d of %s", v.Call.What(), v.Call.Seq, group)
	var suspects []int
	for _, s := range v.Suspects {
		suspects = append(suspects, s.Rank)
	}
	switch who := Ranks(suspects); v.Kind {
	case Other:
		other := *v.Suspects[0].Last
		return fmt.Sprintf("%s called %s%s as number %d of %s, where %s called %s%s",
			who, other.What(), at(other), v.Call.Seq, group, Ranks(v.Waiting), v.Call.What(), at(v.Call))
	case Silent:
		return fmt.Sprintf("%s left no dump, and %s in %s%s", who, wait(v.Waiting), number, at(v.Call))
	case Stuck:
		verb := "are all in"
		if len(v.Waiting) == 1 {
			verb = "is in"
		}
		return fmt.Sprintf("%s %s %s%s, and it does not end", Ranks(v.Waiting), verb, number, at(v.Call))
	default:
		called := number
		if v.Call.P2P {
			called = fmt.Sprintf("the other side of %s of %s", v.Call.What(), group)
		}
		return fmt.Sprintf("%s did not call %s, in which %s%s; %s", who, called, wait(v.Waiting), at(v.Call), v.lastCalls())
	}
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

// Ranks names ranks: "rank 3", "ranks 0 and 2", and of more than eight the number.
func Ranks(ranks []int) string {
	const most = 8
	switch {
	case len(ranks) == 1:
		return fmt.Sprintf("rank %d", ranks[0])
	case len(ranks) > most:
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
