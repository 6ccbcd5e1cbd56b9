package stacks

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/status"
)

// Job is where the ranks of a job are, as gorun stacks --json prints it. Names are stable;
// fields may be added.
type Job struct {
	RunID  string      `json:"run_id"`
	Round  int         `json:"round"`
	Nodes  int         `json:"nodes"`
	Groups []Group     `json:"groups"` // the smallest first
	Ranks  []RankStack `json:"ranks"`
	Silent []Silent    `json:"silent,omitempty"` // nodes whose ranks are not here
	Note   string      `json:"note,omitempty"`   // why this is not complete
}

// RankStack is the stack of a rank with its node.
type RankStack struct {
	Node string `json:"node"`
	Stack
}

// Silent is a node that did not answer.
type Silent struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// DecodeJob makes a Job of the view that answers a question about stacks. It does not trust
// the view.
func DecodeJob(view []byte) (Job, error) {
	v, nodes, err := status.DecodeAnswers(view, status.TopicStacks)
	if err != nil {
		return Job{}, err
	}
	j := Job{RunID: short(v.RunID, maxName), Round: v.Round, Note: short(v.Note, maxWhy), Groups: []Group{}, Ranks: []RankStack{}}
	for _, n := range nodes {
		if n.GroupRank < 0 {
			continue // a spare has no ranks
		}
		j.Nodes++
		all, err := []Stack(nil), error(nil)
		if n.Answered {
			all, err = Decode(n.Body)
		}
		switch {
		case err != nil:
			j.Silent = append(j.Silent, Silent{n.Name(), err.Error()})
		case !n.Answered:
			j.Silent = append(j.Silent, Silent{n.Name(), orElse(n.Trouble, "it has not answered")})
		}
		for _, s := range all {
			j.Ranks = append(j.Ranks, RankStack{n.Name(), s})
		}
	}
	slices.SortStableFunc(j.Ranks, func(a, b RankStack) int { return a.Rank - b.Rank })
	stacks := make([]Stack, len(j.Ranks))
	for i := range j.Ranks {
		stacks[i] = j.Ranks[i].Stack
	}
	j.Groups = append(j.Groups, GroupStacks(stacks)...)
	return j, nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// Find returns the stack of a rank, nil if it is not known.
func (j *Job) Find(rank int) *RankStack {
	i := slices.IndexFunc(j.Ranks, func(r RankStack) bool { return r.Rank == rank })
	if i < 0 {
		return nil
	}
	return &j.Ranks[i]
}

// maxGroups bounds the groups that are shown, unless all frames are.
const maxGroups = 24

// Write writes the groups for a user, the suspects first, and with full every frame.
func (j *Job) Write(w io.Writer, full bool) error {
	var b strings.Builder
	groups := j.Groups
	if !full {
		groups = groups[:min(len(groups), maxGroups)]
	}
	for i := range groups {
		fmt.Fprintln(&b, j.describe(&groups[i]))
	}
	if more := len(j.Groups) - len(groups); more > 0 {
		fmt.Fprintf(&b, "%d more groups of ranks are not shown; --full shows them, --rank R one rank\n", more)
	}
	if len(j.Ranks) == 0 && len(j.Silent) == 0 {
		b.WriteString("no worker runs\n")
	}
	for _, s := range j.Silent {
		fmt.Fprintf(&b, "%s: %s\n", s.Node, s.Why)
	}
	if j.Note != "" {
		fmt.Fprintf(&b, "note: %s\n", j.Note)
	}
	if full {
		for i := range j.Ranks {
			j.Ranks[i].write(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describe describes a group, with the node of a single rank if the job has several nodes.
func (j *Job) describe(g *Group) string {
	text := g.String()
	if r := j.Find(g.Ranks[0]); len(g.Ranks) == 1 && j.Nodes > 1 && r != nil {
		who := fmt.Sprintf("rank %d", g.Ranks[0])
		text = who + " on " + r.Node + strings.TrimPrefix(text, who)
	}
	return text
}

// write writes every frame of a rank, the innermost first.
func (r *RankStack) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nrank %d on %s, pid %d, from %s", r.Rank, r.Node, r.PID, sourceText(r.Source))
	if r.Kernel.State != "" {
		fmt.Fprintf(b, "; %s", r.Kernel.String())
	}
	b.WriteByte('\n')
	r.writeFrames(b)
	if h := r.Helper; h != nil {
		fmt.Fprintf(b, "  its process %d, from %s:\n", h.PID, sourceText(h.Source))
		h.writeFrames(b)
	}
}

func (s *Stack) writeFrames(b *strings.Builder) {
	if s.Missing != "" {
		fmt.Fprintf(b, "  no stack: %s\n", s.Missing)
	}
	for _, f := range s.Frames {
		at := f.File
		if f.Line > 0 {
			at += ":" + itoa(f.Line)
		}
		if at != "" {
			at = " (" + at + ")"
		}
		fmt.Fprintf(b, "  %s%s\n", f.Func, at)
	}
	for _, f := range s.Kernel.Stack {
		fmt.Fprintf(b, "  [kernel] %s\n", f)
	}
}

// sourceText says for a user where a stack comes from.
func sourceText(source string) string {
	switch source {
	case FromWorker:
		return "the worker itself"
	case FromMemory:
		return "the memory of the process"
	case FromKernel:
		return "the kernel"
	case "":
		return "no source"
	}
	return source
}
