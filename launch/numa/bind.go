package numa

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Allowed returns the CPUs that this thread may run on and the NUMA nodes whose
// memory it may use. They are what its cgroup, its scheduler and taskset left.
// A kernel without NUMA has no nodes.
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

// Around returns a function for [process.Spec]. The function calls start on a
// bound thread and then restores the thread's CPUs and policy. It is nil if
// there is nothing to bind.
func (b Binding) Around() func(start func() error) error {
	if !b.Bound {
		return nil
	}
	return b.bind
}

// bind calls start in the calling goroutine. Its errors are of start, or say
// why start was not called.
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
	// This fails only if the cpuset changed meanwhile to other CPUs. gorun's
	// thread then stays on the worker's CPUs, which costs the worker little.
	defer func() { _ = unix.SchedSetaffinityDynamic(0, old) }()
	defer b.setMemoryPolicy()()
	return start()
}

// maxNodes is the number of NUMA nodes that a unix.CPUSet holds. Linux is built
// for at most as many.
const maxNodes = 1024

// setMemoryPolicy sets the memory policy and returns a function that restores the
// earlier one. Setting may fail (Docker's seccomp filter, a kernel without NUMA
// or, for several nodes, before 5.15). The kernel's default then remains:
// memory of the node whose CPU asks, and that CPU is bound.
func (b Binding) setMemoryPolicy() (restore func()) {
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

// memoryPolicy calls get_mempolicy(2) for this thread.
func memoryPolicy(nodes *unix.CPUSet, flags uintptr) (mode int, err error) {
	var m int32
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&m)),
		uintptr(unsafe.Pointer(nodes)), maxNodes, 0, flags, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(m), nil
}
