package preflight

import (
	"fmt"
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
			Fix:     "raise the limit of open files, also of the service that starts the jobs (LimitNOFILE=):\n  ulimit -n 131072\n  docker run --ulimit nofile=1048576 ...",
			Check:   checkFiles,
		},
		{
			ID: "L04", Name: "nproc", Severity: Error,
			Meaning: "The node may start the threads that its workers need; a limit below 4096 is a warning.",
			Users:   "`pthread_create ... Resource temporarily unavailable`, `Thread creation failed`.",
			Fix:     "raise the limit of processes (LimitNPROC=, TasksMax=):\n  ulimit -u 65536\n  docker run --pids-limit=-1 ...",
			Check:   checkThreads,
		},
		{
			ID: "L06", Name: "kernel-tables", Severity: Warning,
			Meaning: "The kernel's tables of neighbours and tracked connections and the queue of new connections are large enough for the job.",
			Users:   "`No buffer space available`, `neighbor table overflow` and `table full, dropping packet` in dmesg, slow or failing connections at the start.",
			Steps:   []Step{asRoot("raise them", "sysctl -w net.core.somaxconn=16384 net.ipv4.neigh.default.gc_thresh3=16384", "sysctl -w net.netfilter.nf_conntrack_max=1048576")},
			Check:   checkTables,
		},
	}
}

func checkFiles(f *Fleet) []Finding {
	v := f.look()
	all := one(f.faults(func(_ int, n *Facts) string {
		if !n.GPU.Driver || !n.measured() {
			return ""
		}
		need, hard := host.Load{Local: n.Node.Workers}.FilesLeast(), n.Host.Limits.NoFileHard // gorun raises the soft limit
		if hard < 0 || hard >= need {
			return ""
		}
		return fmt.Sprintf("hard limit %d, about %d needed", hard, need)
	}), Finding{Text: "A worker may not open as many files as it cannot do without."})
	if len(all) > 0 || v.places < 2 {
		return all
	}
	want := host.FilesWanted(v.ranks)
	return one(f.faults(func(i int, n *Facts) string {
		l := n.Host.Limits.NoFileHard
		if !n.GPU.Driver || !n.measured() || l < 0 || l >= want {
			return ""
		}
		if need := f.load(i, n).Files(); l < need {
			return fmt.Sprintf("hard limit %d, about %d needed when all ranks talk to all", l, need)
		}
		return fmt.Sprintf("hard limit %d", l)
	}), Finding{Severity: Warning, Text: fmt.Sprintf("For a job of %s a limit of %d open files is advised.", plural(v.ranks, "rank"), want)})
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
	return append(one(find(true), Finding{Text: "The node may not start as many threads as its workers need."}),
		one(find(false), Finding{Severity: Warning, Text: "The node may start few threads; data loaders and libraries start many."})...)
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

func checkTables(f *Fleet) []Finding {
	v := f.look()
	if !v.nccl || !v.between() {
		return nil
	}
	return one(f.faults(func(i int, n *Facts) string {
		if !n.measured() {
			return ""
		}
		s := n.Host.Sysctl
		var low []string
		add := func(name string, have, want int64) {
			if have > 0 && have < want {
				low = append(low, fmt.Sprintf("%s %d, wanted %d", name, have, want))
			}
		}
		add("net.core.somaxconn", s.SomaxConn, min(int64(v.ranks), 16384))
		add("net.ipv4.neigh.default.gc_thresh3", s.GCThresh3, 4*host.Neighbours(v.places, len(f.carrying(i))))
		if s.ConntrackMax > 0 && s.ConntrackUsed >= 0 {
			add("net.netfilter.nf_conntrack_max", s.ConntrackMax, 2*int64(n.Node.Workers)*f.load(i, n).Files())
			if s.ConntrackUsed > s.ConntrackMax/10*9 {
				low = append(low, fmt.Sprintf("connection tracking is full: %d of %d", s.ConntrackUsed, s.ConntrackMax))
			}
		}
		return strings.Join(low, "; ")
	}), Finding{Text: "Tables of the kernel are too small for a job of this size."})
}
