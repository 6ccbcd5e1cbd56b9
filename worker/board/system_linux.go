package board

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Numbers of the kernel's interface that package syscall does not have.
const (
	memfdCloseOnExec = 1
	memfdSealing     = 2
	addSeals         = 1033 // F_ADD_SEALS
	getSeals         = 1034 // F_GET_SEALS
	sealSeal         = 1
	sealShrink       = 2
	sealGrow         = 4
	dontDump         = 16 // MADV_DONTDUMP
	futexWait        = 0
	futexWake        = 1
)

// memfdNumber returns the number of the system call memfd_create, 0 if this program does
// not know it.
func memfdNumber() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 319
	case "386":
		return 356
	case "arm":
		return 385
	case "arm64", "loong64", "riscv64":
		return 279
	case "ppc64", "ppc64le":
		return 360
	case "s390x":
		return 350
	}
	return 0
}

// newMemfd makes a file of zeros in memory that has no name, and whose size no process
// can change: a rank that cuts it off would kill all others by SIGBUS.
func newMemfd(name string, size int) (*os.File, error) {
	number := memfdNumber()
	if number == 0 {
		return nil, fmt.Errorf("memfd_create on %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	text, err := syscall.BytePtrFromString(name)
	if err != nil {
		return nil, err
	}
	fd, _, errno := syscall.Syscall(number, uintptr(unsafe.Pointer(text)), memfdCloseOnExec|memfdSealing, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("memfd_create", errno)
	}
	f := os.NewFile(fd, name)
	if err := f.Truncate(int64(size)); err != nil {
		f.Close()
		return nil, err
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, addSeals, seals); errno != 0 {
		f.Close()
		return nil, os.NewSyscallError("fcntl(F_ADD_SEALS)", errno)
	}
	return f, nil
}

// seals say that a file keeps its size for ever.
const seals = sealGrow | sealShrink | sealSeal

// isSealed reports whether no process can change the size of f.
func isSealed(f *os.File) bool {
	got, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), getSeals, 0)
	return errno == 0 && got&seals == seals
}

// identify returns what no other file of this machine has at the same time.
func identify(f *os.File) (dev, inode uint64, err error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0, os.NewSyscallError("fstat", err)
	}
	return uint64(st.Dev), st.Ino, nil
}

// mapShared maps the first size bytes of f.
func mapShared(f *os.File, size int) ([]byte, error) {
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = syscall.Madvise(data, dontDump) // a core file needs none of it
	return data, nil
}

func unmap(data []byte) error { return os.NewSyscallError("munmap", syscall.Munmap(data)) }

// wait sleeps until word is woken, is not v any more, or the time is over. It uses
// Syscall6 and not RawSyscall6, so that other goroutines run meanwhile and the garbage
// collector does not wait.
func wait(word *atomic.Uint32, v uint32, limit time.Duration) {
	t := syscall.NsecToTimespec(int64(limit))
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(v), uintptr(unsafe.Pointer(&t)), 0, 0)
}

// wake wakes all that sleep on word.
func wake(word *atomic.Uint32) {
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1<<30, 0, 0, 0)
}

// yield lets other processes run on this CPU.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }

// MachineMemory returns the bytes of memory and swap that this machine has. Where the system
// does not say, it is what a program of Go can have at most.
func MachineMemory() uint64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return maxHeap
	}
	return min(maxHeap, (uint64(info.Totalram)+uint64(info.Totalswap))*uint64(info.Unit))
}
