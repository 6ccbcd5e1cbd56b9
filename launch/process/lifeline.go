package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// LifelineFD is the descriptor on which a [Keeper] gives each of its agents one end
// of a pair of stream sockets. The other end closes when the keeper ends; the
// keeper sends nothing. An agent sends a byte when it takes signals, and its exit code
// when it has done its work.
const LifelineFD = 3

// Messages of an agent. After lifelineEnd come the agent's index, in two bytes, and its exit
// code.
const (
	lifelineReady = 1
	lifelineEnd   = 2
)

// Lifeline watches the keeper of an agent.
type Lifeline struct {
	end  *os.File
	lost chan struct{}
	done chan struct{} // closed when the watching goroutine has ended
}

// OpenLifeline takes the socket at descriptor fd (LifelineFD), hides it from
// children, and watches it until Close. The error says that fd is no socket: no
// Keeper started this process.
func OpenLifeline(fd int) (*Lifeline, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot watch the keeper: descriptor %d: %w", fd, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, fmt.Errorf("cannot watch the keeper: descriptor %d is not a socket", fd)
	}
	syscall.CloseOnExec(fd)
	// A read of a socket that does not block waits in the poller, so Close can
	// interrupt it.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot watch the keeper: descriptor %d: %w", fd, err)
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
	if _, err := io.Copy(io.Discard, l.end); !errors.Is(err, os.ErrClosed) { // not by Close: the other end closed, or a reset came
		close(l.lost)
	}
}

// SendReady sends the keeper the byte that says that this agent takes signals. An
// earlier signal would have killed the agent, so the keeper passes signals on only
// now. SendReady ignores a lost keeper, which Lost reports.
func (l *Lifeline) SendReady() { _, _ = l.end.Write([]byte{lifelineReady}) }

// SendEnd sends the keeper the exit code with which this agent, of an index among the
// keeper's agents, ends now. The kernel may not let the process go, because a thread of it
// waits for a file system that does not answer. Then the keeper ends without it.
func (l *Lifeline) SendEnd(agent, code int) {
	_, _ = l.end.Write([]byte{lifelineEnd, byte(agent >> 8), byte(agent), byte(code)})
}

// readLifeline reads what agents send. It closes ready when all of them take signals, and
// sends the exit code of an agent to its channel, which has room for one.
func readLifeline(r io.Reader, ready chan<- struct{}, codes []chan int) {
	in, count := bufio.NewReader(r), 0
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return
		}
		if kind == lifelineReady {
			if count++; count == len(codes) {
				close(ready)
			}
			continue
		}
		var end [3]byte
		if _, err := io.ReadFull(in, end[:]); err != nil || kind != lifelineEnd {
			return
		}
		if agent := int(end[0])<<8 | int(end[1]); agent < len(codes) {
			select {
			case codes[agent] <- int(end[2]):
			default: // it has said so before
			}
		}
	}
}

// Lost is closed when the keeper has ended, in whatever way.
func (l *Lifeline) Lost() <-chan struct{} { return l.lost }

// Close stops the watch; Lost then stays as it is.
func (l *Lifeline) Close() {
	l.end.Close()
	<-l.done
}
