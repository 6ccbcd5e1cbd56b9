package worker

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
)

// highest is a number below the usual limit of descriptors (1024) and above those that a
// program has.
const highest = 1000

// raise returns the socket of c under a high descriptor, and closes c. The kernel closes
// the files of a dying process from the highest to the lowest, and the drivers of GPUs
// take long for theirs: the agent hears of the death before that.
func raise(c *net.UnixConn) (*os.File, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd uintptr
	var errno syscall.Errno
	err = raw.Control(func(low uintptr) {
		for _, least := range []uintptr{highest, 0} { // the limit may be lower
			if fd, _, errno = syscall.Syscall(syscall.SYS_FCNTL, low, syscall.F_DUPFD_CLOEXEC, least); errno == 0 {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if errno != 0 {
		return nil, errno
	}
	return os.NewFile(fd, c.RemoteAddr().String()), nil
}

// rightsReader reads from a Unix socket. Until close it keeps the first descriptor that
// comes with the bytes. One goroutine at a time uses it.
type rightsReader struct {
	conn   *os.File
	file   *os.File
	closed bool
}

func (r *rightsReader) Read(p []byte) (int, error) {
	if r.closed {
		return r.conn.Read(p) // the kernel closes what comes with the bytes
	}
	var oob [64]byte
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	n, oobn, failed := 0, 0, error(nil)
	err = raw.Read(func(fd uintptr) (done bool) {
		for failed = syscall.EINTR; failed == syscall.EINTR; { // the wait is for new bytes, not for those that are there
			n, oobn, _, _, failed = syscall.Recvmsg(int(fd), p, oob[:], syscall.MSG_CMSG_CLOEXEC)
		}
		return failed != syscall.EAGAIN
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	r.keep(oob[:oobn])
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// keep takes the descriptors of control messages.
func (r *rightsReader) keep(oob []byte) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if f := os.NewFile(uintptr(fd), "board"); r.file == nil {
				r.file = f
			} else {
				f.Close()
			}
		}
	}
}

// takeBoard maps the descriptor that came as a board of a version. It returns nil if
// there is none or it is no such board: the ranks then talk over TCP.
func (r *rightsReader) takeBoard(version int) *board.Board {
	if r.file == nil || version != contract.BoardVersion {
		return nil
	}
	f := r.file
	r.file = nil
	b, err := board.Map(f)
	if err != nil {
		return nil
	}
	return b
}

// close closes a descriptor that was not taken, and lets the kernel close later ones.
func (r *rightsReader) close() {
	r.closed = true
	if r.file != nil {
		r.file.Close()
	}
}
