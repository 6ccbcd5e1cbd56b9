package recorder

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/flight"
	"github.com/gorun/gorun/launch/status"
)

// Job is in which collectives the ranks of a job are, as gorun status --collectives --json
// prints it. Names are stable; fields may be added.
type Job struct {
	RunID     string            `json:"run_id"`
	Round     int               `json:"round"`
	Causes    []Wait            `json:"causes"`       // what holds the job up
	Followers []Wait            `json:"consequences"` // what waits for the causes
	Positions []flight.Position `json:"positions"`
	Missing   []flight.Missing  `json:"missing,omitempty"` // ranks whose recorders gave nothing
	Silent    []Silent          `json:"silent,omitempty"`  // nodes that did not answer
	Note      string            `json:"note,omitempty"`    // why this is not complete
}

// Silent is a node that did not answer.
type Silent struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Wait is a collective in which ranks wait.
type Wait struct {
	Kind       flight.Kind `json:"kind"`
	Text       string      `json:"text"`
	Ranks      []int       `json:"ranks"` // that the others wait for
	Waiting    []int       `json:"waiting"`
	Collective string      `json:"collective"`
	Where      string      `json:"where,omitempty"`
}

// DecodeJob makes a Job of the view that answers a question about collectives. It does not
// trust the view.
func DecodeJob(view []byte) (Job, error) {
	v, nodes, err := status.DecodeAnswers(view, status.TopicCollectives)
	if err != nil {
		return Job{}, err
	}
	j := Job{RunID: flight.Short(v.RunID), Round: v.Round, Note: flight.Short(v.Note), Causes: []Wait{}, Followers: []Wait{}}
	var dumps []flight.Dump
	for _, n := range nodes {
		if n.GroupRank < 0 {
			continue // a spare has no ranks
		}
		why := n.Trouble
		if n.Answered {
			a, err := flight.DecodeAnswer(n.Body)
			if err == nil {
				dumps, j.Missing = append(dumps, a.Dumps...), append(j.Missing, a.Missing...)
				continue
			}
			why = "its answer is not right: " + err.Error()
		} else if why == "" {
			why = "it has not answered"
		}
		j.Silent = append(j.Silent, Silent{n.Name(), why})
	}
	slices.SortFunc(j.Missing, func(a, b flight.Missing) int { return a.Rank - b.Rank })
	for _, x := range flight.Compare(dumps) {
		w := Wait{x.Kind, x.String(), append([]int{}, x.Ranks()...), append([]int{}, x.Waiting...), x.Collective(), x.Where()}
		if x.Follows {
			j.Followers = append(j.Followers, w)
		} else {
			j.Causes = append(j.Causes, w)
		}
	}
	j.Positions = append([]flight.Position{}, flight.Positions(dumps)...)
	return j, nil
}

// maxLines bounds the lines of each part that Write prints.
const maxLines = 20

// Write prints the job for a person: what holds it up, then where the ranks are.
func (j *Job) Write(out io.Writer) error {
	var b strings.Builder
	part := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n", title)
		for _, l := range lines[:min(len(lines), maxLines)] {
			fmt.Fprintf(&b, "  %s\n", l)
		}
		if more := len(lines) - maxLines; more > 0 {
			fmt.Fprintf(&b, "  and %d more; --json has them\n", more)
		}
	}
	texts := func(all []Wait) (lines []string) {
		for _, w := range all {
			lines = append(lines, w.Text)
		}
		return lines
	}
	part("What ranks wait for now:", texts(j.Causes))
	part("What follows from that:", texts(j.Followers))
	var lines []string
	for _, p := range j.Positions {
		lines = append(lines, p.Group+": "+p.String())
	}
	part("Where the ranks are:", lines)
	part("Without an answer:", j.absent())
	if len(j.Positions) == 0 && len(j.Missing)+len(j.Silent) == 0 {
		b.WriteString("no process group has been made yet\n")
	}
	if j.Note != "" {
		fmt.Fprintf(&b, "%s\n", j.Note)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// absent lists what gave no answer. Ranks with one reason share a line.
func (j *Job) absent() (lines []string) {
	var reasons []string
	ranks := map[string][]int{}
	for _, m := range j.Missing {
		if ranks[m.Why] == nil {
			reasons = append(reasons, m.Why)
		}
		ranks[m.Why] = append(ranks[m.Why], m.Rank)
	}
	for _, why := range reasons {
		lines = append(lines, fmt.Sprintf("%s: %s", flight.Ranks(ranks[why]), why))
	}
	for _, s := range j.Silent {
		lines = append(lines, fmt.Sprintf("%s: %s", s.Node, s.Why))
	}
	return lines
}
