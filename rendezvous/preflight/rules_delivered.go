package preflight

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// nameRules is E03: whether the environment reaches the workers.
func nameRules() []Rule {
	return []Rule{{
		ID: "E03", Name: "env-delivered", Severity: Error,
		Meaning: "No node lost variables that the others have, and no wrapper (docker run, ssh, sudo, srun, env -i, a login shell) keeps them from the workers: a program that prints its environment is started through it, in the place of the worker's, with what a rank, its devices and this node's -x, --env-file and --iface give it. What only another node gives is judged by its name, where no strange name arrives; otherwise, and in what `--dry-run` and `gorun env` show, it is not tried. Only the five without which a worker cannot find its place are an error, and those in a job of several workers.",
		Users:   "As E01 and I01; a container that ignores NCCL_SOCKET_IFNAME; workers that do not know their rank.",
		Steps: []Step{
			toProgram("pass the variables on, where a program stands in front of the workers'",
				"docker run -e RANK -e LOCAL_RANK -e WORLD_SIZE -e MASTER_ADDR -e MASTER_PORT -e NCCL_SOCKET_IFNAME",
				"sudo --preserve-env=RANK,LOCAL_RANK,WORLD_SIZE,MASTER_ADDR,MASTER_PORT,NCCL_SOCKET_IFNAME"),
			everyRank("give the node what the others have", "NCCL_SOCKET_IFNAME", "=eth0").or(),
			byHand("start gorun inside the container or on the remote host").or(),
		},
		Check: checkDelivered,
	}}
}

func checkDelivered(f *Fleet) []Finding {
	v := f.look()
	severity := Error
	if !v.nccl {
		severity = Warning
	}
	held := f.faults(func(_ int, n *Facts) string { return behind(withheld(n)) })
	all := append(f.undelivered(), one(held, Finding{
		Severity: severity,
		Text:     "The workers are started through a program that does not pass gorun's environment on.",
		Steps:    f.passOn(marked(held)),
	})...)
	if !v.nccl && !v.gloo {
		return all
	}
	return append(all, f.lost()...)
}

// lost finds nodes that lack what at least half of the nodes set and what may
// differ between nodes: that a single variable of the others differs is E01's.
// What may differ and only half of them set may be meant so: a warning.
func (f *Fleet) lost() []Finding {
	nodes := f.settled()
	perNode := map[string]bool{} // names, and whether they may differ between nodes
	meant := map[string]bool{}   // names that most nodes have, or all must have
	for _, u := range f.usages() {
		if u.nodes == nodes || 2*u.nodes < nodes || !f.reads(u.name) {
			continue
		}
		if s, ok := ncclenv.Lookup(u.name); ok && !s.Ours {
			switch s.Scope {
			case ncclenv.Node, ncclenv.NodeKeepAll:
				perNode[u.name], meant[u.name] = true, 2*u.nodes > nodes
			case ncclenv.All, ncclenv.AllSoft:
				perNode[u.name], meant[u.name] = false, true
			}
		}
	}
	if len(perNode) == 0 {
		return nil
	}
	missing := func(n *Facts) (names []string) {
		single := true
		for name, own := range perNode {
			if _, set := n.setting(name); !set {
				names = append(names, name)
				single = single && !own
			}
		}
		if !n.settled() || n.disobeys() || len(names) == 1 && single {
			return nil
		}
		slices.Sort(names)
		return names
	}
	find := func(grave bool) []Value {
		return f.faults(func(_ int, n *Facts) string {
			names := missing(n)
			sure := slices.ContainsFunc(names, func(name string) bool { return meant[name] })
			if len(names) == 0 || grave != (sure && (len(names) > 1 || n.Host.Container != "")) {
				return ""
			}
			text := "without " + strings.Join(names, ", ")
			if n.Host.Container != "" {
				text += " (in a container: " + n.Host.Container + ")"
			}
			return text
		})
	}
	grave, slight := find(true), find(false)
	all := one(grave, Finding{
		Text:  "A node's environment lacks variables that the other nodes have: they did not reach it, as when a container or a remote shell is started without them.",
		Steps: f.supply(marked(grave), missing),
	})
	return append(all, one(slight, Finding{
		Severity: Warning,
		Text:     "A node's environment lacks a variable that the other nodes have.",
		Steps:    f.supply(marked(slight), missing),
	})...)
}

// supply gives nodes the variables that they lack: with the value that all others
// have, where that means something there.
func (f *Fleet) supply(nodes []int, missing func(*Facts) []string) []Step {
	var names []string
	for _, i := range nodes {
		for _, name := range missing(&f.Nodes[i]) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var options, own []string
	for _, name := range names {
		value, alike := "", true
		for _, n := range f.known() {
			have, set := n.setting(name)
			alike = alike && (!set || value == "" || have == value)
			if set {
				value = have
			}
		}
		if strings.HasSuffix(name, "SOCKET_IFNAME") {
			alike = alike && !slices.ContainsFunc(nodes, func(i int) bool { return !f.Nodes[i].hasAddress(strings.TrimPrefix(value, "=")) })
		}
		if !alike || strings.Contains(value, ncclenv.Hidden) {
			own = append(own, name)
			continue
		}
		options = append(options, "-x "+quote(name+"="+value))
	}
	var steps []Step
	if options != nil {
		steps = append(steps, toGorun("give the node what the others have", strings.Join(options, " ")))
	}
	if own != nil {
		steps = append(steps, byHand("set "+strings.Join(own, ", ")+" on "+f.called(nodes)+", too, to what is right there"))
	}
	return steps
}

// passOn is how a wrapper passes on what its arguments leave out.
func (f *Fleet) passOn(nodes []int) []Step {
	inside := byHand("start gorun inside the container or on the remote host, or without the wrapper")
	steps := f.each(nodes, toProgram, "pass the variables on", func(_ int, n *Facts) []string {
		switch name, names := withheld(n); name {
		case "docker", "podman", "nerdctl":
			return []string{name + " run -e " + strings.Join(names, " -e ")}
		case "sudo":
			return []string{"sudo --preserve-env=" + strings.Join(names, ",")}
		}
		return nil
	})
	return or(steps, inside)
}

// reads reports whether a library of the fleet's workers reads variables of this
// name.
func (f *Fleet) reads(name string) bool {
	prefixes := []string{"GLOO_", "TP_"}
	if f.look().nccl {
		prefixes = []string{"NCCL_", "GLOO_", "TP_", "UCX_", "FI_", "OFI_"}
	}
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// contract is what a worker cannot do without.
func contract() []string {
	return []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
}

// withheld says which wrapper in front of the worker does not pass which variables
// on, as far as its arguments tell: a guess, for nodes that could not look.
func withheld(n *Facts) (wrapper string, missing []string) {
	if n.Program.Title == "" || n.Lost != nil {
		return "", nil
	}
	name, args := path.Base(cmp.Or(n.Program.Path, n.Program.Title)), n.Program.Args
	switch name {
	case "docker", "podman", "nerdctl":
		if slices.Contains(args, "run") || slices.Contains(args, "exec") {
			return name, missingOf(n, containerEnv(args))
		}
	case "sudo":
		return name, missingOf(n, sudoEnv(args))
	case "ssh":
		return name, missingOf(n, func(string) bool { return false })
	case "env":
		if slices.ContainsFunc(args, func(a string) bool { return a == "-" || a == "-i" || a == "--ignore-environment" }) {
			return "env -i", missingOf(n, assigned(args))
		}
	}
	return "", nil
}

func behind(name string, missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return name + " passes on neither " + strings.Join(missing[:min(len(missing), 8)], ", ")
}

// missingOf is the contract and the user's own variables for the libraries, less
// what is passed.
func missingOf(n *Facts, passed func(string) bool) []string {
	names := contract()
	for _, s := range n.Settings {
		v, ok := ncclenv.Lookup(s.Name)
		if ok && !v.Ours && s.Source == ncclenv.Environment && strings.HasPrefix(s.Name, "NCCL_") && (v.Scope.Agree() || v.Scope == ncclenv.Node) {
			names = append(names, s.Name)
		}
	}
	return slices.DeleteFunc(names, passed)
}

// containerEnv tells what docker run and the like pass: -e NAME, -eNAME,
// --env NAME, --env=NAME and NAME=value; of a file or all of the host's
// environment everything is assumed.
func containerEnv(args []string) func(string) bool {
	var names []string
	all := false
	for i, a := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case a == "-e" || a == "--env":
			names = append(names, next)
		case strings.HasPrefix(a, "--env="):
			names = append(names, strings.TrimPrefix(a, "--env="))
		case strings.HasPrefix(a, "--env-file"), strings.HasPrefix(a, "--env-host"):
			all = true
		case strings.HasPrefix(a, "-e") && len(a) > 2:
			names = append(names, a[2:])
		}
	}
	return func(name string) bool {
		return all || slices.ContainsFunc(names, func(n string) bool {
			n, _, _ = strings.Cut(n, "=")
			prefix, glob := strings.CutSuffix(n, "*")
			return n == name || glob && strings.HasPrefix(name, prefix)
		})
	}
}

// sudoEnv tells what sudo passes: all with -E, else what is listed or assigned.
func sudoEnv(args []string) func(string) bool {
	given := assigned(args)
	var listed []string
	all := false
	for _, a := range args {
		list, ok := strings.CutPrefix(a, "--preserve-env=")
		switch {
		case ok:
			listed = append(listed, strings.Split(list, ",")...)
		case a == "--preserve-env", a == "-E", len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.Contains(a, "E"):
			all = true
		case !strings.HasPrefix(a, "-") && !strings.Contains(a, "="):
			return func(name string) bool { return all || given(name) || slices.Contains(listed, name) }
		}
	}
	return func(name string) bool { return all || given(name) || slices.Contains(listed, name) }
}

// assigned tells the names of the arguments NAME=value.
func assigned(args []string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, name+"=") })
	}
}
