package process

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// LifelineFD is the descriptor on which a [Keeper] gives each of its agents the
// read end of a pipe. Nothing is ever written to it; it ends with the keeper.
const LifelineFD = 3

// Lifeline watches, in an agent, over its keeper.
type Lifeline struct {
	pipe *os.File
	lost chan struct{}
	done chan struct{} // closed when the watching goroutine has ended
}

// OpenLifeline takes the pipe at descriptor fd (LifelineFD), keeps it away from
// children, and watches it until Close. The error says that fd is no pipe: the
// process was not started by a Keeper.
func OpenLifeline(fd int) (*Lifeline, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot watch over the keeper: descriptor %d: %w", fd, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return nil, fmt.Errorf("cannot watch over the keeper: descriptor %d is not a pipe", fd)
	}
	syscall.CloseOnExec(fd)
	// Not blocking: then a read waits in the poller and Close interrupts it.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot watch over the keeper: descriptor %d: %w", fd, err)
	}
	l := &Lifeline{
		pipe: os.NewFile(uintptr(fd), "lifeline"),
		lost: make(chan struct{}),
		done: make(chan struct{}),
	}
	go l.watch()
	return l, nil
}

func (l *Lifeline) watch() {
	defer close(l.done)
	if _, err := io.Copy(io.Discard, l.pipe); err == nil { // nil: end of file, not Close
		close(l.lost)
	}
}

// Lost is closed when the keeper is gone, however it ended.
func (l *Lifeline) Lost() <-chan struct{} { return l.lost }

// Close stops watching; Lost then stays as it is.
func (l *Lifeline) Close() {
	l.pipe.Close()
	<-l.done
}
