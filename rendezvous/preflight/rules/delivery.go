package rules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// deliveryRules returns E03: whether the environment reaches the workers.
func deliveryRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "E03", Name: "env-delivered", Severity: preflight.Error,
		Meaning: "No node lost variables that the others have, and no wrapper (docker run, ssh, sudo, srun, env -i, a login shell) keeps them from the workers. Through the wrapper, in the place of the worker's program, gorun starts a program that prints its environment, with what a rank, its devices and this node's -x, --env-file and --iface give it. A variable that only another node gives is not sent; it counts as lost where no unknown name arrives. `--dry-run` and `gorun env` start nothing and go by the wrapper's options. Only the five variables without which a worker cannot find its place are an error, in a job of several workers.",
		Symptom: "As E01 and I01; a container that ignores NCCL_SOCKET_IFNAME; workers that do not know their rank.",
		Steps: []preflight.Step{
			preflight.ToProgram.Step("pass the variables on, where a wrapper stands before the workers' program",
				"docker run -e RANK -e LOCAL_RANK -e WORLD_SIZE -e MASTER_ADDR -e MASTER_PORT -e NCCL_SOCKET_IFNAME",
				"sudo --preserve-env=RANK,LOCAL_RANK,WORLD_SIZE,MASTER_ADDR,MASTER_PORT,NCCL_SOCKET_IFNAME"),
			preflight.EveryRank("give the node what the others have", "NCCL_SOCKET_IFNAME", "=eth0").Alternative(),
			preflight.ByHand.Step("start gorun inside the container or on the remote host").Alternative(),
		},
		Check: checkDelivered,
	}}
}

func checkDelivered(f *preflight.Fleet) []preflight.Finding {
	all := undelivered(f)
	if v := f.View(); !v.NCCL && !v.Gloo {
		return all
	}
	return append(all, missingVariables(f)...)
}

// missingVariables finds nodes that lack variables which at least half of the
// nodes set and which may differ between nodes. E01 finds a single variable
// whose values differ on the other nodes. A variable that only half of the
// nodes set is a warning, because that may be intended.
func missingVariables(f *preflight.Fleet) []preflight.Finding {
	nodes := countSettings(f)
	perNode := map[string]bool{}  // by name: whether it may differ between nodes
	expected := map[string]bool{} // names that most nodes have, or all must have
	for _, u := range usages(f) {
		if u.nodes == nodes || 2*u.nodes < nodes || !isReadByLibraries(f, u.name) {
			continue
		}
		if s, ok := ncclenv.Lookup(u.name); ok && !s.SetByGorun {
			switch s.Scope {
			case ncclenv.Node, ncclenv.NodeKeepAll:
				perNode[u.name], expected[u.name] = true, 2*u.nodes > nodes
			case ncclenv.All, ncclenv.AllSoft:
				perNode[u.name], expected[u.name] = false, true
			}
		}
	}
	if len(perNode) == 0 {
		return nil
	}
	missing := func(n *preflight.Facts) (names []string) {
		if !n.KnowsSettings() || ignoresIface(n) {
			return nil
		}
		for name := range perNode {
			if _, set := n.Setting(name); !set {
				names = append(names, name)
			}
		}
		if len(names) == 1 && !perNode[names[0]] {
			return nil
		}
		slices.Sort(names)
		return names
	}
	return bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		names := missing(n)
		if len(names) == 0 {
			return
		}
		text := "without " + strings.Join(names, ", ")
		if n.Host.Container != "" {
			text += " (in a container: " + n.Host.Container + ")"
		}
		isExpected := slices.ContainsFunc(names, func(name string) bool { return expected[name] })
		add(errorIf(isExpected && (len(names) > 1 || n.Host.Container != "")), text)
	}, func(level preflight.Severity, nodes []int) preflight.Finding {
		x := preflight.Finding{Text: "A node's environment lacks a variable that the other nodes have.", Steps: supplySteps(f, nodes, missing)}
		if level == preflight.Error {
			x.Text = "A node's environment lacks variables that the other nodes have. They did not reach the node: a container or a remote shell may have been started without them."
		}
		return x
	})
}

// supplySteps returns the steps that give nodes the variables that they lack. Where
// all other nodes have one value and it means something on the node, the step
// sets that value.
func supplySteps(f *preflight.Fleet, nodes []int, missing func(*preflight.Facts) []string) []preflight.Step {
	var names []string
	for _, i := range nodes {
		names = append(names, missing(&f.Nodes[i])...)
	}
	slices.Sort(names)
	var options, perNode []string
	for _, name := range slices.Compact(names) {
		value, alike := "", true
		for _, n := range f.Known() {
			if v, set := n.Setting(name); set {
				alike = alike && (value == "" || v == value)
				value = v
			}
		}
		if strings.HasSuffix(name, "SOCKET_IFNAME") {
			alike = alike && !slices.ContainsFunc(nodes, func(i int) bool { return !hasAddress(&f.Nodes[i], strings.TrimPrefix(value, "=")) })
		}
		if alike && !strings.Contains(value, ncclenv.Hidden) {
			options = append(options, "-x "+term.Command(name+"="+value))
		} else {
			perNode = append(perNode, name)
		}
	}
	var steps []preflight.Step
	if options != nil {
		steps = append(steps, preflight.ToGorun.Step("give the node what the others have", strings.Join(options, " ")))
	}
	if perNode != nil {
		steps = append(steps, preflight.ByHand.Step("set "+strings.Join(perNode, ", ")+" on "+f.NamesOf(nodes)+", too, to what is right there"))
	}
	return steps
}

// isReadByLibraries reports whether a library of the workers reads variables of this name.
func isReadByLibraries(f *preflight.Fleet, name string) bool {
	prefixes := []string{"GLOO_", "TP_"}
	if f.View().NCCL {
		prefixes = []string{"NCCL_", "GLOO_", "TP_", "UCX_", "FI_", "OFI_"}
	}
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// undelivered finds variables that do not arrive behind a wrapper. It is an
// error if workers would not find each other, a warning if they would work
// differently from what the user wants, and a note if only some programs read
// the variables.
func undelivered(f *preflight.Fleet) []preflight.Finding {
	texts := map[preflight.Severity]string{
		preflight.Error:   "Variables without which workers cannot find their place do not arrive behind the program that starts them.",
		preflight.Warning: "Variables do not arrive behind the program that starts the workers.",
		preflight.Note:    "Variables that only some programs read do not arrive behind the program that starts the workers.",
	}
	return bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		if s := severityOfLoss(f, n.WrapperLoss); s != "" {
			add(s, describeLoss(n.WrapperLoss))
			add(s, n.WrapperLoss.NoProbeReason)
		}
	}, func(s preflight.Severity, nodes []int) preflight.Finding {
		most := slices.MaxFunc(nodes, func(a, b int) int { return countLost(f.Nodes[a].WrapperLoss) - countLost(f.Nodes[b].WrapperLoss) })
		return preflight.Finding{Text: texts[s], Steps: wrapperSteps(f.Nodes[most].WrapperLoss)} // the fix of the node that loses most is right for the others, too
	})
}

func countLost(l *preflight.WrapperLoss) int {
	return len(l.Missing) + len(l.Changed) + len(l.Forced) + len(l.Unsent)
}

// severityOfLoss returns the severity of what a wrapper does not pass on, "" if
// the wrapper passes everything on.
func severityOfLoss(f *preflight.Fleet, l *preflight.WrapperLoss) preflight.Severity {
	if l == nil {
		return ""
	}
	lost := slices.Concat(l.Missing, l.Changed)
	has := slices.ContainsFunc[[]string]
	isEssential := func(name string) bool { return slices.Contains(preflight.EssentialVariables(), name) }
	switch {
	case has(lost, isEssential) && countWorkers(f) > 1 && (f.View().NCCL || !l.Assumed):
		return preflight.Error
	case len(l.Forced) > 0, has(lost, isImportant), has(l.Unsent, isImportant):
		return preflight.Warning
	case len(lost)+len(l.Unsent) > 0:
		return preflight.Note
	}
	return ""
}

// isImportant reports whether the loss of a variable changes what libraries do.
// For torch it may change which process opens the store at MASTER_PORT, where
// gorun already serves one.
func isImportant(name string) bool {
	if name == "TORCHELASTIC_USE_AGENT_STORE" {
		return true
	}
	for _, prefix := range []string{"TORCHELASTIC_", "GORUN_", "GROUP_", "ROLE_", "LOCAL_WORLD_SIZE"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// countWorkers returns the number of workers of all nodes that are known.
func countWorkers(f *preflight.Fleet) int {
	sum := 0
	for i := range f.Nodes {
		sum += f.Nodes[i].Node.Workers
	}
	return sum
}

// describeLoss names the variables, the important ones first.
func describeLoss(l *preflight.WrapperLoss) string {
	var parts []string
	for _, p := range []struct {
		word  string
		names []string
	}{{"without ", l.Missing}, {"changed: ", l.Changed}, {"set by the command line: ", l.Forced}, {"probably without ", l.Unsent}} {
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

// wrapperSteps turns the lines of Fix into steps. A line that begins with two blanks
// begins a command line. Another node sent the lines, so steps leaves out a
// line that would do more in a shell than start one program.
func wrapperSteps(l *preflight.WrapperLoss) (steps []preflight.Step) {
	for _, line := range l.Fix {
		command, ok := strings.CutPrefix(line, "  ")
		ok = ok && !strings.ContainsAny(command, ";&|<>()`$\\\"#")
		command = strings.TrimSuffix(command, " ...")
		switch n := len(steps) - 1; {
		case ok && n >= 0 && steps[n].Place == preflight.ByHand:
			steps[n] = preflight.ToProgram.Step(strings.TrimSuffix(steps[n].Text, ":"), command)
		case ok && n >= 0:
			steps[n].Lines = append(steps[n].Lines, command)
		case line != "":
			steps = append(steps, preflight.ByHand.Step(line))
		}
	}
	if len(steps) > 0 {
		return steps
	}
	names := slices.Concat(l.Missing, l.Changed, l.Unsent)
	switch engine, _, _ := strings.Cut(l.Wrapper, " "); {
	case len(names) == 0:
		return []preflight.Step{preflight.ByHand.Step("do not give " + strings.Join(l.Forced, ", ") + " a value of your own on the command line: every worker has another")}
	case engine == "docker" || engine == "podman":
		return []preflight.Step{preflight.ToProgram.Step("pass them on", l.Wrapper+" -e "+strings.Join(names, " -e "))}
	}
	return []preflight.Step{preflight.ByHand.Step("start gorun behind " + l.Wrapper + ", or have it pass on " + strings.Join(names, ", "))}
}
