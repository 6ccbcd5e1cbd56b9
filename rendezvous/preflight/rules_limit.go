package preflight

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// limitRules are L02, L04 and L06: how much workers may open and start.
func limitRules() []Rule {
	return []Rule{
		{
			ID: "L02", Name: "nofile", Severity: Error,
			Meaning: "A worker may open the files that it cannot do without; a hard limit below what is advised for the job's size is a warning.",
			Users:   "`Too many open files`.",
			Steps: []Step{
				inShell("raise the limit of open files; of a service that starts the jobs it is LimitNOFILE=", "sudo prlimit --pid $$ --nofile=131072:131072"),
				toContainer("", "--ulimit nofile=131072:131072").or(),
			},
			Check: checkFiles,
		},
		{
			ID: "L04", Name: "nproc", Severity: Error,
			Meaning: "The node may start the threads that its workers need; a limit below 4096 is a warning.",
			Users:   "`pthread_create ... Resource temporarily unavailable`, `Thread creation failed`.",
			Steps: []Step{
				inShell("raise the limit of processes; of a service that starts the jobs it is LimitNPROC= and TasksMax=", "sudo prlimit --pid $$ --nproc=65536:65536"),
				toContainer("", "--pids-limit=-1").or(),
			},
			Check: checkThreads,
		},
		{
			ID: "L06", Name: "kernel-tables", Severity: Warning,
			Meaning: "The kernel's tables of neighbours and tracked connections and the queue of new connections are large enough for the job, and at least 1,000 ports are for sockets that ask for any (net.ipv4.ip_local_port_range).",
			Users:   "`Cannot assign requested address`, `Address already in use`, `No buffer space available`, `neighbor table overflow` and `table full, dropping packet` in dmesg, slow or failing connections at the start.",
			Steps:   []Step{asRoot("raise them", "sysctl -w net.core.somaxconn=16384 net.ipv4.neigh.default.gc_thresh3=16384", "sysctl -w net.netfilter.nf_conntrack_max=1048576")},
			Check:   checkTables,
		},
	}
}

func checkFiles(f *Fleet) []Finding {
	v := f.look()
	want := host.FilesWanted(v.ranks)
	most := func(nodes []int) []Step {
		limit := want
		for _, i := range nodes {
			limit = max(limit, f.load(i, &f.Nodes[i]).Files())
		}
		return f.raise(nodes, "nofile", limit)
	}
	few := f.faults(func(_ int, n *Facts) string {
		if !n.GPU.Driver || !n.measured() {
			return ""
		}
		need, hard := host.Load{Local: n.Node.Workers}.FilesLeast(), n.Host.Limits.NoFileHard // gorun raises the soft limit
		if hard < 0 || hard >= need {
			return ""
		}
		return fmt.Sprintf("hard limit %d, about %d needed", hard, need)
	})
	if len(few) > 0 || v.places < 2 {
		return one(few, Finding{Text: "A worker may not open as many files as it cannot do without: it fails with Too many open files.", Steps: most(marked(few))})
	}
	low := f.faults(func(i int, n *Facts) string {
		l := n.Host.Limits.NoFileHard
		if !n.GPU.Driver || !n.measured() || l < 0 || l >= want {
			return ""
		}
		if need := f.load(i, n).Files(); l < need {
			return fmt.Sprintf("hard limit %d, about %d needed when all ranks talk to all", l, need)
		}
		return fmt.Sprintf("hard limit %d", l)
	})
	return one(low, Finding{Severity: Warning, Text: fmt.Sprintf("For a job of %s a limit of %d open files is advised.", plural(v.ranks, "rank"), want), Steps: most(marked(low))})
}

// raise lifts a limit of the shells of nodes, or of their containers.
func (f *Fleet) raise(nodes []int, what string, limit int64) []Step {
	value, options := strconv.FormatInt(limit, 10), map[string]string{"nofile": "-n", "memlock": "-l", "nproc": "-u", "as": "-v", "cpu": "-t", "fsize": "-f", "data": "-d"}
	docker := value
	if limit == host.Unlimited {
		value = "unlimited"
	}
	const text = "raise the limit"
	steps := f.each(nodes, inShell, text+"; a service that starts the jobs needs it, too (Limit"+strings.ToUpper(what)+"=)", func(_ int, n *Facts) []string {
		switch {
		case n.Host.Container != "" && what != "as": // which docker cannot limit
			return nil
		case n.Host.Limits.Caps&capSysResource != 0:
			return []string{"ulimit " + options[what] + " " + value}
		}
		return []string{fmt.Sprintf("sudo prlimit --pid $$ --%[1]s=%[2]s:%[2]s", what, value)}
	})
	return append(steps, f.each(nodes, toContainer, text, func(_ int, n *Facts) []string {
		if n.Host.Container == "" || what == "as" {
			return nil
		}
		return []string{fmt.Sprintf("--ulimit %[1]s=%[2]s:%[2]s", what, docker)}
	})...)
}

func checkThreads(f *Fleet) []Finding {
	find := func(grave bool) []Value {
		return f.faults(func(_ int, n *Facts) string {
			if !n.GPU.Driver || !n.measured() {
				return ""
			}
			what, limit := n.threads()
			need := host.Load{Local: n.Node.Workers}.Threads()
			if limit < 0 || grave != (limit < need) || !grave && limit >= host.ThreadsWanted {
				return ""
			}
			switch {
			case grave:
				return fmt.Sprintf("%s %d, about %d needed", what, limit, need)
			case limit == need:
				return fmt.Sprintf("%s %d, all of it needed; %d advised", what, limit, host.ThreadsWanted)
			}
			return fmt.Sprintf("%s %d, about %d needed; %d advised", what, limit, need, host.ThreadsWanted)
		})
	}
	few, low := find(true), find(false)
	return append(one(few, Finding{Text: "The node may not start as many threads as its workers need: they fail with Resource temporarily unavailable.", Steps: f.moreThreads(marked(few))}),
		one(low, Finding{Severity: Warning, Text: "The node may start few threads; data loaders and libraries start many.", Steps: f.moreThreads(marked(low))})...)
}

// moreThreads raises whatever limits the threads of nodes.
func (f *Fleet) moreThreads(nodes []int) []Step {
	const plenty = 65536
	want := func(n *Facts) int64 { return max(plenty, 2*host.Load{Local: n.Node.Workers}.Threads()) }
	low := func(n *Facts, limit int64) bool {
		return limit >= 0 && limit < max(host.ThreadsWanted, host.Load{Local: n.Node.Workers}.Threads())
	}
	pids := func(n *Facts) bool {
		l := n.Host.Limits
		return l.PidsMax >= 0 && low(n, max(0, l.PidsMax-max(0, l.PidsCurrent)))
	}
	var shells, asked []int
	limit := int64(plenty)
	for _, i := range nodes {
		n := &f.Nodes[i]
		if l := n.Host.Limits; l.Caps&capSysResource == 0 && low(n, l.NProc) {
			shells, limit = append(shells, i), max(limit, want(n))
		}
		if pids(n) && n.Host.Container == "" {
			asked = append(asked, i)
		}
	}
	steps := f.raise(shells, "nproc", limit)
	steps = append(steps, f.each(nodes, toContainer, "let the container start more", func(_ int, n *Facts) []string {
		if n.Host.Container == "" || !pids(n) {
			return nil
		}
		return []string{"--pids-limit=-1"}
	})...)
	steps = append(steps, f.each(nodes, asRoot, "let the kernel start more", func(_ int, n *Facts) []string {
		var values []string
		if l := n.Host.Limits; l.ThreadsMax > 0 && low(n, l.ThreadsMax) {
			values = append(values, fmt.Sprintf("kernel.threads-max=%d", want(n)))
		}
		if l := n.Host.Limits; l.PIDMax > 0 && low(n, l.PIDMax) {
			values = append(values, fmt.Sprintf("kernel.pid_max=%d", want(n)))
		}
		if values == nil {
			return nil
		}
		return []string{"sysctl -w " + strings.Join(values, " ")}
	})...)
	if asked != nil {
		steps = append(steps, byHand("ask the administrator of "+f.called(asked)+" for a larger pids.max of the job's cgroup (TasksMax= of its service)"))
	}
	return steps
}

// threads is the tightest limit of the node's processes and threads, -1 when
// none is known.
func (n *Facts) threads() (what string, limit int64) {
	l := n.Host.Limits
	limit = -1
	take := func(name string, value int64) {
		if value >= 0 && (limit < 0 || value < limit) {
			what, limit = name, value
		}
	}
	if l.Caps&capSysResource == 0 { // who has it is not limited by ulimit -u
		take("ulimit -u", l.NProc)
	}
	if l.PidsMax >= 0 {
		take("left by the cgroup's pids.max", max(0, l.PidsMax-max(0, l.PidsCurrent)))
	}
	if l.ThreadsMax > 0 {
		take("kernel.threads-max", l.ThreadsMax)
	}
	if l.PIDMax > 0 {
		take("kernel.pid_max", l.PIDMax)
	}
	return what, limit
}

// portsWanted is how many ports a node should have for sockets that name none:
// each rank listens on several and connects from many.
const portsWanted = 1000

func checkTables(f *Fleet) []Finding {
	v := f.look()
	if !v.between() {
		return nil
	}
	all := one(f.faults(func(_ int, n *Facts) string {
		first, last := n.Network.PortFirst, n.Network.PortLast
		if first <= 0 || last-first+1 >= portsWanted {
			return ""
		}
		return fmt.Sprintf("%s (%d to %d)", plural(max(0, last-first+1), "port"), first, last)
	}), Finding{
		Text:  "Few ports are left for the sockets of the workers, which name none themselves: connections fail when they are used up.",
		Steps: []Step{asRoot("widen the range", `sysctl -w net.ipv4.ip_local_port_range="32768 60999"`)},
	})
	if !v.nccl {
		return all
	}
	values := f.faults(func(i int, n *Facts) string {
		var low []string
		for _, t := range f.tables(i, n) {
			low = append(low, t.text)
		}
		return strings.Join(low, "; ")
	})
	return append(all, one(values, Finding{Text: "Tables of the kernel are too small for a job of this size.", Steps: f.each(marked(values), asRoot, "raise them", func(i int, n *Facts) []string {
		var list []string
		for _, t := range f.tables(i, n) {
			list = append(list, fmt.Sprintf("%s=%d", t.name, t.want))
		}
		return []string{"sysctl -w " + strings.Join(list, " ")}
	})})...)
}

// kernelTable is one of the kernel's that is too small.
type kernelTable struct {
	name string
	want int64
	text string
}

func (f *Fleet) tables(i int, n *Facts) (low []kernelTable) {
	if !n.measured() {
		return nil
	}
	v, s := f.look(), n.Host.Sysctl
	add := func(name string, have, want int64) {
		if have > 0 && have < want {
			low = append(low, kernelTable{name, want, fmt.Sprintf("%s %d, wanted %d", name, have, want)})
		}
	}
	add("net.core.somaxconn", s.SomaxConn, min(int64(v.ranks), 16384))
	add("net.ipv4.neigh.default.gc_thresh3", s.GCThresh3, 4*host.Neighbours(v.places, len(f.carrying(i))))
	if s.ConntrackMax > 0 && s.ConntrackUsed >= 0 {
		const name = "net.netfilter.nf_conntrack_max"
		want := 2 * int64(n.Node.Workers) * f.load(i, n).Files()
		full := s.ConntrackUsed > s.ConntrackMax/10*9
		if full {
			want = max(want, 2*s.ConntrackMax)
			low = append(low, kernelTable{name, want, fmt.Sprintf("connection tracking is full: %d of %d", s.ConntrackUsed, s.ConntrackMax)})
		} else {
			add(name, s.ConntrackMax, want)
		}
	}
	return low
}
