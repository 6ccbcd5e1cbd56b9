package worker

import (
	"net"
	"os"
	"syscall"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
)

// rightsReader reads from a Unix socket. Until close it keeps the first descriptor that
// comes with the bytes. One goroutine at a time uses it.
type rightsReader struct {
	conn   *net.UnixConn
	file   *os.File
	closed bool
}

func (r *rightsReader) Read(p []byte) (int, error) {
	if r.closed {
		return r.conn.Read(p) // the kernel closes what comes with the bytes
	}
	var oob [64]byte
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, oob[:])
	r.keep(oob[:oobn])
	if n == 0 && err == nil && len(p) > 0 { // the end, for which ReadMsgUnix has no error
		return r.conn.Read(p)
	}
	return n, err
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
