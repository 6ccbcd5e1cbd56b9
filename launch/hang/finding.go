package hang

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Shape says how the ranks of a finding wait.
type Shape string

const (
	Closed   Shape = "closed"   // Ranks wait for each other
	Behind   Shape = "behind"   // Ranks have not entered what the others wait in
	Other    Shape = "other"    // Ranks made another call than the others
	Together Shape = "together" // all ranks are in one call that does not end
	Unknown  Shape = "unknown"  // no collective is known
)

// Finding says why a job hangs.
type Finding struct {
	Shape      Shape
	Ranks      []int // at fault; empty: none is known
	Waiting    []int // the ranks that wait for them
	Collective string
	Since      time.Duration
	Where      string // where in the program Ranks are, or were last; "": unknown
	Key        string // the same for the same hang, whenever it is seen

	inside bool     // Ranks are in the call too, but stopped
	waitAt string   // where in the program the ranks wait
	calls  []string // Closed: the calls of Ranks
	signs  map[int]*Sign
	text   string // Known.Text
}

// MayStop reports whether the finding is sure enough to end the job by it: a collective is
// known in which ranks wait, and no rank of a closed cycle uses its CPUs for another
// goroutine, unless the cycle is as old as the timeout.
func (f *Finding) MayStop(timeout time.Duration) bool {
	if f.Shape == Unknown || f.Collective == "" {
		return false
	}
	if f.Shape != Closed || f.Since >= timeout {
		return true
	}
	return stillest(f.signs, f.Ranks) >= closedTime
}

// PID returns the process id of a rank, 0 if it is not known.
func (f *Finding) PID(rank int) int {
	if s := f.signs[rank]; s != nil {
		return s.PID
	}
	return 0
}

// IsStopped reports whether a rank is stopped by a signal.
func (f *Finding) IsStopped(rank int) bool {
	s := f.signs[rank]
	return s != nil && s.Doing == Frozen
}

// fromKnown reports whether the finding is about a wait that was asked for, not one that
// signs show.
func (f *Finding) fromKnown() bool { return f.text != "" }

// closedFinding makes a finding of a closed cycle.
func closedFinding(g *graph, cycle []edge) Finding {
	f := Finding{Shape: Closed, Collective: cycle[0].line.Open.Text, Where: cycle[0].line.Open.Where, signs: g.signs, Since: 1 << 62}
	for _, e := range cycle {
		call := fmt.Sprintf("rank %d is in %s", e.rank, e.line.Open.Text)
		if at := e.line.Open.Where; at != "" {
			call += " at " + at
		}
		f.Ranks, f.calls = append(f.Ranks, e.rank), append(f.calls, call)
		f.Since = min(f.Since, e.line.Open.Age)
		f.Key += fmt.Sprintf("%d/%x/%d ", e.rank, e.line.Comm, e.line.Open.Number)
	}
	f.Waiting = f.Ranks
	return f
}

// findWait returns the wait for ranks that do not wait themselves, or else the wait that is
// known. Its Shape is "" if there is none.
func findWait(g *graph, known []Known) Finding {
	if call, waiting, ranks := g.behind(); call != nil {
		f := Finding{
			Shape: Behind, Ranks: ranks, Waiting: waiting, Collective: call.Open.Text, Since: call.Open.Age, waitAt: call.Open.Where, signs: g.signs,
			Key: fmt.Sprintf("%x/%d/%s %v", call.Comm, call.Seq, call.Open.Waits, waiting),
		}
		if l := g.signs[ranks[0]].last(call.Comm); l != nil {
			f.Where = l.Last
		}
		f.inside = g.sharesCall(ranks, call)
		return f
	}
	if len(known) > 0 {
		k := &known[0]
		f := Finding{Shape: Behind, Ranks: k.Ranks, Waiting: k.Waiting, Collective: k.Collective, Since: k.Age, Where: k.Where, waitAt: k.WaitAt, signs: g.signs, text: k.Text, Key: fmt.Sprint(k.Collective, k.Ranks)}
		if f.Since == 0 {
			f.Since = stillest(g.signs, k.Waiting)
		}
		switch {
		case k.Closed:
			f.Shape = Closed
		case k.Other:
			f.Shape = Other
		case len(k.Ranks) == 0:
			f.Shape = Together
		}
		return f
	}
	return Finding{signs: g.signs}
}

// stillest returns for how long none of the ranks has made progress.
func stillest(signs map[int]*Sign, ranks []int) time.Duration {
	least := time.Duration(1 << 62)
	for _, r := range ranks {
		if s := signs[r]; s != nil {
			least = min(least, s.Still)
		}
	}
	if least == 1<<62 {
		return 0
	}
	return least
}

// waited returns how long a rank has waited in the collectives of a wait that ranks hold up.
func (f *Finding) waited(s *Sign, known []Known) time.Duration {
	if f.Shape != Behind && f.Shape != Closed && f.Shape != Other {
		return 0
	}
	age := time.Duration(0)
	if l := s.oldest(); l != nil {
		age = l.Open.Age
	}
	for i := range known {
		if slices.Contains(known[i].Waiting, s.Rank) {
			age = max(age, known[i].Age)
		}
	}
	return age
}

// orUnknown returns the finding of ranks of which none makes progress.
func (f Finding) orUnknown(g *graph) Finding {
	if f.Shape != "" {
		return f
	}
	f.Since = 1 << 62
	calls := map[string]int{}
	for rank, s := range g.signs {
		switch s.Doing {
		case Ended:
			continue
		case Frozen:
			f.Ranks = append(f.Ranks, rank)
		}
		f.Since = min(f.Since, s.Still)
		f.Waiting = append(f.Waiting, rank)
		if l := s.oldest(); l != nil {
			calls[l.Open.Text]++
			f.Collective, f.waitAt = l.Open.Text, l.Open.Where
		}
	}
	slices.Sort(f.Ranks)
	slices.Sort(f.Waiting)
	f.Waiting = slices.DeleteFunc(f.Waiting, func(r int) bool { return slices.Contains(f.Ranks, r) })
	f.Shape, f.Key = Unknown, "still"
	if len(calls) == 1 && calls[f.Collective] == len(f.Waiting) {
		f.Shape, f.Key = Together, f.Collective
	} else {
		f.Collective, f.waitAt = "", ""
	}
	return f
}

// Place names where ranks are, for a sentence.
type Place struct {
	Host  func(rank int) string // "": not known
	Where func(rank int) string // "load_data (data.py:13)"; "": not known
}

// Sentence says why the job hangs, where, and what the ranks at fault do.
func (f *Finding) Sentence(p Place) string {
	since := " for " + age(f.Since)
	if f.text != "" && f.Shape != Behind {
		return f.text + since + f.what(p)
	}
	switch f.Shape {
	case Closed:
		text := fmt.Sprintf("ranks wait for each other%s, and no other goroutine of theirs has made a call that ends it: %s", since, strings.Join(f.calls[:min(len(f.calls), maxNamed)], "; "))
		if more := len(f.calls) - maxNamed; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		switch {
		case f.all(func(c *Call) bool { return c.Waits == ForReceiver }):
			return text + "; let one of them receive first, or use SendRecv or Isend"
		case f.all(func(c *Call) bool { return c.Waits == ForSender }):
			return text + "; let one of them send first, or use SendRecv or Isend"
		}
		return text + "; let all ranks make the same calls in the same order"
	case Together:
		verb := "are all in"
		if len(f.Waiting) == 1 {
			verb = "is in"
		}
		text := fmt.Sprintf("%s %s %s%s%s", Ranks(f.Waiting), verb, f.Collective, atPlace(f.waitAt), since)
		if len(f.Ranks) > 0 { // stopped, after what they may have had to send for the call
			return f.named(p) + f.what(p) + "; " + text + ", and it does not end"
		}
		return text + ", none is behind, and it does not end: look at the network and the devices between them"
	case Behind:
		wait := "that " + Ranks(f.Waiting) + " wait"
		if len(f.Waiting) == 1 {
			wait += "s"
		}
		if n := len(f.Waiting); n > maxNamed {
			wait = fmt.Sprintf("that %d ranks wait", n)
		}
		verb := "never entered "
		switch {
		case f.inside:
			verb = "does not go on in "
			if len(f.Ranks) > 1 {
				verb = "do not go on in "
			}
		case f.signs != nil && f.isMessage():
			verb = "never made the other end of "
		}
		return fmt.Sprintf("%s %s%s %s in%s since %s%s", f.named(p), verb, f.Collective, wait, atPlace(f.waitAt), age(f.Since), f.what(p))
	}
	text := "no rank has made progress" + since + ", and none computes, reads or writes files"
	if len(f.Ranks) > 0 {
		text = f.named(p) + f.what(p) + "; " + text
	}
	return text
}

// maxNamed is the number of ranks that a sentence names.
const maxNamed = 8

// named names the ranks at fault, a single one with its host.
func (f *Finding) named(p Place) string {
	text := Ranks(f.Ranks)
	if len(f.Ranks) != 1 || p.Host == nil {
		return text
	}
	if host := p.Host(f.Ranks[0]); host != "" {
		text += " (" + host + ")"
	}
	return text
}

// what says what the ranks at fault do, as far as that is the same for all that are named.
func (f *Finding) what(p Place) string {
	var all []string
	for _, rank := range f.Ranks[:min(len(f.Ranks), maxNamed)] {
		text := ""
		if p.Where != nil {
			text = p.Where(rank)
		}
		s := f.signs[rank]
		switch {
		case s != nil && s.Doing == Ended:
			text = "has ended with exit code 0"
		case s != nil && s.Doing == Frozen:
			text = fmt.Sprintf("is stopped by a signal (kill -CONT %d lets it go on)", s.PID)
		case text != "":
			text = "is in " + text
		case f.Where != "" && len(f.Ranks) == 1:
			text = "made its last call at " + f.Where
		case s != nil && s.State == "D":
			text = "waits for a disk or a device"
		case s != nil && s.Still >= time.Second:
			text = "sleeps"
		case s != nil:
			text = string(s.Doing)
		}
		if text != "" && len(f.Ranks) > 1 {
			text = "rank " + strconv.Itoa(rank) + " " + text
		} else if text != "" && (f.Shape == Behind || f.Shape == Other) {
			text = "it " + text
		}
		if text != "" {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	if (f.Shape == Unknown || f.Shape == Together) && len(f.Ranks) == 1 {
		return " " + all[0]
	}
	return "; " + strings.Join(all, "; ")
}

func (f *Finding) isMessage() bool {
	for _, rank := range f.Waiting {
		if s := f.signs[rank]; s != nil {
			if l := s.oldest(); l != nil && l.Open.Text == f.Collective {
				return l.Open.isMessage()
			}
		}
	}
	return false
}

// all reports whether all calls of a closed cycle are of a kind.
func (f *Finding) all(is func(*Call) bool) bool {
	return !slices.ContainsFunc(f.Ranks, func(r int) bool {
		s := f.signs[r]
		return s == nil || s.oldest() == nil || !is(s.oldest().Open)
	})
}

func atPlace(where string) string {
	if where == "" {
		return ""
	}
	return " at " + where
}

// age formats a time for a sentence: "4m12s".
func age(d time.Duration) string { return d.Truncate(time.Second).String() }

// Ranks names ranks: "rank 3", "ranks 0 and 2", and of many the first and the number.
func Ranks(ranks []int) string {
	var names []string
	for _, r := range ranks[:min(len(ranks), maxNamed)] {
		names = append(names, strconv.Itoa(r))
	}
	switch n := len(ranks); {
	case n == 0:
		return "no rank"
	case n == 1:
		return "rank " + names[0]
	case n > maxNamed:
		return fmt.Sprintf("%d ranks (%s, ...)", n, strings.Join(names, ", "))
	default:
		return "ranks " + strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}
