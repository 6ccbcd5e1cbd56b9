package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// limitRules returns L02, L04 and L06: how many files and threads workers may
// have.
func limitRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "L02", Name: "nofile", Severity: preflight.Error,
			Meaning: "A worker may open as many files as it needs at least; a hard limit below the advice for the job's size is a warning.",
			Symptom: "`Too many open files`.",
			Steps: []preflight.Step{
				preflight.InShell.Step("raise the limit of open files; for a service that starts the jobs set LimitNOFILE=", "sudo prlimit --pid $$ --nofile=131072:131072"),
				preflight.ToContainer.Step("", "--ulimit nofile=131072:131072").Alternative(),
			},
			Check: checkFiles,
		},
		{
			ID: "L04", Name: "nproc", Severity: preflight.Error,
			Meaning: "The node may start the threads that its workers need; a limit below 4096 is a warning.",
			Symptom: "`pthread_create ... Resource temporarily unavailable`, `Thread creation failed`.",
			Steps: []preflight.Step{
				preflight.InShell.Step("raise the limit of processes; for a service that starts the jobs set LimitNPROC= and TasksMax=", "sudo prlimit --pid $$ --nproc=65536:65536"),
				preflight.ToContainer.Step("", "--pids-limit=-1").Alternative(),
			},
			Check: checkThreads,
		},
		{
			ID: "L06", Name: "kernel-tables", Severity: preflight.Warning,
			Meaning: "The kernel's tables of neighbours and tracked connections and the queue of new connections are large enough for the job, and at least 1,000 ports are for sockets that ask for any (net.ipv4.ip_local_port_range).",
			Symptom: "`Cannot assign requested address`, `Address already in use`, `No buffer space available`, `neighbor table overflow` and `table full, dropping packet` in dmesg, slow or failing connections at the start.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("make them larger", "sysctl -w net.core.somaxconn=16384 net.ipv4.neigh.default.gc_thresh3=16384", "sysctl -w net.netfilter.nf_conntrack_max=1048576")},
			Check:   checkTables,
		},
	}
}

func checkFiles(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	want := host.FilesWanted(v.Ranks)
	most := func(nodes []int) []preflight.Step {
		limit := want
		for _, i := range nodes {
			limit = max(limit, hostLoad(f, i, &f.Nodes[i]).Files())
		}
		return raiseLimit(f, nodes, "nofile", limit)
	}
	few := f.Faults(func(_ int, n *preflight.Facts) string {
		if !n.GPU.Driver || !knowsLimits(n) {
			return ""
		}
		need, hard := host.Load{Local: n.Node.Workers}.FilesLeast(), n.Host.Limits.NoFileHard // NCCL raises the soft limit (bootstrap.cc, setFilesLimit)
		if hard < 0 || hard >= need {
			return ""
		}
		return fmt.Sprintf("hard limit %d, about %d needed", hard, need)
	})
	if len(few) > 0 || v.Places < 2 {
		return preflight.IfAny(few, preflight.Finding{Text: "A worker may not open as many files as it needs: it fails with Too many open files.", Steps: most(preflight.Marked(few))})
	}
	low := f.Faults(func(i int, n *preflight.Facts) string {
		l := n.Host.Limits.NoFileHard
		if !n.GPU.Driver || !knowsLimits(n) || l < 0 || l >= want {
			return ""
		}
		if need := hostLoad(f, i, n).Files(); l < need {
			return fmt.Sprintf("hard limit %d, about %d needed when all ranks connect to all", l, need)
		}
		return fmt.Sprintf("hard limit %d", l)
	})
	return preflight.IfAny(low, preflight.Finding{Severity: preflight.Warning, Text: fmt.Sprintf("For a job of %s a limit of %d open files is advised.", preflight.Plural(v.Ranks, "rank"), want), Steps: most(preflight.Marked(low))})
}

// raiseLimit returns the steps that lift a limit of the nodes' shells or
// containers.
func raiseLimit(f *preflight.Fleet, nodes []int, what string, limit int64) []preflight.Step {
	value, options := strconv.FormatInt(limit, 10), map[string]string{"nofile": "-n", "memlock": "-l", "nproc": "-u", "as": "-v", "cpu": "-t", "fsize": "-f", "data": "-d"}
	docker := value
	if limit == host.Unlimited {
		value = "unlimited"
	}
	const text = "raise the limit"
	steps := f.StepsFor(nodes, preflight.InShell, text+"; for a service that starts the jobs set Limit"+strings.ToUpper(what)+"=", func(_ int, n *preflight.Facts) []string {
		switch {
		case n.Host.Container != "" && what != "as": // docker cannot limit the address space
			return nil
		case n.Host.Limits.Caps&capSysResource != 0:
			return []string{"ulimit " + options[what] + " " + value}
		}
		return []string{fmt.Sprintf("sudo prlimit --pid $$ --%[1]s=%[2]s:%[2]s", what, value)}
	})
	return append(steps, f.StepsFor(nodes, preflight.ToContainer, text, func(_ int, n *preflight.Facts) []string {
		if n.Host.Container == "" || what == "as" {
			return nil
		}
		return []string{fmt.Sprintf("--ulimit %[1]s=%[2]s:%[2]s", what, docker)}
	})...)
}

func checkThreads(f *preflight.Fleet) []preflight.Finding {
	return bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		what, limit := threadLimit(n)
		need := host.Load{Local: n.Node.Workers}.Threads()
		switch {
		case !n.GPU.Driver || !knowsLimits(n) || limit < 0:
		case limit < need:
			add(preflight.Error, fmt.Sprintf("%s %d, about %d needed", what, limit, need))
		case limit >= host.ThreadsWanted:
		case limit == need:
			add(preflight.Warning, fmt.Sprintf("%s %d, all of it needed; %d advised", what, limit, host.ThreadsWanted))
		default:
			add(preflight.Warning, fmt.Sprintf("%s %d, about %d needed; %d advised", what, limit, need, host.ThreadsWanted))
		}
	}, func(s preflight.Severity, nodes []int) preflight.Finding {
		x := preflight.Finding{Text: "The node may start few threads; data loaders and libraries start many.", Steps: moreThreads(f, nodes)}
		if s == preflight.Error {
			x.Text = "The node may not start as many threads as its workers need: they fail with Resource temporarily unavailable."
		}
		return x
	})
}

// moreThreads returns the steps that lift every limit on the nodes' threads.
func moreThreads(f *preflight.Fleet, nodes []int) []preflight.Step {
	const plenty = 65536
	want := func(n *preflight.Facts) int64 { return max(plenty, 2*host.Load{Local: n.Node.Workers}.Threads()) }
	low := func(n *preflight.Facts, limit int64) bool {
		return limit >= 0 && limit < max(host.ThreadsWanted, host.Load{Local: n.Node.Workers}.Threads())
	}
	pids := func(n *preflight.Facts) bool {
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
	steps := raiseLimit(f, shells, "nproc", limit)
	steps = append(steps, f.StepsFor(nodes, preflight.ToContainer, "let the container start more threads", func(_ int, n *preflight.Facts) []string {
		if n.Host.Container == "" || !pids(n) {
			return nil
		}
		return []string{"--pids-limit=-1"}
	})...)
	steps = append(steps, f.StepsFor(nodes, preflight.AsRoot, "let the kernel start more threads", func(_ int, n *preflight.Facts) []string {
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
		steps = append(steps, preflight.ByHand.Step("ask the administrator of "+f.NamesOf(asked)+" for a larger pids.max of the job's cgroup (TasksMax= of its service)"))
	}
	return steps
}

// threadLimit returns the tightest limit on the node's processes and threads,
// -1 if none is known.
func threadLimit(n *preflight.Facts) (what string, limit int64) {
	l := n.Host.Limits
	limit = -1
	consider := func(name string, value int64) {
		if value >= 0 && (limit < 0 || value < limit) {
			what, limit = name, value
		}
	}
	if l.Caps&capSysResource == 0 { // this capability lifts ulimit -u
		consider("ulimit -u", l.NProc)
	}
	if l.PidsMax >= 0 {
		consider("left by the cgroup's pids.max", max(0, l.PidsMax-max(0, l.PidsCurrent)))
	}
	if l.ThreadsMax > 0 {
		consider("kernel.threads-max", l.ThreadsMax)
	}
	if l.PIDMax > 0 {
		consider("kernel.pid_max", l.PIDMax)
	}
	return what, limit
}

// portsWanted is how many ports a node should have for sockets that name none.
// Each rank listens on several ports and connects from many.
const portsWanted = 1000

func checkTables(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.Between() {
		return nil
	}
	all := preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		first, last := n.Network.PortFirst, n.Network.PortLast
		if first <= 0 || last-first+1 >= portsWanted {
			return ""
		}
		return fmt.Sprintf("%s (%d to %d)", preflight.Plural(max(0, last-first+1), "port"), first, last)
	}), preflight.Finding{
		Text:  "Few ports are left for the sockets of the workers that name no port: connections fail when these are used up.",
		Steps: []preflight.Step{preflight.AsRoot.Step("widen the range", `sysctl -w net.ipv4.ip_local_port_range="32768 60999"`)},
	})
	if !v.NCCL {
		return all
	}
	values := f.Faults(func(i int, n *preflight.Facts) string {
		var low []string
		for _, t := range smallTables(f, i, n) {
			low = append(low, t.text)
		}
		return strings.Join(low, "; ")
	})
	return append(all, preflight.IfAny(values, preflight.Finding{Text: "Tables of the kernel are too small for this job.", Steps: f.StepsFor(preflight.Marked(values), preflight.AsRoot, "make them larger", func(i int, n *preflight.Facts) []string {
		var list []string
		for _, t := range smallTables(f, i, n) {
			list = append(list, fmt.Sprintf("%s=%d", t.name, t.want))
		}
		return []string{"sysctl -w " + strings.Join(list, " ")}
	})})...)
}

// kernelTable is a table of the kernel that is too small.
type kernelTable struct {
	name string
	want int64
	text string
}

func smallTables(f *preflight.Fleet, i int, n *preflight.Facts) (low []kernelTable) {
	if !knowsLimits(n) {
		return nil
	}
	v, s := f.View(), n.Host.Sysctl
	add := func(name string, have, want int64) {
		if have > 0 && have < want {
			low = append(low, kernelTable{name, want, fmt.Sprintf("%s %d, wanted %d", name, have, want)})
		}
	}
	add("net.core.somaxconn", s.SomaxConn, min(int64(v.Ranks), 16384))
	add("net.ipv4.neigh.default.gc_thresh3", s.GCThresh3, 4*host.Neighbours(v.Places, len(f.DataAddresses(i))))
	if s.ConntrackMax > 0 && s.ConntrackUsed >= 0 {
		const name = "net.netfilter.nf_conntrack_max"
		want := 2 * int64(n.Node.Workers) * hostLoad(f, i, n).Files()
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

// workerLimitRules returns L08: limits at which a worker fails or is killed
// while it works.
func workerLimitRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "L08", Name: "worker-limits", Severity: preflight.Warning,
		Meaning: "No limit of a process (ulimit) ends a worker after some CPU time (-t), limits the size of its files (-f) or its memory (-d; -v where CUDA is not used, else see L07); a limit of files below the size of NCCL's segments in /dev/shm is an error.",
		Symptom: "`CPU time limit exceeded` (exit code 152), `File size limit exceeded` (153), `File too large`, `Cannot allocate memory`, in the middle of the job.",
		Steps: []preflight.Step{
			preflight.InShell.Step("raise the limit; for a service that starts the jobs set LimitCPU=", "sudo prlimit --pid $$ --cpu=unlimited:unlimited"),
			preflight.ToContainer.Step("", "--ulimit cpu=-1:-1").Alternative(),
		},
		Check: checkWorkerLimits,
	}}
}

func checkWorkerLimits(f *preflight.Fleet) []preflight.Finding {
	// A rank's proxy maps one file, whatever links the GPUs.
	segment := host.Load{Local: 2, Channels: 1}.SHM() / 2
	blocks := func(n *preflight.Facts, limit int64) bool {
		return limit < segment && n.GPU.Driver && n.Node.Workers > 1 && !n.IsOn("NCCL_SHM_DISABLE")
	}
	var all []preflight.Finding
	for _, l := range []struct {
		name     string
		of       func(n *preflight.Facts) *int64 // nil: not known, or another finding covers it
		describe func(int64) string
		text     string
		severity preflight.Severity
	}{
		{
			name: "cpu", of: func(n *preflight.Facts) *int64 { return n.Host.Limits.CPU },
			describe: func(s int64) string { return "killed after " + formatSeconds(s) + " of CPU time" },
			text:     "Workers are killed when all their threads together have computed for some time (SIGXCPU, exit code 152).",
		},
		{
			name: "fsize", severity: preflight.Error,
			of: func(n *preflight.Facts) *int64 {
				if l := n.Host.Limits.FSize; l != nil && blocks(n, *l) {
					return l
				}
				return nil
			},
			describe: func(b int64) string { return "files of at most " + formatBytes(b) },
			text:     "NCCL cannot make its segments in /dev/shm, which are files larger than the limit: workers fail or are killed (SIGXFSZ, exit code 153).",
		},
		{
			name: "fsize",
			of: func(n *preflight.Facts) *int64 {
				if l := n.Host.Limits.FSize; l != nil && !blocks(n, *l) {
					return l
				}
				return nil
			},
			describe: func(b int64) string { return "files of at most " + formatBytes(b) },
			text:     "Workers that make a file larger than the limit, a checkpoint for instance, fail or are killed (SIGXFSZ, exit code 153).",
		},
		{
			name: "data", of: func(n *preflight.Facts) *int64 { return n.Host.Limits.Data },
			describe: func(b int64) string { return "at most " + formatBytes(b) + " of private memory" },
			text:     "A worker that asks for more memory than the limit gets none and fails (Cannot allocate memory).",
		},
		{
			name: "as",
			of: func(n *preflight.Facts) *int64 {
				if n.GPU.Driver || !knowsLimits(n) || n.Libraries.Torch == "" {
					return nil
				}
				return &n.Host.Limits.AS
			},
			describe: func(b int64) string { return "at most " + formatBytes(b) + " of address space" },
			text:     "A worker that maps more memory, libraries and files than the limit fails (Cannot allocate memory).",
		},
	} {
		limited := f.Faults(func(_ int, n *preflight.Facts) string {
			if limit := l.of(n); limit != nil && *limit >= 0 {
				return l.describe(*limit)
			}
			return ""
		})
		all = append(all, preflight.IfAny(limited, preflight.Finding{
			Severity: l.severity, Text: l.text, Steps: raiseLimit(f, preflight.Marked(limited), l.name, host.Unlimited),
		})...)
	}
	return all
}

// formatSeconds formats a number of seconds for people.
func formatSeconds(s int64) string {
	if s < 600 || s > int64(time.Duration(1<<62)/time.Second) {
		return fmt.Sprintf("%d s", s)
	}
	return (time.Duration(s) * time.Second).Round(time.Minute).String()
}
