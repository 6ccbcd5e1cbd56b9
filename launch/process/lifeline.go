package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// LifelineFD is the descriptor on which a [Keeper] gives each of its agents one
// end of a pair of stream sockets. It ends with the keeper, which sends nothing;
// an agent sends one byte when it takes signals.
const LifelineFD = 3

// Lifeline watches, in an agent, over its keeper.
type Lifeline struct {
	end  *os.File
	lost chan struct{}
	done chan struct{} // closed when the watching goroutine has ended
}

// OpenLifeline takes the socket at descriptor fd (LifelineFD), keeps it away from
// children, and watches it until Close. The error says that fd is no socket: the
// process was not started by a Keeper.
func OpenLifeline(fd int) (*Lifeline, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot watch over the keeper: descriptor %d: %w", fd, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, fmt.Errorf("cannot watch over the keeper: descriptor %d is not a socket", fd)
	}
	syscall.CloseOnExec(fd)
	// Not blocking: then a read waits in the poller and Close interrupts it.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot watch over the keeper: descriptor %d: %w", fd, err)
	}
	l := &Lifeline{
		end:  os.NewFile(uintptr(fd), "lifeline"),
		lost: make(chan struct{}),
		done: make(chan struct{}),
	}
	go l.watch()
	return l, nil
}

func (l *Lifeline) watch() {
	defer close(l.done)
	if _, err := io.Copy(io.Discard, l.end); !errors.Is(err, os.ErrClosed) { // but by its end or a reset
		close(l.lost)
	}
}

// Listens tells the keeper that this agent takes signals: one that came before
// would have killed it, and is only now passed on. A keeper that is gone is Lost's
// to tell.
func (l *Lifeline) Listens() { _, _ = l.end.Write([]byte{1}) }

// Lost is closed when the keeper is gone, however it ended.
func (l *Lifeline) Lost() <-chan struct{} { return l.lost }

// Close stops watching; Lost then stays as it is.
func (l *Lifeline) Close() {
	l.end.Close()
	<-l.done
}
