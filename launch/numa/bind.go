package numa

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Allowed gives the CPUs that this thread may run on and the NUMA nodes whose
// memory it may use. They are what its cgroup, its scheduler and taskset left; a
// kernel without NUMA has no nodes.
func Allowed() (cpus, memory Set, err error) {
	mask := unix.NewCPUSet(maxID)
	if err := unix.SchedGetaffinityDynamic(0, mask); err != nil {
		return nil, nil, fmt.Errorf("cannot learn which CPUs this process may use: %w", err)
	}
	for cpu := range maxID {
		if mask.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	var nodes unix.CPUSet
	if _, err := memoryPolicy(&nodes, unix.MPOL_F_MEMS_ALLOWED); err == nil {
		for id := range maxNodes {
			if nodes.IsSet(id) {
				memory = append(memory, id)
			}
		}
	}
	return cpus, memory, nil
}

// Around is for [process.Spec]: it calls start on a thread that is bound, and
// gives the thread back what it had. nil: there is nothing to bind.
func (b Binding) Around() func(start func() error) error {
	if !b.Bound {
		return nil
	}
	return b.bind
}

// bind calls start in the calling goroutine. Its errors are of start, or say why
// start was not called.
func (b Binding) bind(start func() error) error {
	// While the thread is locked the runtime starts no other thread from it, so
	// that only the child inherits.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old := unix.NewCPUSet(maxID)
	if err := unix.SchedGetaffinityDynamic(0, old); err != nil {
		return fmt.Errorf("cannot bind to CPUs %v: sched_getaffinity: %w", b.CPUs, err)
	}
	mask := unix.NewCPUSet(maxID)
	for _, cpu := range b.CPUs {
		mask.Set(cpu)
	}
	if err := unix.SchedSetaffinityDynamic(0, mask); err != nil {
		return fmt.Errorf("cannot bind to CPUs %v: sched_setaffinity: %w", b.CPUs, err)
	}
	// It fails only when the cpuset was changed meanwhile to others than these.
	// gorun's thread then stays where the worker is, which costs it little.
	defer func() { _ = unix.SchedSetaffinityDynamic(0, old) }()
	defer b.prefer()()
	return start()
}

// maxNodes is the number of NUMA nodes that a unix.CPUSet holds; Linux is built
// for at most as many.
const maxNodes = 1024

// prefer sets the memory policy; the result sets what was before. Where it may
// not (Docker's seccomp filter, a kernel without NUMA or, for several nodes,
// before 5.15), the kernel's default remains, which takes memory of the node
// whose CPU asks, and that is bound.
func (b Binding) prefer() (restore func()) {
	restore = func() {}
	if len(b.Memory) == 0 {
		return restore
	}
	var old, nodes unix.CPUSet
	mode, err := memoryPolicy(&old, 0)
	if err != nil {
		return restore
	}
	for _, id := range b.Memory {
		nodes.Set(id)
	}
	want := unix.MPOL_PREFERRED
	if len(b.Memory) > 1 {
		want = unix.MPOL_PREFERRED_MANY
	}
	if unix.SetMemPolicy(want, &nodes) != nil {
		return restore
	}
	return func() { _ = unix.SetMemPolicy(mode, &old) } // it was allowed before
}

// memoryPolicy is get_mempolicy(2) of this thread.
func memoryPolicy(nodes *unix.CPUSet, flags uintptr) (mode int, err error) {
	var m int32
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&m)),
		uintptr(unsafe.Pointer(nodes)), maxNodes, 0, flags, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(m), nil
}
