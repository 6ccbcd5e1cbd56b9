package preflight

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// deadlyRules is L08: limits at which a worker fails or is killed while it works.
func deadlyRules() []Rule {
	return []Rule{{
		ID: "L08", Name: "worker-limits", Severity: Warning,
		Meaning: "No limit of a process (ulimit) kills a worker after some CPU time (-t), at the size of a file (-f), or keeps memory from it (-d; -v where CUDA is not used, else see L07); a limit of files below one of NCCL's segments in /dev/shm is an error.",
		Users:   "`CPU time limit exceeded` (exit code 152), `File size limit exceeded` (153), `File too large`, `Cannot allocate memory`, in the middle of the job.",
		Steps: []Step{
			inShell("raise the limit; a service that starts the jobs needs it, too (LimitCPU=)", "sudo prlimit --pid $$ --cpu=unlimited:unlimited"),
			toContainer("", "--ulimit cpu=-1:-1").or(),
		},
		Check: checkDeadly,
	}}
}

func checkDeadly(f *Fleet) []Finding {
	// What a rank's proxy maps is one file, whatever links the GPUs.
	segment := host.Load{Local: 2, Channels: 1}.SHM() / 2
	blocks := func(n *Facts, limit int64) bool {
		return limit < segment && n.GPU.Driver && n.Node.Workers > 1 && !n.on("NCCL_SHM_DISABLE")
	}
	var all []Finding
	for _, l := range []struct {
		name     string
		of       func(n *Facts) *int64 // nil: not known, or another finding's
		say      func(int64) string
		text     string
		severity Severity
	}{
		{
			name: "cpu", of: func(n *Facts) *int64 { return n.Host.Limits.CPU },
			say:  func(s int64) string { return "killed after " + computing(s) + " of CPU time" },
			text: "Workers are killed when all their threads together have computed for some time (SIGXCPU, exit code 152).",
		},
		{
			name: "fsize", severity: Error,
			of: func(n *Facts) *int64 {
				if l := n.Host.Limits.FSize; l != nil && blocks(n, *l) {
					return l
				}
				return nil
			},
			say:  func(b int64) string { return "files end at " + size(b) },
			text: "NCCL cannot make its segments in /dev/shm, which are files larger than the limit: workers fail or are killed (SIGXFSZ, exit code 153).",
		},
		{
			name: "fsize",
			of: func(n *Facts) *int64 {
				if l := n.Host.Limits.FSize; l != nil && !blocks(n, *l) {
					return l
				}
				return nil
			},
			say:  func(b int64) string { return "files end at " + size(b) },
			text: "Workers that make a file larger than the limit, a checkpoint for instance, fail or are killed (SIGXFSZ, exit code 153).",
		},
		{
			name: "data", of: func(n *Facts) *int64 { return n.Host.Limits.Data },
			say:  func(b int64) string { return "no more than " + size(b) + " of private memory" },
			text: "A worker that asks for more memory than the limit gets none and fails (Cannot allocate memory).",
		},
		{
			name: "as",
			of: func(n *Facts) *int64 {
				if n.GPU.Driver || !n.measured() || n.Libraries.Torch == "" {
					return nil
				}
				return &n.Host.Limits.AS
			},
			say:  func(b int64) string { return "no more than " + size(b) + " of address space" },
			text: "A worker that maps more memory, libraries and files than the limit fails (Cannot allocate memory).",
		},
	} {
		limited := f.faults(func(_ int, n *Facts) string {
			if limit := l.of(n); limit != nil && *limit >= 0 {
				return l.say(*limit)
			}
			return ""
		})
		all = append(all, one(limited, Finding{
			Severity: l.severity, Text: l.text, Steps: f.raise(marked(limited), l.name, host.Unlimited),
		})...)
	}
	return all
}

// computing is a number of seconds for people.
func computing(s int64) string {
	if s < 600 || s > int64(time.Duration(1<<62)/time.Second) {
		return fmt.Sprintf("%d s", s)
	}
	return (time.Duration(s) * time.Second).Round(time.Minute).String()
}
