// Package affinity binds a process to CPUs.
package affinity

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	// maxCPU bounds the numbers of CPUs. Linux is built for at most 8192.
	maxCPU = 8192
	// bindTimes bounds how often Bind looks for threads that started meanwhile.
	bindTimes = 5
)

// cpuMask is the kernel's form of a set of CPUs.
type cpuMask [maxCPU / 64]uint64

// Bind binds all threads of this process to CPUs, and reports whether it did. It does
// nothing if the process may not use one of them, for example because the program was
// started with CPUs of its own choice.
func Bind(cpus []int) bool {
	var want, have cpuMask
	for _, c := range cpus {
		if c < 0 || c >= maxCPU {
			return false
		}
		want[c/64] |= 1 << (c % 64)
	}
	if len(cpus) == 0 || affinity(syscall.SYS_SCHED_GETAFFINITY, 0, &have) != 0 {
		return false
	}
	for i := range want {
		if want[i]&^have[i] != 0 {
			return false
		}
	}
	bound := map[int]bool{}
	for range bindTimes {
		before := len(bound)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return false
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil || bound[id] {
				continue
			}
			if e := affinity(syscall.SYS_SCHED_SETAFFINITY, id, &want); e != 0 && e != syscall.ESRCH {
				return false
			}
			bound[id] = true
		}
		if len(bound) == before {
			return true
		}
	}
	return true
}

// affinity calls sched_getaffinity or sched_setaffinity for a thread; 0: the caller's.
func affinity(call uintptr, thread int, mask *cpuMask) syscall.Errno {
	_, _, err := syscall.RawSyscall(call, uintptr(thread), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)))
	return err
}
