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

// Message types of memberlist (net.go) that agents send, and those that wrap one.
const (
	pingMsg         = 0
	indirectPingMsg = 1
	ackRespMsg      = 2
	suspectMsg      = 3
	aliveMsg        = 4
	deadMsg         = 5
	pushPullMsg     = 6
	compoundMsg     = 7
	encryptMsg      = 10
	nackRespMsg     = 11
	hasCrcMsg       = 12
	compressMsg     = 9
	errMsg          = 13
)

// errNotGorun marks another program that speaks memberlist's protocol.
var errNotGorun = errors.New("it compresses what it says")

var errBounds = errors.New("an agent does not send that much")

// filter looks at what others send before memberlist does. memberlist believes
// lengths and counts, and decompresses without asking: a packet of 60 KB may become
// 40 MB. What passes is of a kind that agents send (they compress nothing), and
// bounded. What is encrypted passes when its size is bounded, because memberlist
// obeys it only if its sender has the key.
type filter struct {
	sealed bool // this agent encrypts
	states int  // of members, in one message

	kept atomic.Int64 // bytes of streams

	// The fields for packets, which one goroutine reads.
	relays  int
	relayed time.Time
}

// packet says why a packet must not reach memberlist.
func (f *filter) packet(b []byte) error {
	if len(b) > maxPacket {
		return errBounds
	}
	if f.sealed {
		return nil
	}
	if len(b) >= 5 && b[0] == hasCrcMsg {
		b = b[5:]
	}
	if len(b) == 0 || b[0] != compoundMsg {
		return f.message(b)
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
		if err := f.message(parts[:n]); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// message says why one message of a packet must not reach memberlist.
func (f *filter) message(b []byte) error {
	if len(b) == 0 {
		return io.ErrUnexpectedEOF
	}
	switch b[0] {
	case indirectPingMsg:
		if now := time.Now(); now.Sub(f.relayed) >= relayTime {
			f.relays, f.relayed = 0, now
		}
		if f.relays++; f.relays > maxRelays {
			return errBounds
		}
	case pingMsg, ackRespMsg, suspectMsg, aliveMsg, deadMsg, nackRespMsg:
	default:
		return fmt.Errorf("agents send no message of type %d", b[0])
	}
	b = b[1:]
	if _, err := skim((*packetInput)(&b)); err != nil {
		return err
	}
	if len(b) > 0 {
		return errBounds
	}
	return nil
}

// stream makes a connection of which memberlist reads one message that has passed
// the filter, and then nothing more.
func (f *filter) stream(c net.Conn) net.Conn { return &filtered{Conn: c, filter: f} }

// filtered is a connection with the first message that came on it.
type filtered struct {
	net.Conn
	filter *filter

	looked bool
	in     streamInput
	unread []byte
	err    error // after unread
}

// NetConn is the connection below.
func (c *filtered) NetConn() net.Conn { return c.Conn }

func (c *filtered) Read(p []byte) (int, error) {
	if !c.looked {
		c.looked = true
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

func (c *filtered) Close() error {
	err := c.Conn.Close()
	c.filter.kept.Add(-c.in.charged.Swap(0))
	return err
}

// streamInput reads a message and keeps it.
type streamInput struct {
	r       *bufio.Reader
	filter  *filter
	kept    []byte
	limit   int
	charged atomic.Int64
}

// read returns the message and what follows it: the end of the stream, or why the
// message must not reach memberlist.
func (in *streamInput) read() ([]byte, error) {
	f := in.filter
	in.limit = maxSmall
	head, err := in.next(1)
	if err != nil {
		return nil, err
	}
	kind := head[0]
	switch {
	case f.sealed != (kind == encryptMsg):
		if err = in.otherKey(kind); err == nil {
			in.kept = in.kept[:1] // memberlist reports to both sides why it refuses that
		}
	case f.sealed:
		err = in.encrypted()
	case kind == pushPullMsg:
		err = in.pushPull()
	case kind == compressMsg:
		err = errNotGorun
	case kind == pingMsg, kind == ackRespMsg, kind == errMsg:
		_, err = skim(in)
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
	head, err := skim(in)
	if err != nil {
		return err
	}
	n := head["Nodes"]
	if n < 0 || n > int64(in.filter.states) || head["UserStateLen"] != 0 {
		return fmt.Errorf("it tells of %d nodes and of %d bytes more, at most %d nodes are believed", n, head["UserStateLen"], in.filter.states)
	}
	for range n {
		in.limit = len(in.kept) + maxState
		if _, err := skim(in); err != nil {
			return err
		}
	}
	return nil
}

// otherKey says why a message that begins like that of an agent with another key, or
// with none, does not come from one. A program that merely connects must not be taken
// for an agent.
func (in *streamInput) otherKey(kind byte) error {
	switch kind {
	case pushPullMsg, pingMsg, ackRespMsg, errMsg:
		_, err := skim(in)
		return err
	case encryptMsg:
		b, err := in.next(5)
		if err == nil && (int64(binary.BigEndian.Uint32(b)) > in.filter.largest() || b[4] > 1) { // memberlist's versions of encryption
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
	if n > in.filter.largest() {
		return errBounds
	}
	in.limit += int(n)
	for n > 0 { // what is announced is not allocated before it comes
		step := min(n, maxSmall)
		if _, err := in.next(int(step)); err != nil {
			return err
		}
		n -= step
	}
	return nil
}

// largest returns how many bytes a message of a stream may have.
func (f *filter) largest() int64 { return maxSmall + int64(f.states)*maxState }

// next reads n bytes more and keeps them.
func (in *streamInput) next(n int) ([]byte, error) {
	f, at := in.filter, len(in.kept)
	if at+n > in.limit {
		return nil, errBounds
	}
	in.charged.Add(int64(n))
	if f.kept.Add(int64(n)) > maxStreams+f.largest() {
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
