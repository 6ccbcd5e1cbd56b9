package stacks

import (
	"maps"

	"golang.org/x/sys/unix"
)

// syscalls names the system calls in which a program may wait.
func syscalls() map[int]string {
	all := commonSyscalls()
	maps.Copy(all, map[int]string{
		unix.SYS_POLL: "poll", unix.SYS_SELECT: "select", unix.SYS_EPOLL_WAIT: "epoll_wait", unix.SYS_OPEN: "open",
		unix.SYS_STAT: "stat", unix.SYS_PAUSE: "pause", unix.SYS_UNLINK: "unlink", unix.SYS_NEWFSTATAT: "newfstatat",
	})
	return all
}
