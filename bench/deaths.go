package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// deaths sees processes end, children or not, through a pidfd each.
type deaths struct {
	fds  []int
	when []int64 // monotonic ns; 0: alive
}

func watchDeaths(pids []int) (*deaths, error) {
	d := &deaths{when: make([]int64, len(pids))}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			d.close()
			return nil, fmt.Errorf("cannot watch process %d: %w", pid, err)
		}
		d.fds = append(d.fds, fd)
	}
	return d, nil
}

// wait returns when all have ended, or after the bound.
func (d *deaths) wait(bound time.Duration) error {
	deadline := time.Now().Add(bound)
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
