// Package storetest is a small store for tests: the commands that workers use,
// kept in memory, on a loopback port. It is not fit for anything else: a client
// that waits for a key polls for it inside the server.
package storetest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Server holds the keys.
type Server struct {
	mu   sync.Mutex
	keys map[string][]byte
	done chan struct{}
}

// Start serves on 127.0.0.1 until the test ends and returns host:port.
func Start(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{keys: map[string][]byte{}, done: make(chan struct{})}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				s.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		close(s.done)
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

func (s *Server) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	u64 := func() uint64 {
		var b [8]byte
		io.ReadFull(r, b[:])
		return binary.LittleEndian.Uint64(b[:])
	}
	str := func() string {
		b := make([]byte, min(u64(), 1<<20))
		io.ReadFull(r, b)
		return string(b)
	}
	keys := func() []string {
		ks := make([]string, min(u64(), 1000))
		for i := range ks {
			ks[i] = str()
		}
		return ks
	}
	num := func(n int64) { conn.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	val := func(v []byte) {
		conn.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(v))), v...))
	}
	for {
		cmd, err := r.ReadByte()
		if err != nil {
			return
		}
		switch cmd {
		case 0:
			var b [4]byte
			if io.ReadFull(r, b[:]); binary.LittleEndian.Uint32(b[:]) != 0x3C85F7CE {
				return
			}
		case 13:
			var b [4]byte
			io.ReadFull(r, b[:])
			conn.Write(b[:])
		case 1:
			k, v := str(), str()
			s.update(k, func([]byte) []byte { return []byte(v) })
		case 2:
			k, expected, desired := str(), str(), str()
			s.mu.Lock()
			now, ok := s.keys[k]
			switch {
			case !ok && expected != "":
				now = []byte(expected)
			case string(now) == expected:
				now = []byte(desired)
				s.keys[k] = now
			}
			s.mu.Unlock()
			val(now)
		case 3:
			k := str()
			s.mu.Lock()
			v := s.keys[k]
			s.mu.Unlock()
			val(v)
		case 4:
			k, n := str(), int64(u64())
			v := s.update(k, func(old []byte) []byte {
				o, _ := strconv.ParseInt(string(old), 10, 64)
				return strconv.AppendInt(nil, o+n, 10)
			})
			sum, _ := strconv.ParseInt(string(v), 10, 64)
			num(sum)
		case 5:
			if s.all(keys()) {
				conn.Write([]byte{0})
			} else {
				conn.Write([]byte{1})
			}
		case 6:
			for ks := keys(); !s.all(ks); {
				select {
				case <-s.done:
					return
				case <-time.After(time.Millisecond):
				}
			}
			conn.Write([]byte{0})
		case 7:
			s.mu.Lock()
			n := len(s.keys)
			s.mu.Unlock()
			num(int64(n))
		case 8:
			k := str()
			s.mu.Lock()
			_, ok := s.keys[k]
			delete(s.keys, k)
			s.mu.Unlock()
			if ok {
				num(1)
			} else {
				num(0)
			}
		case 9:
			k, v := str(), str()
			s.update(k, func(old []byte) []byte { return append(old[:len(old):len(old)], v...) })
		default:
			return
		}
	}
}

func (s *Server) update(k string, f func(old []byte) []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[k] = f(s.keys[k])
	return s.keys[k]
}

func (s *Server) all(keys []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		if _, ok := s.keys[k]; !ok {
			return false
		}
	}
	return true
}
