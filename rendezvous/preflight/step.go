package preflight

import (
	"slices"
	"strings"
)

// Step is one part of what to do about a finding.
type Step struct {
	Place Place    `json:"place"`
	Text  string   `json:"text,omitempty"`  // what it does; ByHand: what a person has to do, and who
	Nodes []int    `json:"nodes,omitempty"` // group ranks of the nodes where it is done; empty: all nodes, or, on gorun's command line, any
	Lines []string `json:"lines,omitempty"` // what is pasted
	Or    bool     `json:"or,omitempty"`    // it begins another way, which needs no step before it

	every bool // on all nodes: Compare does not put in the nodes that the finding marks
}

// Place is where the lines of a step are pasted.
type Place string

const (
	InShell     Place = "shell"     // commands for the shell that starts gorun
	AsRoot      Place = "root"      // commands for any shell of root
	ToGorun     Place = "gorun"     // options for the command line of gorun
	ToContainer Place = "container" // options for the command that starts the node's container, as docker run has them
	ToProgram   Place = "program"   // the beginning of the command line of what stands in front of the workers' program
	ToLook      Place = "look"      // commands for any shell, which change nothing
	ByHand      Place = "hand"      // no line does it
)

// The steps of a rule are for the nodes that its finding marks, unless they say
// something else.

func inShell(text string, lines ...string) Step {
	return Step{Place: InShell, Text: text, Lines: lines}
}

func asRoot(text string, lines ...string) Step { return Step{Place: AsRoot, Text: text, Lines: lines} }

func toGorun(text string, lines ...string) Step {
	return Step{Place: ToGorun, Text: text, Lines: lines}
}

func toContainer(text string, lines ...string) Step {
	return Step{Place: ToContainer, Text: text, Lines: lines}
}

func toProgram(text string, lines ...string) Step {
	return Step{Place: ToProgram, Text: text, Lines: lines}
}

func toLook(text string, lines ...string) Step { return Step{Place: ToLook, Text: text, Lines: lines} }
func byHand(text string) Step                  { return Step{Place: ByHand, Text: text} }

// or makes the step the beginning of another way.
func (s Step) or() Step { s.Or = true; return s }

// everywhere makes it a step for all nodes.
func (s Step) everywhere() Step { s.every = true; return s }

// on makes it a step for these nodes.
func (s Step) on(nodes []int) Step { s.Nodes = nodes; return s }

// everyone names all nodes.
func everyone(names []string) string {
	switch len(names) {
	case 1:
		return nameOf(0, names)
	case 2:
		return "both nodes"
	default:
		return "all nodes"
	}
}

// place puts in the nodes where a step is done that names none itself.
func (s *Step) place(marked []int, all int) {
	if !s.every && s.Nodes == nil && s.Place != ToGorun && s.Place != ToProgram && s.Place != ByHand {
		s.Nodes = slices.Clone(marked)
	}
	if len(s.Nodes) == all {
		s.Nodes, s.every = nil, true
	}
}

// marked are the odd nodes of a finding, or all that it names, ascending.
func marked(values []Value) []int {
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

// telling gives steps as text: prose, and lines that begin with two blanks are
// pasted. called names nodes.
func telling(steps []Step, called func(nodes []int) string) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 {
			b.WriteByte('\n')
		}
		if s.Or {
			b.WriteString("or ")
		}
		head := s.where(called)
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

// where tells the place of a step, "" when its lines show it.
func (s *Step) where(called func(nodes []int) string) string {
	on := ""
	switch {
	case s.Nodes != nil:
		on = "on " + called(s.Nodes)
	case s.every:
		on = "on " + called(nil)
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
