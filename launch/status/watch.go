package status

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Follower knows how fast ranks are from the statuses of a job that it has seen, one after
// the other. The zero value is ready.
type Follower struct {
	seen map[int][]progress // by rank, the oldest first
}

// progress is where a rank was at one time.
type progress struct {
	pid  int
	up   int64 // milliseconds since the rank's start
	step uint64
}

// maxProgress bounds the statuses in which a rank's rate is measured: a minute of
// gorun status --watch.
const maxProgress = 60

// Add sets the rates of the ranks of a status, as far as the earlier ones tell them.
func (f *Follower) Add(s *Status) {
	seen := map[int][]progress{}
	for i := range s.Nodes {
		for j := range s.Nodes[i].Ranks {
			r := &s.Nodes[i].Ranks[j]
			if r.Step == 0 || r.State != Running {
				continue
			}
			now, all := progress{r.PID, r.Up, r.Step}, f.seen[r.Rank]
			if n := len(all); n > 0 && (all[n-1].pid != now.pid || all[n-1].step > now.step || all[n-1].up >= now.up) {
				all = nil // another process, or a program that counts anew
			}
			all = append(all[max(0, len(all)-maxProgress+1):], now)
			seen[r.Rank] = all
			if first := all[0]; now.up > first.up {
				rate := float64(now.step-first.step) * 1000 / float64(now.up-first.up)
				r.Rate = &rate
			}
		}
	}
	f.seen = seen
}

// Watch writes the status for a terminal of so many rows, 0: any number. If not all ranks
// fit, those unlike the others come first and the rest is one line.
func (s *Status) Watch(w io.Writer, rows int) error {
	var b strings.Builder
	s.writeHead(&b)
	norm := s.norm()
	if text := norm.steps(); text != "" {
		fmt.Fprintln(&b, text)
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !n.Answered {
			fmt.Fprintf(&b, "node %s: %s\n", n.Name(), n.state())
		}
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&b, "%s %s %s\n", f.Severity, f.ID, f.Title)
	}
	b.WriteByte('\n')
	room := maxRanksShown
	if rows > 0 {
		room = max(minRows, rows-strings.Count(b.String(), "\n")-watchMargin)
	}
	shown, hidden := norm.choose(s.rows(), room)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(shown) > 0 {
		fmt.Fprintln(t, "RANK\tNODE\tSTATE\tSTEP\tSTEPS/S\tLAST OUTPUT\tREMARK")
	}
	for _, r := range shown {
		step, rate := "-", "-"
		if r.Step > 0 {
			step = strconv.FormatUint(r.Step, 10)
		}
		if r.Rate != nil {
			rate = formatRate(*r.Rate)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Rank.Rank, r.node.Name(), r.state(), step, rate, r.lastOutput(), norm.remark(r.Rank))
	}
	t.Flush()
	if hidden > 0 {
		fmt.Fprintf(&b, "%d ranks like most are not shown; gorun status --ranks shows them\n", hidden)
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}

const (
	minRows     = 5 // ranks that are shown in the lowest terminal
	watchMargin = 3 // rows for the table's head, the hidden ranks and the prompt
)

// Lines returns the status for a log: a line for the job and one for each rank that is
// unlike the others.
func (s *Status) Lines() []string {
	norm := s.norm()
	first := fmt.Sprintf("run %s: %s, round %d; %s", s.RunID, s.State, s.Round, s.Totals())
	if text := norm.steps(); text != "" {
		first += "; " + text
	}
	lines := []string{first}
	shown, _ := norm.choose(s.rows(), 0)
	for _, r := range shown[:min(len(shown), maxRanksShown)] {
		text := fmt.Sprintf("rank %d on %s: %s", r.Rank.Rank, r.node.Name(), r.state())
		if r.Step > 0 {
			text += fmt.Sprintf(", step %d", r.Step)
		}
		text += ", last output " + r.lastOutput()
		if remark := norm.remark(r.Rank); remark != "" {
			text += ", " + remark
		}
		lines = append(lines, text)
	}
	if more := len(shown) - maxRanksShown; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more ranks are unlike the others", more))
	}
	return lines
}

func formatRate(rate float64) string {
	return strconv.FormatFloat(rate, 'g', 3, 64)
}

// norm is how most ranks of a job are.
type norm struct {
	state   string  // of most ranks
	silent  int64   // milliseconds without output after which a rank is unlike the others; -1: nothing is known
	least   uint64  // step of the last rank; 0: no rank told one
	most    uint64  // step of the first one
	rate    float64 // median of the ranks; 0: not known
	waiting int     // number of ranks that have been in a call for longer than longCallMS
	running int
}

// rows returns all ranks with their nodes.
func (s *Status) rows() (all []row) {
	for i := range s.Nodes {
		for j := range s.Nodes[i].Ranks {
			all = append(all, row{&s.Nodes[i].Ranks[j], &s.Nodes[i]})
		}
	}
	return all
}

// norm finds out how most ranks are.
func (s *Status) norm() (n norm) {
	states, ages, rates := map[string]int{}, []int64{}, []float64{}
	for _, r := range s.rows() {
		states[r.State]++
		if r.Output != nil {
			ages = append(ages, *r.Output)
		}
		if r.State != Running {
			continue
		}
		n.running++
		if r.waits() {
			n.waiting++
		}
		if r.Step > 0 {
			if n.least == 0 || r.Step < n.least {
				n.least = r.Step
			}
			n.most = max(n.most, r.Step)
		}
		if r.Rate != nil {
			rates = append(rates, *r.Rate)
		}
	}
	for state, count := range states {
		if count > states[n.state] || count == states[n.state] && state < n.state {
			n.state = state
		}
	}
	n.silent = -1
	if len(ages) > 0 {
		slices.Sort(ages)
		n.silent = max(silentMS, silentFactor*ages[len(ages)/2])
	}
	if len(rates) > 0 {
		slices.Sort(rates)
		n.rate = rates[len(rates)/2]
	}
	return n
}

// waits reports whether a rank has been in a call for long.
func (r *Rank) waits() bool { return r.Call != "" && r.CallAge >= longCallMS }

// steps says on one line how far the ranks are, "" if they do not tell it.
func (n *norm) steps() string {
	if n.most == 0 {
		return ""
	}
	text := fmt.Sprintf("steps: %d", n.most)
	if n.least < n.most {
		text = fmt.Sprintf("steps: %d to %d", n.least, n.most)
	}
	if n.rate > 0 {
		text += fmt.Sprintf(", %s a second", formatRate(n.rate))
	}
	return text
}

const (
	// behindSteps is by how many steps a rank is behind the first one to be unlike it.
	// Ranks that wait for each other in each step differ by one.
	behindSteps = 2
	// slowFactor is how many times slower than the median a rank is to be unlike it.
	slowFactor = 2
)

// remark says what a rank does unlike the others, "" if nothing.
func (n *norm) remark(r *Rank) string {
	var all []string
	if r.Message != "" {
		all = append(all, r.Message)
	}
	if r.State == Running {
		if r.Step > 0 && n.most-min(n.most, r.Step) >= behindSteps {
			all = append(all, fmt.Sprintf("%d steps behind", n.most-r.Step))
		}
		if r.Rate != nil && n.rate > 0 && *r.Rate*slowFactor < n.rate {
			all = append(all, "slower than the others")
		}
		if n.waiting*2 > n.running && !r.waits() {
			all = append(all, fmt.Sprintf("%d ranks wait in a call, and it is in none", n.waiting))
		}
	}
	if r.Output != nil && n.silent >= 0 && *r.Output > n.silent {
		all = append(all, "silent")
	}
	if r.waits() && n.waiting*2 <= n.running {
		all = append(all, "in "+r.Call+" for "+formatDuration(r.CallAge))
	}
	return strings.Join(all, "; ")
}

// isOdd reports whether a rank is unlike most others.
func (n *norm) isOdd(r *Rank) bool { return r.State != n.state || n.remark(r) != "" }

// choose returns the ranks to show: all if there is room, otherwise those that are unlike
// the others, as many as there is room for; with no room at all, every one of these.
func (n *norm) choose(all []row, room int) (shown []row, hidden int) {
	if len(all) <= room {
		return all, 0
	}
	shown = slices.DeleteFunc(slices.Clone(all), func(r row) bool { return !n.isOdd(r.Rank) })
	if room > 0 {
		shown = shown[:min(len(shown), room)]
	}
	return shown, len(all) - len(shown)
}
