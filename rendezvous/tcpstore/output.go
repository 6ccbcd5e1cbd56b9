package tcpstore

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	outputFlush = 32 << 10 // a reply is sent once this many bytes of it are ready
	outputChunk = 1 << 20  // the write deadline starts anew after this many bytes
	outputKeep  = 1 << 10  // the largest buffer that an idle connection keeps
)

// output writes the replies of one connection. It keeps the first error, and
// flush returns it.
type output struct {
	conn     net.Conn
	socket   syscall.RawConn // of conn; nil: it is no TCP connection
	timeout  time.Duration
	deadline bool // conn has a write deadline
	buf      []byte
	err      error
}

// socketOf returns the socket below a connection, nil if that is no TCP connection. The
// wrappers of connections that come here change nothing that is written.
func socketOf(c net.Conn) syscall.RawConn {
	for {
		if tcp, ok := c.(*net.TCPConn); ok {
			socket, err := tcp.SyscallConn()
			if err != nil {
				return nil
			}
			return socket
		}
		wrapped, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = wrapped.NetConn()
	}
}

func (o *output) byte(v byte) { o.buf = append(o.buf, v) }

func (o *output) uint32(v uint32) { o.buf = binary.LittleEndian.AppendUint32(o.buf, v) }

func (o *output) int64(v int64) { o.buf = binary.LittleEndian.AppendUint64(o.buf, uint64(v)) }

// bytes adds a length and its bytes. A long v is written without a copy.
func (o *output) bytes(v []byte) {
	o.int64(int64(len(v)))
	if len(v) <= outputFlush {
		o.buf = append(o.buf, v...)
		if len(o.buf) >= outputFlush {
			o.write(o.buf)
			o.buf = o.buf[:0]
		}
		return
	}
	o.write(o.buf)
	o.buf = o.buf[:0]
	o.write(v)
}

// raw adds bytes that are complete messages already.
func (o *output) raw(v []byte) { o.buf = append(o.buf, v...) }

func (o *output) write(p []byte) {
	for len(p) > 0 && o.err == nil {
		n := min(len(p), outputChunk)
		o.deadline = true
		if o.err = o.conn.SetWriteDeadline(time.Now().Add(o.timeout)); o.err == nil {
			_, o.err = o.conn.Write(p[:n])
		}
		if errors.Is(o.err, os.ErrDeadlineExceeded) {
			o.err = errNotReading
		}
		p = p[n:]
	}
}

// writeNow writes what the socket takes at once and returns the number of bytes. That is
// nearly always all of a reply, and costs no timer. A later write finds an error again.
func (o *output) writeNow(p []byte) (n int) {
	if o.socket == nil {
		return 0
	}
	_ = o.socket.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), p)
		return true
	})
	return max(n, 0)
}

// flush sends the rest of a reply and leaves no timer behind.
func (o *output) flush() error {
	if len(o.buf) == 0 || o.err != nil {
		return o.err
	}
	o.write(o.buf[o.writeNow(o.buf):])
	o.buf = o.buf[:0]
	if cap(o.buf) > outputKeep {
		o.buf = nil
	}
	if o.err == nil && o.deadline {
		o.deadline = false
		o.err = o.conn.SetWriteDeadline(time.Time{})
	}
	return o.err
}
