package preflight

import (
	"slices"
	"strconv"
	"strings"
)

// LostSource is the source in Unknown of what a wrapper hands on.
const LostSource = "delivery"

// undelivered is what nodes saw not to arrive behind a wrapper: an error where
// workers would not find each other, a warning where they would work otherwise
// than was asked, a note where they lack what only some programs read.
func (f *Fleet) undelivered() []Finding {
	var all []Finding
	for _, grade := range []struct {
		severity Severity
		text     string
	}{
		{Error, "Variables without which workers cannot find their place do not arrive behind the program that starts them."},
		{Warning, "Variables do not arrive behind the program that starts the workers."},
		{Note, "Variables that only some programs read do not arrive behind the program that starts the workers."},
	} {
		x := Finding{Severity: grade.severity, Text: grade.text}
		most := 0 // names: the fix of who loses most serves the others, too
		values := odd(f.collect(func(_ int, n *Facts, add func(string)) {
			if f.gravity(n.Lost) != grade.severity {
				return
			}
			if names := len(n.Lost.Missing) + len(n.Lost.Changed) + len(n.Lost.Forced) + len(n.Lost.Untried); names > most {
				x.Steps, most = n.Lost.steps(), names
			}
			add(n.Lost.describe())
			add(n.Lost.Unseen)
		}))
		all = append(all, one(values, x)...)
	}
	return all
}

// gravity of what is lost; "" for nothing.
func (f *Fleet) gravity(l *Lost) Severity {
	if l == nil {
		return ""
	}
	lost := slices.Concat(l.Missing, l.Changed)
	has := func(names []string, is func(string) bool) bool { return slices.ContainsFunc(names, is) }
	essential := func(name string) bool { return slices.Contains(contract(), name) }
	switch {
	case has(lost, essential) && f.workers() > 1:
		return Error
	case has(lost, essential), len(l.Forced) > 0, has(lost, weighty), has(l.Untried, weighty):
		return Warning
	case len(lost)+len(l.Untried) > 0:
		return Note
	}
	return ""
}

// weighty: its loss changes what libraries do, or, for torch, who opens the store
// at MASTER_PORT, which gorun has open.
func weighty(name string) bool {
	if name == "TORCHELASTIC_USE_AGENT_STORE" {
		return true
	}
	for _, own := range []string{"TORCHELASTIC_", "GORUN_", "GROUP_", "ROLE_", "LOCAL_WORLD_SIZE"} {
		if strings.HasPrefix(name, own) {
			return false
		}
	}
	return true
}

// workers of all nodes, as far as they are known.
func (f *Fleet) workers() int {
	sum := 0
	for i := range f.Nodes {
		sum += f.Nodes[i].Node.Workers
	}
	return sum
}

// describe names the variables, the important ones first.
func (l *Lost) describe() string {
	var parts []string
	for _, p := range []struct {
		word  string
		names []string
	}{{"without ", l.Missing}, {"changed: ", l.Changed}, {"set by the command line: ", l.Forced}, {"probably without ", l.Untried}} {
		if len(p.names) == 0 {
			continue
		}
		const most = 10
		text := p.word + strings.Join(p.names[:min(len(p.names), most)], ", ")
		if more := len(p.names) - most; more > 0 {
			text += " and " + strconv.Itoa(more) + " more"
		}
		parts = append(parts, text)
	}
	return "behind " + l.Wrapper + ": " + strings.Join(parts, "; ")
}

// steps are the lines of Fix, of which those that begin with two blanks are the
// beginnings of command lines. What would do more in a shell than start one
// program is no such line: it is another node's word.
func (l *Lost) steps() (steps []Step) {
	for _, line := range l.Fix {
		command, ok := strings.CutPrefix(line, "  ")
		ok = ok && !strings.ContainsAny(command, ";&|<>()`$\\\"#")
		command = strings.TrimSuffix(command, " ...")
		switch n := len(steps) - 1; {
		case ok && n >= 0 && steps[n].Place == ByHand:
			steps[n] = toProgram(strings.TrimSuffix(steps[n].Text, ":"), command)
		case ok && n >= 0:
			steps[n].Lines = append(steps[n].Lines, command)
		case line != "":
			steps = append(steps, byHand(line))
		}
	}
	if len(steps) > 0 {
		return steps
	}
	names := slices.Concat(l.Missing, l.Changed, l.Untried)
	switch engine, _, _ := strings.Cut(l.Wrapper, " "); {
	case len(names) == 0:
		return []Step{byHand("do not give " + strings.Join(l.Forced, ", ") + " a value of your own on the command line: every worker has another")}
	case engine == "docker" || engine == "podman" || engine == "nerdctl":
		return []Step{toProgram("pass them on", l.Wrapper+" -e "+strings.Join(names, " -e "))}
	}
	return []Step{byHand("start gorun behind " + l.Wrapper + ", or have it pass on " + strings.Join(names, ", "))}
}
