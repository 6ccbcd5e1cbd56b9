package process

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Ancestor watches an ancestor of this process, such as the slurmstepd that started it.
type Ancestor struct {
	fd   int // pidfd of the process
	wake int // eventfd that ends the watch
	wg   sync.WaitGroup
}

// maxAncestors bounds the search; a process has a few.
const maxAncestors = 64

// FindAncestor finds the nearest ancestor of this process with the given name (the
// first 15 bytes of its file's name, /proc/PID/comm). It returns nil if there is none,
// or if the kernel cannot watch it.
func FindAncestor(name string) (*Ancestor, error) {
	proc, pid := procfs{root: "/proc"}, os.Getppid()
	for range maxAncestors {
		s, err := proc.stat(pid)
		if err != nil || pid <= 1 {
			return nil, nil
		}
		if s.name == name {
			return openAncestor(pid)
		}
		pid = s.parent
	}
	return nil, nil
}

func openAncestor(pid int) (*Ancestor, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ESRCH) {
		return nil, nil // a kernel before 5.3, a filter of system calls, or a process that has just ended
	}
	if err != nil {
		return nil, fmt.Errorf("cannot watch process %d: pidfd_open: %w", pid, err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot watch process %d: eventfd: %w", pid, err)
	}
	return &Ancestor{fd: fd, wake: wake}, nil
}

// Watch calls lost when the process has ended, unless Close is called before.
func (a *Ancestor) Watch(lost func()) {
	a.wg.Go(func() {
		fds := []unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}, {Fd: int32(a.wake), Events: unix.POLLIN}}
		for {
			_, err := unix.Poll(fds, -1)
			switch {
			case errors.Is(err, unix.EINTR):
			case fds[0].Revents != 0:
				lost()
				return
			default: // Close, or a kernel that cannot poll
				return
			}
		}
	})
}

// Close ends the watch and waits for a call of lost.
func (a *Ancestor) Close() {
	_, _ = unix.Write(a.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	a.wg.Wait()
	unix.Close(a.fd)
	unix.Close(a.wake)
}
