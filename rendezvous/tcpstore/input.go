package tcpstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// inputBuffer is the buffer, in bytes, that every idle connection keeps. Nearly
// all requests fit, and bufio reads longer values straight into their place.
const inputBuffer = 512

// firstChunk bounds what is allocated for a value before any of it arrives, in
// bytes.
const firstChunk = 64 << 10

// errSlow ends a connection whose frame is not complete in time.
var errSlow = errors.New("sent half a request and then nothing more")

// input reads the frames of one connection. Between frames it waits without a
// limit. Within a frame it waits no longer than timeout after the first pause.
type input struct {
	conn    net.Conn
	buf     *bufio.Reader
	budget  *budget
	timeout time.Duration

	inFrame bool
	until   time.Time // deadline of the present frame, once a read had to wait
	charged int64     // budget that the present frame holds
}

func (in *input) init(conn net.Conn, b *budget, timeout time.Duration) {
	in.conn, in.budget, in.timeout = conn, b, timeout
	in.buf = bufio.NewReaderSize(source{in}, inputBuffer)
}

// source is what the buffer reads from: the connection with a frame's deadline.
type source struct{ in *input }

func (s source) Read(p []byte) (int, error) {
	in := s.in
	if !in.inFrame {
		return in.conn.Read(p)
	}
	if in.until.IsZero() {
		in.until = time.Now().Add(in.timeout)
	}
	for {
		if err := in.conn.SetReadDeadline(in.until); err != nil {
			return 0, err
		}
		n, err := in.conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		// Before the deadline this is only an interrupt (see session.wake). The
		// message can wait until the frame is complete.
		if !time.Now().Before(in.until) {
			return 0, errSlow
		}
	}
}

// start waits for a frame and returns its first byte. interrupted is true if
// there is no frame but a message to send.
func (in *input) start() (code byte, interrupted bool, err error) {
	code, err = in.buf.ReadByte()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, true, in.conn.SetReadDeadline(time.Time{})
	}
	in.inFrame = err == nil
	return code, false, err
}

// end ends a frame and releases its budget: its values have been stored or are
// garbage.
func (in *input) end() error {
	in.budget.release(in.charged)
	in.inFrame, in.charged = false, 0
	if in.until.IsZero() {
		return nil
	}
	in.until = time.Time{}
	return in.conn.SetReadDeadline(time.Time{})
}

func (in *input) charge(n int64) error {
	err := in.budget.charge(n)
	if err == nil {
		in.charged += n
	}
	return err
}

func (in *input) uint32() (uint32, error) {
	p, err := in.buf.Peek(4)
	if err != nil {
		return 0, err
	}
	v := binary.LittleEndian.Uint32(p)
	_, err = in.buf.Discard(4)
	return v, err
}

func (in *input) uint64() (uint64, error) {
	p, err := in.buf.Peek(8)
	if err != nil {
		return 0, err
	}
	v := binary.LittleEndian.Uint64(p)
	_, err = in.buf.Discard(8)
	return v, err
}

// length reads a length or a count and refuses one above limit.
func (in *input) length(limit int, what string) (int, error) {
	n, err := in.uint64()
	if err != nil {
		return 0, err
	}
	if n > uint64(limit) {
		return 0, fmt.Errorf("announced %d %s, at most %d are allowed", n, what, limit)
	}
	return int(n), nil
}

func (in *input) key() (string, error) {
	n, err := in.length(MaxKey, "bytes of a key")
	if err != nil {
		return "", err
	}
	if n > inputBuffer {
		p, err := in.bytes(n)
		return string(p), err
	}
	if err := in.charge(int64(n) + entryOverhead); err != nil {
		return "", err
	}
	p, err := in.buf.Peek(n)
	if err != nil {
		return "", err
	}
	key := string(p)
	_, err = in.buf.Discard(n)
	return key, err
}

func (in *input) value() ([]byte, error) {
	n, err := in.length(MaxValue, "bytes of a value")
	if err != nil {
		return nil, err
	}
	return in.bytes(n)
}

// bytes reads n bytes and allocates at most about twice what has arrived.
func (in *input) bytes(n int) ([]byte, error) {
	if err := in.charge(entryOverhead); err != nil {
		return nil, err
	}
	var p []byte
	for len(p) < n {
		have := len(p)
		step := min(n-have, max(have, firstChunk))
		if err := in.charge(int64(step)); err != nil {
			return nil, err
		}
		p = slices.Grow(p, step)[:have+step]
		if _, err := io.ReadFull(in.buf, p[have:]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (in *input) keys() ([]string, error) {
	n, err := in.length(MaxKeys, "keys")
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, min(n, 16))
	for range n {
		key, err := in.key()
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
