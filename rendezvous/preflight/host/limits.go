package host

import (
	"math"

	"golang.org/x/sys/unix"
)

// limits sets the limits that a worker would get. Limits of resources are
// inherited, so this process's limits are also the workers', with one
// exception: Go's runtime raises its own soft limit of open files and gives a
// child the original one.
func (o Options) limits(l *Limits) {
	soft := func(resource int) int64 { s, _ := rlimit(resource); return s }
	l.MemLockSoft, l.MemLock = rlimit(unix.RLIMIT_MEMLOCK)
	l.NProc = soft(unix.RLIMIT_NPROC)
	l.Stack = soft(unix.RLIMIT_STACK)
	l.AS = soft(unix.RLIMIT_AS)
	l.readFatal()
	l.ThreadsMax = o.number("/proc/sys/kernel/threads-max")
	l.PIDMax = o.number("/proc/sys/kernel/pid_max")
	l.Caps = capabilities()
	o.cgroup(l)
	current, hard := rlimit(unix.RLIMIT_NOFILE)
	l.NoFileSoft, l.NoFileHard = childFiles(current, hard), hard
}

// readFatal sets the limits at which any process fails or is killed.
func (l *Limits) readFatal() {
	for resource, to := range map[int]**int64{unix.RLIMIT_DATA: &l.Data, unix.RLIMIT_FSIZE: &l.FSize, unix.RLIMIT_CPU: &l.CPU} {
		if soft, _ := rlimit(resource); soft != Unknown {
			*to = &soft
		}
	}
}

// childFiles returns the soft limit of open files that a child of a Go program
// gets, given the program's own limits. The runtime marks a limit that it
// raised by setting it to one less than the hard limit, and restores the
// original for children (syscall/rlimit.go). A program that calls
// syscall.Setrlimit stops that.
func childFiles(soft, hard int64) int64 {
	if hard > 0 && soft == hard-1 {
		return Unknown
	}
	return soft
}

func rlimit(resource int) (soft, hard int64) {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return Unknown, Unknown
	}
	return limit(l.Cur), limit(l.Max)
}

func limit(n uint64) int64 {
	if n > math.MaxInt64 { // RLIM_INFINITY is the largest number
		return Unlimited
	}
	return int64(n)
}

// capabilities returns this process's effective capabilities. Its workers
// inherit them if the process is root's or if the capabilities are ambient.
func capabilities() uint64 {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) != nil {
		return 0
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// unknownLimits returns limits that were not read.
func unknownLimits() Limits {
	return Limits{
		NoFileSoft: Unknown, NoFileHard: Unknown, MemLock: Unknown, MemLockSoft: Unknown, NProc: Unknown, PidsMax: Unknown,
		PidsCurrent: Unknown, ThreadsMax: Unknown, PIDMax: Unknown, Stack: Unknown, AS: Unknown, MemMax: Unknown, MemCurrent: Unknown,
	}
}
