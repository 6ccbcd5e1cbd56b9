//go:build !amd64

package stacks

// syscalls names the system calls in which a program may wait.
func syscalls() map[int]string { return commonSyscalls() }
