package gossip

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Bounds of what comes from the network, far above what an agent sends: its
// packets have 1,400 bytes, a member's state has about 300.
const (
	maxPacket = 2 << 10 // bytes
	maxState  = 1 << 10 // bytes of one member's state
	maxSmall  = 4 << 10 // bytes of any other message of a stream
	// maxStreams is how many bytes of messages of all streams are kept at a time,
	// beyond one message of full length.
	maxStreams = 32 << 20
	// maxRelays is how many members an agent asks for others within relayTime, in
	// memberlist's indirect pings. Each takes a goroutine for half a second.
	maxRelays = 256
	relayTime = 500 * time.Millisecond
)

// Message types of memberlist (net.go).
const (
	pingMsg         = 0
	indirectPingMsg = 1
	ackRespMsg      = 2
	suspectMsg      = 3
	aliveMsg        = 4
	deadMsg         = 5
	pushPullMsg     = 6
	compoundMsg     = 7
	compressMsg     = 9 // agents do not send it
	encryptMsg      = 10
	nackRespMsg     = 11
	hasCrcMsg       = 12
	errMsg          = 13
)

// errCompressed is the error of a message from another program that speaks memberlist's
// protocol. Agents do not compress.
var errCompressed = errors.New("it sends compressed messages")

var errBounds = errors.New("the message is larger than agents send")

// filter checks messages before they reach memberlist. memberlist believes lengths and
// counts, and decompresses every message: a packet of 60 KB may become 40 MB. The
// filter passes bounded messages of the types that agents send. It passes every
// encrypted message of bounded size, because memberlist drops the message if its
// sender does not have the key.
type filter struct {
	encrypts  bool // this agent has a key
	maxStates int  // members' states in one message

	buffered atomic.Int64 // bytes of all streams

	// These fields belong to the goroutine that reads packets.
	relays     int       // indirect pings since relaysFrom
	relaysFrom time.Time // when the present relayTime began
}

// checkPacket says why a packet must not reach memberlist.
func (f *filter) checkPacket(b []byte) error {
	if len(b) > maxPacket {
		return errBounds
	}
	if f.encrypts {
		return nil
	}
	if len(b) >= 5 && b[0] == hasCrcMsg {
		b = b[5:]
	}
	if len(b) == 0 || b[0] != compoundMsg {
		return f.checkMessage(b)
	}
	if len(b) < 2 || len(b) < 2+2*int(b[1]) {
		return io.ErrUnexpectedEOF
	}
	lengths, parts := b[2:2+2*int(b[1])], b[2+2*int(b[1]):]
	for ; len(lengths) > 0; lengths = lengths[2:] {
		n := int(binary.BigEndian.Uint16(lengths))
		if n > len(parts) {
			return io.ErrUnexpectedEOF
		}
		if err := f.checkMessage(parts[:n]); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// checkMessage says why one message of a packet must not reach memberlist.
func (f *filter) checkMessage(b []byte) error {
	if len(b) == 0 {
		return io.ErrUnexpectedEOF
	}
	switch b[0] {
	case indirectPingMsg:
		if now := time.Now(); now.Sub(f.relaysFrom) >= relayTime {
			f.relays, f.relaysFrom = 0, now
		}
		if f.relays++; f.relays > maxRelays {
			return errBounds
		}
	case pingMsg, ackRespMsg, suspectMsg, aliveMsg, deadMsg, nackRespMsg:
	default:
		return fmt.Errorf("agents send no message of type %d", b[0])
	}
	b = b[1:]
	if _, err := readFields((*packetInput)(&b)); err != nil {
		return err
	}
	if len(b) > 0 {
		return errBounds
	}
	return nil
}

// stream wraps a connection. memberlist reads one message from it that has passed the
// filter, and then the end.
func (f *filter) stream(c net.Conn) net.Conn { return &filteredConn{Conn: c, filter: f} }

// filteredConn is a connection whose first message passes the filter or is not read.
type filteredConn struct {
	net.Conn
	filter *filter

	checked bool // unread and err are set
	in      streamInput
	unread  []byte
	err     error // follows unread
}

// NetConn returns the wrapped connection.
func (c *filteredConn) NetConn() net.Conn { return c.Conn }

func (c *filteredConn) Read(p []byte) (int, error) {
	if !c.checked {
		c.checked = true
		c.in = streamInput{r: bufio.NewReader(c.Conn), filter: c.filter}
		c.unread, c.err = c.in.read()
	}
	if len(c.unread) == 0 {
		return 0, c.err
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *filteredConn) Close() error {
	err := c.Conn.Close()
	c.filter.buffered.Add(-c.in.charged.Swap(0))
	return err
}

// streamInput reads a message and keeps it.
type streamInput struct {
	r       *bufio.Reader
	filter  *filter
	kept    []byte
	limit   int          // bytes that kept may have
	charged atomic.Int64 // bytes of kept that filter.buffered counts
}

// read returns the message and io.EOF, or no message and why it must not reach
// memberlist.
func (in *streamInput) read() ([]byte, error) {
	f := in.filter
	in.limit = maxSmall
	head, err := in.next(1)
	if err != nil {
		return nil, err
	}
	kind := head[0]
	switch {
	case f.encrypts != (kind == encryptMsg):
		if err = in.checkOtherKey(kind); err == nil {
			in.kept = in.kept[:1] // enough for memberlist to report the mismatch to both sides
		}
	case f.encrypts:
		err = in.encrypted()
	case kind == pushPullMsg:
		err = in.pushPull()
	case kind == compressMsg:
		err = errCompressed
	case kind == pingMsg, kind == ackRespMsg, kind == errMsg:
		_, err = readFields(in)
	default:
		err = fmt.Errorf("agents send no message of type %d", kind)
	}
	if err != nil {
		return nil, err
	}
	return in.kept, io.EOF
}

// pushPull reads the states of members that the other side knows.
func (in *streamInput) pushPull() error {
	head, err := readFields(in)
	if err != nil {
		return err
	}
	n := head["Nodes"]
	if n < 0 || n > int64(in.filter.maxStates) || head["UserStateLen"] != 0 {
		return fmt.Errorf("the message lists %d nodes and has %d more bytes; at most %d nodes are accepted", n, head["UserStateLen"], in.filter.maxStates)
	}
	for range n {
		in.limit = len(in.kept) + maxState
		if _, err := readFields(in); err != nil {
			return err
		}
	}
	return nil
}

// checkOtherKey says why a message does not come from an agent with another key, or
// with a key where this agent has none, or the other way round. A program that merely
// connects must not be taken for such an agent.
func (in *streamInput) checkOtherKey(kind byte) error {
	switch kind {
	case pushPullMsg, pingMsg, ackRespMsg, errMsg:
		_, err := readFields(in)
		return err
	case encryptMsg:
		b, err := in.next(5)
		if err == nil && (int64(binary.BigEndian.Uint32(b)) > in.filter.maxMessage() || b[4] > 1) { // memberlist's versions of encryption
			err = errBounds
		}
		return err
	}
	return fmt.Errorf("agents send no message of type %d", kind)
}

// encrypted reads a message that memberlist decrypts.
func (in *streamInput) encrypted() error {
	size, err := in.next(4)
	if err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(size))
	if n > in.filter.maxMessage() {
		return errBounds
	}
	in.limit += int(n)
	for n > 0 { // allocates only what has arrived
		step := min(n, maxSmall)
		if _, err := in.next(int(step)); err != nil {
			return err
		}
		n -= step
	}
	return nil
}

// maxMessage returns how many bytes a message of a stream may have.
func (f *filter) maxMessage() int64 { return maxSmall + int64(f.maxStates)*maxState }

// next reads n bytes more and keeps them.
func (in *streamInput) next(n int) ([]byte, error) {
	f, at := in.filter, len(in.kept)
	if at+n > in.limit {
		return nil, errBounds
	}
	in.charged.Add(int64(n))
	if f.buffered.Add(int64(n)) > maxStreams+f.maxMessage() {
		return nil, errBounds
	}
	in.kept = append(in.kept, make([]byte, n)...)
	_, err := io.ReadFull(in.r, in.kept[at:])
	return in.kept[at:], err
}

// packetInput is what is left of a packet.
type packetInput []byte

func (in *packetInput) next(n int) ([]byte, error) {
	if n > len(*in) {
		return nil, io.ErrUnexpectedEOF
	}
	b := (*in)[:n]
	*in = (*in)[n:]
	return b, nil
}
