package preflight

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Step is one part of what to do about a finding.
type Step struct {
	Place Place    `json:"place"`
	Text  string   `json:"text,omitempty"`  // what it does; with ByHand: what a person has to do
	Nodes []int    `json:"nodes,omitempty"` // group ranks of the nodes where it is done; empty: all nodes, or, on gorun's command line, any node
	Lines []string `json:"lines,omitempty"` // lines to paste
	Or    bool     `json:"or,omitempty"`    // the step begins another way, which needs no step before it

	Everyone bool `json:"-"` // for all nodes: Compare does not set the nodes that the finding marks
}

// Place is where the lines of a step are pasted.
type Place string

const (
	InShell     Place = "shell"     // commands for the shell that starts gorun
	AsRoot      Place = "root"      // commands for any shell of root
	ToGorun     Place = "gorun"     // options for the command line of gorun
	ToContainer Place = "container" // options for the command that starts the node's container, as docker run has them
	ToProgram   Place = "program"   // the beginning of the command line of the wrapper before the workers' program
	ToShow      Place = "look"      // commands for any shell, which change nothing
	ByHand      Place = "hand"      // no line to paste
)

// The steps of a rule are for the nodes that its finding marks, unless the
// steps name other nodes.

// Step returns a step that is done at this place.
func (p Place) Step(text string, lines ...string) Step {
	return Step{Place: p, Text: text, Lines: lines}
}

// Alternative returns the step as the beginning of another way.
func (s Step) Alternative() Step { s.Or = true; return s }

// Everywhere returns the step for all nodes.
func (s Step) Everywhere() Step { s.Everyone = true; return s }

// On returns the step for these nodes.
func (s Step) On(nodes []int) Step { s.Nodes = nodes; return s }

// allNodes names all nodes.
func allNodes(names []string) string {
	switch len(names) {
	case 1:
		return NodeName(0, names)
	case 2:
		return "both nodes"
	default:
		return "all nodes"
	}
}

// setNodes sets the nodes of a step that names none.
func (s *Step) setNodes(marked []int, all int) {
	if !s.Everyone && s.Nodes == nil && s.Place != ToGorun && s.Place != ToProgram && s.Place != ByHand {
		s.Nodes = slices.Clone(marked)
	}
	if len(s.Nodes) == all {
		s.Nodes, s.Everyone = nil, true
	}
}

// Marked returns the odd nodes of a finding, or all nodes that it names,
// ascending.
func Marked(values []Value) []int {
	var odd, named []int
	for _, v := range values {
		named = append(named, v.Nodes...)
		if v.Odd {
			odd = append(odd, v.Nodes...)
		}
	}
	if odd == nil {
		odd = named
	}
	slices.Sort(odd)
	return slices.Compact(odd)
}

// describeSteps writes steps as text: prose, and lines to paste, which begin
// with two blanks. nameOf names nodes.
func describeSteps(steps []Step, nameOf func(nodes []int) string) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 {
			b.WriteByte('\n')
		}
		if s.Or {
			b.WriteString("or ")
		}
		head := s.location(nameOf)
		switch {
		case len(s.Lines) == 0:
			b.WriteString(s.Text)
			continue
		case s.Text != "" && head != "":
			head = s.Text + ", " + head
		case head == "":
			head = s.Text
		}
		b.WriteString(head + ":")
		for _, line := range s.Lines {
			switch s.Place {
			case ToGorun:
				line = "gorun " + line + " ..."
			case ToContainer:
				line = "docker run " + line + " ..."
			case ToProgram:
				line += " ..."
			}
			b.WriteString("\n  " + line)
		}
	}
	return b.String()
}

// location says where the lines of a step are pasted, "" if the lines show it.
func (s *Step) location(nameOf func(nodes []int) string) string {
	on := ""
	switch {
	case s.Nodes != nil:
		on = "on " + nameOf(s.Nodes)
	case s.Everyone:
		on = "on " + nameOf(nil)
	}
	switch s.Place {
	case AsRoot:
		return on + ", as root"
	case ToContainer:
		return "where the container is started, " + on
	default:
		return on
	}
}

// MaxSteps bounds the steps that differ only from node to node.
const MaxSteps = 8

// StepsFor makes a step for each group of nodes that need the same lines. A
// node without lines gets no step.
func (f *Fleet) StepsFor(nodes []int, at Place, text string, lines func(i int, n *Facts) []string) []Step {
	const newline = "\n"
	stepIndex := map[string]int{}
	var steps []Step
	for _, i := range nodes {
		list := lines(i, &f.Nodes[i])
		key := strings.Join(list, newline)
		k, ok := stepIndex[key]
		switch {
		case len(list) == 0:
		case ok:
			steps[k].Nodes = append(steps[k].Nodes, i)
		case len(steps) == MaxSteps:
			return append(steps, ByHand.Step("do the same on the other marked nodes, with their own values"))
		default:
			stepIndex[key] = len(steps)
			steps = append(steps, at.Step(text, list...).On([]int{i}))
			text = ""
		}
	}
	return steps
}

// Either joins two ways to fix a finding; more begins the second way.
func Either(steps []Step, more ...Step) []Step {
	if len(steps) > 0 && len(more) > 0 {
		more[0].Or = true
	}
	return append(steps, more...)
}

// EveryRank returns the step that gives all ranks of the job one value.
func EveryRank(text, name, value string) Step {
	if strings.Contains(value, ncclenv.Hidden) { // a node's own value, which is not shown
		return ToGorun.Step(text+", on the node that has it", "-x "+name)
	}
	step := ToGorun.Step(text, "-x "+term.Command(name+"="+value))
	if ncclenv.RunsCodeWith(name, value) { // without a secret, no node accepts it from another node
		step = step.Everywhere()
	}
	return step
}
