package stacks

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel is what the kernel says of the main thread of a process.
type Kernel struct {
	State   string   `json:"state,omitempty"`   // R, S, D, T, t, Z
	Syscall string   `json:"syscall,omitempty"` // name, or number, of the system call that it is in
	On      string   `json:"on,omitempty"`      // the file of that call
	Wchan   string   `json:"wchan,omitempty"`   // function of the kernel in which it waits
	Stack   []string `json:"stack,omitempty"`   // functions of the kernel, the innermost first; root alone reads them
}

const maxKernelFrames = 16

func (k *Kernel) clean() {
	k.State, k.Syscall, k.Wchan = short(k.State, 4), short(k.Syscall, maxName), short(k.Wchan, maxName)
	k.On = shortEnd(k.On, maxFile)
	k.Stack = slices.Clone(k.Stack[:min(len(k.Stack), maxKernelFrames)])
	for i := range k.Stack {
		k.Stack[i] = short(k.Stack[i], maxName)
	}
}

// isStopped reports whether a signal or a debugger has stopped the process.
func (k *Kernel) isStopped() bool { return k.State == "T" || k.State == "t" }

// String says what the process does: "stopped by a signal", "waiting in read of
// /tmp/fifo".
func (k *Kernel) String() string {
	where := ""
	if k.Syscall != "" {
		where = " in " + k.Syscall
		if k.On != "" {
			where += " of " + k.On
		}
	} else if k.Wchan != "" {
		where = " in the kernel's " + k.Wchan
	}
	switch k.State {
	case "R":
		return "running"
	case "T":
		return "stopped by a signal (kill -CONT lets it go on)"
	case "t":
		return "stopped by a debugger"
	case "Z":
		return "ended, and nothing has waited for it"
	case "D":
		return "waiting" + where + ", which nothing can interrupt"
	case "S", "I":
		return "waiting" + where
	}
	return "at a place that is not known"
}

// readKernel reads what the kernel says of a process. What it does not allow is left
// out.
func readKernel(pid int) Kernel {
	dir := fmt.Sprintf("/proc/%d/", pid)
	var k Kernel
	stat := readProc(dir + "stat")
	if end := bytes.LastIndexByte(stat, ')'); end >= 0 && len(stat) > end+2 {
		k.State = string(stat[end+2 : end+3])
	}
	if w := string(readProc(dir + "wchan")); w != "0" {
		k.Wchan = w
	}
	k.Stack = parseKernelStack(string(readProc(dir + "stack")))
	k.Syscall, k.On = parseSyscall(string(readProc(dir+"syscall")), func(fd int) string {
		name, _ := os.Readlink(filepath.Join(dir, "fd", strconv.Itoa(fd)))
		return name
	})
	k.clean()
	return k
}

// parseSyscall reads a line of /proc/PID/syscall: a number and the arguments, or
// "running". file names the file of a descriptor.
func parseSyscall(line string, file func(fd int) string) (name, on string) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return "", ""
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil || n < 0 {
		return "", ""
	}
	name, known := syscalls()[n]
	if !known {
		return fmt.Sprintf("system call %d", n), ""
	}
	if len(fields) > 1 && slices.Contains(onFiles(), name) {
		if fd, err := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 31); err == nil {
			on = file(int(fd))
		}
	}
	return name, on
}

// onFiles lists the system calls whose first argument is the descriptor that they wait
// for.
func onFiles() []string {
	return []string{
		"read", "readv", "pread64", "write", "writev", "pwrite64", "recvfrom", "recvmsg", "sendto", "sendmsg", "accept", "accept4",
		"connect", "fsync", "fdatasync", "flock", "ioctl", "getdents64",
	}
}

// commonSyscalls names the system calls in which a program may wait, on every
// architecture.
func commonSyscalls() map[int]string {
	return map[int]string{
		unix.SYS_READ: "read", unix.SYS_READV: "readv", unix.SYS_PREAD64: "pread64", unix.SYS_WRITE: "write", unix.SYS_WRITEV: "writev",
		unix.SYS_PWRITE64: "pwrite64", unix.SYS_RECVFROM: "recvfrom", unix.SYS_RECVMSG: "recvmsg", unix.SYS_SENDTO: "sendto",
		unix.SYS_SENDMSG: "sendmsg", unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept4", unix.SYS_CONNECT: "connect",
		unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_FLOCK: "flock", unix.SYS_IOCTL: "ioctl",
		unix.SYS_GETDENTS64: "getdents64", unix.SYS_FUTEX: "futex", unix.SYS_PPOLL: "ppoll", unix.SYS_PSELECT6: "pselect6",
		unix.SYS_EPOLL_PWAIT: "epoll_pwait", unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep",
		unix.SYS_WAIT4: "wait4", unix.SYS_WAITID: "waitid", unix.SYS_OPENAT: "openat", unix.SYS_FCNTL: "fcntl",
		unix.SYS_RESTART_SYSCALL: "restart_syscall", unix.SYS_SCHED_YIELD: "sched_yield", unix.SYS_STATFS: "statfs",
		unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait", unix.SYS_RT_SIGSUSPEND: "rt_sigsuspend",
		unix.SYS_SEMTIMEDOP: "semtimedop", unix.SYS_MSGRCV: "msgrcv", unix.SYS_EXIT: "exit", unix.SYS_EXIT_GROUP: "exit_group",
	}
}

// maxProc bounds what is read of a file of /proc.
const maxProc = 64 << 10

// readProc returns a file of /proc without its last line break, nil if it cannot be read.
func readProc(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProc))
	if err != nil {
		return nil
	}
	return bytes.TrimRight(b, "\n")
}
