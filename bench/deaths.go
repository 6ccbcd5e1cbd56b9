package main

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// deaths sees processes end, children or not, through a pidfd each.
type deaths struct {
	fds  []int
	when []int64 // monotonic ns; 0: alive
}

func newDeaths(pids ...int) (*deaths, error) {
	d := &deaths{}
	for _, pid := range pids {
		if err := d.add(pid); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *deaths) add(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("cannot watch process %d: %w", pid, err)
	}
	d.fds = append(d.fds, fd)
	d.when = append(d.when, 0)
	return nil
}

// watch begins to wait until all have ended or the bound is over; what it
// returns awaits that. It begins before it returns, so that a signal sent
// afterwards is never seen late.
func (d *deaths) watch(bound time.Duration) (wait func() error) {
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		// Locked for good: the thread ends with the goroutine, its priority too.
		runtime.LockOSThread()
		// On a busy machine an event that is seen late shortens a time that
		// begins with it, so the watcher goes first. Without root it does not.
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{
			Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
		}, 0)
		close(ready)
		done <- d.poll(time.Now().Add(bound))
	}()
	<-ready
	return func() error { return <-done }
}

func (d *deaths) poll(deadline time.Time) error {
	for {
		var polled []unix.PollFd
		var index []int
		for i, fd := range d.fds {
			if d.when[i] == 0 {
				polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
				index = append(index, i)
			}
		}
		left := time.Until(deadline)
		if len(polled) == 0 || left <= 0 {
			return nil
		}
		_, err := unix.Poll(polled, int(left.Milliseconds())+1)
		now := monotonic()
		if err != nil && err != unix.EINTR {
			return err
		}
		for i, p := range polled {
			if p.Revents != 0 {
				d.when[index[i]] = now
			}
		}
	}
}

func (d *deaths) close() {
	for _, fd := range d.fds {
		unix.Close(fd)
	}
}
