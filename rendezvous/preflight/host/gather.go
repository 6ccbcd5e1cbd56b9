package host

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Options says which host Gather reads, and for which workers.
type Options struct {
	Root   string   // folder that contains /proc, /sys, /dev and /etc; "" for the real ones. Limits are always the real ones.
	Env    []string // the workers' environment, as KEY=VALUE
	Dir    string   // the workers' working directory, for a relative NCCL_DEBUG_FILE
	RunID  string   // search for live processes of this run; "": do not search. Set it only if the user chose the run id.
	Log    string   // NCCL_DEBUG_FILE, if a conf file sets it; "": the value in Env
	Brief  bool     // read the identity only: for workers that use no library of GPUs and no torch
	Driver bool     // there is a GPU driver: open its device files and search for NCCL's leftovers
}

// Gather reads the facts. Unknown says what could not be learnt.
func Gather(ctx context.Context, o Options) (f Facts, unknown []string) {
	f = Facts{UnixNano: time.Now().UnixNano()}
	addUnknown := func(why string) {
		if why != "" {
			unknown = append(unknown, why)
		}
	}
	if o.Brief {
		addUnknown(o.identity(&f))
		f.Limits, f.Sysctl, f.SHM.Free = unknownLimits(), Sysctl{Unknown, Unknown, Unknown, Unknown, Unknown}, Unknown
		f.Limits.readFatal()
		return f, unknown
	}
	ctx, cancel := context.WithTimeout(ctx, blockTime)
	defer cancel()
	devices := startBackground("opening the GPU's device files", o.devices)
	logs := startBackground("checking the folder of NCCL_DEBUG_FILE", o.logs)
	segments := startBackground("searching /dev/shm for what earlier jobs left", func() (Leftover, string) { return o.segments(ctx) })
	jobs := startBackground("searching for processes of an earlier job", func() ([]Job, string) { return o.jobs(ctx) })

	addUnknown(o.identity(&f))
	addUnknown(o.shm(&f.SHM))
	o.limits(&f.Limits)
	f.Sysctl = o.sysctl()

	var why string
	f.Leftover, why = segments.wait(ctx)
	addUnknown(why)
	f.Leftover.Jobs, why = jobs.wait(ctx)
	addUnknown(why)
	f.Leftover.Log, why = logs.wait(ctx)
	addUnknown(why)
	f.DevNodes, why = devices.wait(ctx)
	addUnknown(why)
	return f, unknown
}

// blockTime is how long a device or a remote file system may take to answer.
const blockTime = time.Second

// identity sets the facts that identify the host.
func (o Options) identity(f *Facts) (why string) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f.Hostname = unix.ByteSliceToString(u.Nodename[:])
		f.Kernel = unix.ByteSliceToString(u.Release[:])
		f.Arch = unix.ByteSliceToString(u.Machine[:])
	}
	f.BootID = o.line("/proc/sys/kernel/random/boot_id")
	f.MachineID = o.line("/etc/machine-id")
	f.NS = NS{Net: o.link("net"), IPC: o.link("ipc"), PID: o.link("pid"), Mnt: o.link("mnt"), User: o.link("user")}
	f.CPUVendor = cpuVendor(o.head("/proc/cpuinfo", 4096))
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		f.CPUs = set.Count()
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		f.MemKiB = int64(uint64(info.Totalram) * uint64(info.Unit) / 1024)
	}
	f.SysPCI = o.readable("/sys/class/pci_bus")
	f.ProcGPU = o.readable("/proc/driver/nvidia")
	f.Container = o.container()
	if f.BootID == "" || f.NS.PID == "" {
		return "the identity of this host: /proc is not readable"
	}
	return ""
}

func (o Options) link(ns string) string {
	target, _ := os.Readlink(o.Root + "/proc/self/ns/" + ns)
	return bounded(target)
}

func (o Options) readable(dir string) bool {
	return unix.Access(o.Root+dir, unix.R_OK|unix.X_OK) == nil
}
