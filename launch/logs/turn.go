package logs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// turn is the right to write to a place that other processes write to as well:
// a lock on a byte of a file that each of them has opened for itself. The kernel
// frees that of a process that dies. The lock belongs to the open file, not to
// the process: among those of processes the kernel sees a deadlock where two
// threads of one each are about another place.
type turn struct {
	file *os.File
	at   int64         // the first of two bytes, see wait
	lock chan struct{} // the place's in this process, held around take and free
	wait chan struct{} // receives what was waited for; nil: nothing is. Behind lock.
}

// take waits for the turn and reports false if giveUp was closed before. A file
// that cannot be locked gives it at once: then lines may be torn, nothing else.
func (t *turn) take(giveUp <-chan struct{}) bool {
	if t.wait == nil {
		if !t.queue(unix.F_OFD_SETLK) {
			return true
		}
		t.wait = make(chan struct{})
		go t.await(t.wait)
	}
	select {
	case <-t.wait:
		t.wait = nil
		return true
	case <-giveUp:
		return false
	}
}

// await waits for take, which nothing else could interrupt. It ends with the
// wait; a turn that comes when nobody wants it any more goes on to others.
func (t *turn) await(got chan<- struct{}) {
	t.queue(unix.F_OFD_SETLKW)
	select {
	case got <- struct{}{}:
	case t.lock <- struct{}{}: // else held by who waits
		t.wait = nil
		t.free()
		<-t.lock
	}
}

// queue locks the first byte and, behind it, the second one, which is the turn:
// whoever has just written must not be before those who wait. It reports as
// set does.
func (t *turn) queue(cmd int) (busy bool) {
	if busy = t.set(cmd, unix.F_WRLCK, t.at); !busy {
		busy = t.set(cmd, unix.F_WRLCK, t.at+1)
		t.set(unix.F_OFD_SETLK, unix.F_UNLCK, t.at)
	}
	return busy
}

func (t *turn) free() { t.set(unix.F_OFD_SETLK, unix.F_UNLCK, t.at+1) }

// set reports whether somebody else is in the way.
func (t *turn) set(cmd int, kind int16, at int64) (busy bool) {
	lock := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1}
	for {
		err := control(t.file, func(fd int) error { return unix.FcntlFlock(uintptr(fd), cmd, &lock) })
		if !errors.Is(err, unix.EINTR) {
			return errors.Is(err, unix.EAGAIN)
		}
	}
}

// TakeTurns keeps what this process writes apart from what others do that share
// its standard output and standard error and have opened the same file as turns.
// No two of them may have turns from one another. Call it before anything is
// written; turns stays the caller's, and open for as long as the Console is.
func (c *Console) TakeTurns(turns *os.File) {
	for i, s := range []*sink{c.stdout, c.stderr} {
		// The kernel keeps writes to a file whole.
		if info, err := s.file.Stat(); err != nil || !info.Mode().IsRegular() {
			s.turn = &turn{file: turns, at: int64(2 * i), lock: s.lock}
		}
	}
	if c.stdout.lock == c.stderr.lock {
		c.stderr.turn = c.stdout.turn
	}
}
