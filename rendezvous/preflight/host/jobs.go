package host

import (
	"bytes"
	"context"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// These bound the search for live workers.
const (
	maxJobs    = 16
	maxEnviron = 128 << 10 // bytes of one process's environment
	maxParents = 64
)

// ProbeAddr is MASTER_ADDR in the environment of a program that an agent starts
// in place of a worker, to see what a wrapper passes on. It is an address that
// no host has (RFC 5737).
const ProbeAddr = "192.0.2.1"

// jobs finds live processes of this user whose environment names the run. This
// process and its ancestors do not count, because they inherit the run id from
// the job that they belong to. Probes do not count either, because their
// wrapper may name the run.
func (o Options) jobs(ctx context.Context) (jobs []Job, why string) {
	if o.RunID == "" {
		return nil, ""
	}
	want := []byte("TORCHELASTIC_RUN_ID=" + o.RunID)
	uid := uint32(os.Geteuid())
	parents := o.ancestors(os.Getpid())
	buf := make([]byte, 0, 16<<10)
	for _, pid := range o.names("/proc", maxPIDs, isNumber) {
		if ctx.Err() != nil {
			return jobs, "whether processes of an earlier job of this run live: there are too many processes to read"
		}
		var st unix.Stat_t
		if unix.Stat(o.Root+"/proc/"+pid, &st) != nil || st.Uid != uid {
			continue
		}
		env := readHead(o.Root+"/proc/"+pid+"/environ", maxEnviron, buf)
		if !hasEntry(env, want) || hasEntry(env, []byte("MASTER_ADDR="+ProbeAddr)) {
			continue
		}
		n, _ := strconv.Atoi(pid)
		if parents[n] {
			continue
		}
		jobs = append(jobs, Job{PID: n, RunID: bounded(o.RunID), Name: o.line("/proc/" + pid + "/comm"), Gorun: hasEntry(env, []byte("GORUN_RUN_ID="+o.RunID))})
		if len(jobs) == maxJobs {
			break
		}
	}
	return jobs, ""
}

// hasEntry reports whether an environment contains an entry. Every entry of the
// environment ends with a zero byte.
func hasEntry(env, entry []byte) bool {
	for rest := env; ; {
		i := bytes.Index(rest, entry)
		if i < 0 {
			return false
		}
		end := i + len(entry)
		if (i == 0 || rest[i-1] == 0) && (end == len(rest) || rest[end] == 0) {
			return true
		}
		rest = rest[i+1:]
	}
}

// ancestors returns a process and all its ancestors.
func (o Options) ancestors(pid int) map[int]bool {
	all := map[int]bool{}
	for range maxParents {
		if pid <= 0 || all[pid] {
			break
		}
		all[pid] = true
		pid = parent(o.head("/proc/"+strconv.Itoa(pid)+"/stat", 1024))
	}
	return all
}

// parent reads the fourth field of /proc/PID/stat, 0 if there is none. The
// second field, the name, may contain anything; the last parenthesis ends it.
func parent(stat []byte) int {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(fields[1]))
	return n
}
