package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	maxClients = 4096
	maxStored  = 64 << 20 // bytes of all keys and values, each with entryCost
	entryCost  = 128      // bytes that a key takes beside itself and its value
	keyCost    = 16       // bytes that a key of a request takes beside itself
	// maxUnderWay bounds the bytes of all requests and replies under way.
	maxUnderWay = 64 << 20
	// helloWait bounds the time to a connection's first request. A client makes it at once.
	helloWait = helloTime
	// requestTime bounds the rest of a request that has begun, and its reply.
	requestTime = 30 * time.Second
	busyPause   = 10 * time.Millisecond
)

// Server is a store for the ranks of a job whose launcher serves none. It speaks what
// Client speaks, in today's dialect. A request that is wrong or too much ends its
// connection.
type Server struct {
	ln net.Listener
	wg sync.WaitGroup

	mu       sync.Mutex
	values   map[string][]byte
	stored   int           // of maxStored
	underWay int           // of maxUnderWay
	changed  chan struct{} // closed by the next change
	conns    map[net.Conn]struct{}
	closed   bool
}

// Serve begins to serve a store on ln, until Close.
func Serve(ln net.Listener) *Server {
	s := &Server{ln: ln, values: map[string][]byte{}, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	s.wg.Go(s.accept)
	return s
}

// Close ends the server and its connections, and waits for its goroutines.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	err := s.ln.Close()
	s.wg.Wait()
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(busyPause) // for example: no file descriptor is free
			continue
		}
		if !s.admit(conn) {
			conn.Close()
			continue
		}
		s.wg.Go(func() {
			_ = s.session(conn) // the client sees that its connection ends
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			conn.Close()
		})
	}
}

func (s *Server) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxClients {
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

// session serves the requests of one connection.
func (s *Server) session(conn net.Conn) error {
	in := &reader{r: bufio.NewReader(conn), s: s}
	defer in.release()
	_ = conn.SetReadDeadline(time.Now().Add(helloWait))
	for validated := false; ; validated = true {
		if validated {
			_ = conn.SetReadDeadline(time.Time{}) // a client may be silent between requests
		}
		cmd, err := in.r.ReadByte()
		if err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(requestTime))
		if validated == (cmd == cmdValidate) {
			return errors.New("VALIDATE comes first, and once")
		}
		reply, wait, err := s.handle(cmd, in)
		if err == nil {
			err = in.reserve(len(reply))
		}
		if err != nil {
			return err
		}
		if wait != nil && !s.await(conn, in, wait) {
			return errServerClosed
		}
		_ = conn.SetWriteDeadline(time.Now().Add(requestTime))
		if _, err := conn.Write(reply); err != nil {
			return err
		}
		in.release()
	}
}

// handle reads the rest of a request and carries it out. The reply of a wait is due when
// all keys in wait exist.
func (s *Server) handle(cmd byte, in *reader) (reply []byte, wait []string, err error) {
	switch cmd {
	case cmdValidate:
		if in.u32() != magic && in.err == nil {
			return nil, nil, errors.New("the client speaks another protocol")
		}
	case cmdPing:
		reply = binary.LittleEndian.AppendUint32(nil, in.u32())
	case cmdCheck, cmdWait:
		keys := in.keys()
		if cmd == cmdWait {
			return []byte{0}, keys, in.err
		}
		reply = []byte{1}
		if ok, _ := s.has(keys); ok {
			reply[0] = 0
		}
	case cmdSet, cmdAppend:
		key, value := in.key(), in.bytes()
		if in.err == nil {
			_, in.err = s.update(key, func(old []byte) []byte {
				if cmd == cmdAppend {
					return append(bytes.Clone(old), value...)
				}
				return value
			})
		}
	case cmdCompareSet:
		key, expected, desired := in.key(), in.bytes(), in.bytes()
		if in.err == nil {
			reply, in.err = s.compareSet(key, expected, desired)
		}
	case cmdGet:
		key := in.key()
		s.mu.Lock()
		reply = valueReply(s.values[key])
		s.mu.Unlock()
	case cmdAdd:
		key, n := in.key(), int64(in.u64())
		if in.err == nil {
			var sum int64
			_, in.err = s.update(key, func(old []byte) []byte {
				was, _ := strconv.ParseInt(string(old), 10, 64)
				sum = was + n
				return strconv.AppendInt(nil, sum, 10)
			})
			reply = binary.LittleEndian.AppendUint64(nil, uint64(sum))
		}
	case cmdDelete:
		reply = binary.LittleEndian.AppendUint64(nil, s.remove(in.key()))
	case cmdNumKeys:
		s.mu.Lock()
		reply = binary.LittleEndian.AppendUint64(nil, uint64(len(s.values)))
		s.mu.Unlock()
	default:
		return nil, nil, fmt.Errorf("unknown command %d", cmd)
	}
	return reply, nil, in.err
}

// valueReply returns a value as a reply: its length and its bytes.
func valueReply(value []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(value))), value...)
}

// update replaces the value of a key and wakes those who wait.
func (s *Server) update(key string, to func(old []byte) []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(key, to(s.values[key]))
}

// put stores a value. The lock is held.
func (s *Server) put(key string, value []byte) ([]byte, error) {
	old, exists := s.values[key]
	more := len(value) - len(old)
	if !exists {
		more += len(key) + entryCost
	}
	if len(value) > MaxValue || s.stored+more > maxStored {
		return nil, errors.New("the store is full")
	}
	s.stored += more
	s.values[key] = value
	close(s.changed)
	s.changed = make(chan struct{})
	return value, nil
}

// compareSet is described at Client.CompareSet.
func (s *Server) compareSet(key string, expected, desired []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.values[key]
	switch {
	case !exists && len(expected) > 0:
		return valueReply(expected), nil
	case exists && !bytes.Equal(old, expected):
		return valueReply(old), nil
	}
	value, err := s.put(key, desired)
	return valueReply(value), err
}

// remove deletes a key and returns the number of keys that it deleted.
func (s *Server) remove(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.values[key]
	if !exists {
		return 0
	}
	s.stored -= len(key) + len(old) + entryCost
	delete(s.values, key)
	return 1
}

// has reports whether all keys exist; else it returns what the next change closes.
func (s *Server) has(keys []string) (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if _, exists := s.values[key]; !exists {
			return false, s.changed
		}
	}
	return true, nil
}

// await waits until all keys exist, or until the client has gone. A client that waits
// sends nothing.
func (s *Server) await(conn net.Conn, in *reader, keys []string) bool {
	ok, changed := s.has(keys)
	if ok {
		return true
	}
	_ = conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	s.wg.Go(func() {
		_, _ = in.r.Peek(1) // ends with the deadline below, the connection, or a client that breaks the rule
		close(gone)
	})
	for !ok {
		select {
		case <-changed:
			ok, changed = s.has(keys)
		case <-gone:
			return false
		}
	}
	_ = conn.SetReadDeadline(time.Now())
	<-gone
	return true
}

// reader reads the fields of requests. After its first error it reads nothing.
type reader struct {
	r        *bufio.Reader
	s        *Server
	reserved int // bytes of the request and its reply, of maxUnderWay
	err      error
}

// reserve reserves n bytes for the request that is read, or its reply.
func (in *reader) reserve(n int) error {
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	if in.s.underWay+n > maxUnderWay {
		return errors.New("the store has too many long requests under way")
	}
	in.s.underWay += n
	in.reserved += n
	return nil
}

// release ends what was reserved.
func (in *reader) release() {
	if in.reserved == 0 {
		return
	}
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	in.s.underWay -= in.reserved
	in.reserved = 0
}

func (in *reader) u32() (v uint32) {
	if in.err == nil {
		v, in.err = readU32(in.r)
	}
	return v
}

func (in *reader) u64() uint64 {
	if in.err != nil {
		return 0
	}
	v, err := readI64(in.r)
	in.err = err
	return uint64(v)
}

func (in *reader) bytes() (v []byte) {
	if in.err == nil {
		v, in.err = readBytes(in.r, in.reserve)
	}
	return v
}

func (in *reader) key() string {
	key := in.bytes()
	if len(key) > MaxKey && in.err == nil {
		in.err = fmt.Errorf("a key of %d bytes is too long", len(key))
	}
	return string(key)
}

func (in *reader) keys() (keys []string) {
	n, size := in.u64(), 0
	if n > MaxKeys && in.err == nil {
		in.err = fmt.Errorf("%d keys are too many", n)
	}
	for range n {
		if in.err == nil && size > MaxValue {
			in.err = fmt.Errorf("keys of %d bytes are too much", size)
		}
		if in.err != nil {
			return nil
		}
		if in.err = in.reserve(keyCost); in.err != nil {
			return nil
		}
		keys = append(keys, in.key())
		size += len(keys[len(keys)-1])
	}
	return keys
}
