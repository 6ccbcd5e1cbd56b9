package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// deaths knows in which order processes ended. wait(2) returns ended children in the
// order of their starts, but the kernel queues the events of pidfds as they come.
// A kernel without pidfds (before Linux 5.3) gives no order.
type deaths struct {
	epoll int         // -1: none
	last  time.Time   // of the latest end
	fds   map[int]int // pidfd by pid, of processes whose end was not collected
	count int
	order map[int]int // number of the end by pid, of processes whose end was not collected
}

func openDeaths() *deaths {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		fd = -1
	}
	return &deaths{epoll: fd, fds: map[int]int{}, order: map[int]int{}}
}

// watch puts a started process into the order. A process that cannot be watched counts
// as having ended after those whose end is known.
func (d *deaths) watch(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(pid)}
	if err := unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		unix.Close(fd)
		return
	}
	d.fds[pid] = fd
}

// note numbers the ends that the kernel has queued.
func (d *deaths) note() {
	events := make([]unix.EpollEvent, len(d.fds)+1)
	n, _ := unix.EpollWait(d.epoll, events, 0) // an interrupted call is made again for the next end
	for _, e := range events[:max(n, 0)] {
		d.count++
		d.order[int(e.Fd)] = d.count
	}
}

// collect returns the number of a process's end and forgets the process.
func (d *deaths) collect(pid int) int {
	n, known := d.order[pid]
	if !known {
		d.count++
		n = d.count
	}
	delete(d.order, pid)
	if fd, ok := d.fds[pid]; ok {
		unix.Close(fd)
		delete(d.fds, pid)
	}
	return n
}

// now returns the time of an end, which is after that of every earlier end.
func (d *deaths) now() time.Time {
	at := time.Now()
	if !at.After(d.last) {
		at = d.last.Add(time.Nanosecond)
	}
	d.last = at
	return at
}

func (d *deaths) close() {
	for _, fd := range d.fds {
		unix.Close(fd)
	}
	d.fds = map[int]int{}
	unix.Close(d.epoll)
	d.epoll = -1
}
