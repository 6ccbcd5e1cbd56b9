package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// settledKey is not an entry of the store. A CHECK of it alone asks whether the
// workers have settled.
const settledKey = "gorun/settled"

// settleTime is how long the store must be silent before the workers count as
// settled. What follows the exchange of addresses, as in NCCL's set-up, does
// not use the store.
const settleTime = time.Minute

// process is a client that has spoken to the store. Its pid identifies it or,
// if it does not send that, its connection.
type process struct {
	from netip.AddrPort
	pid  int
}

// Expect sets the number of workers. Without it they never settle.
func (s *Server) Expect(workers int) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.expected = workers
}

// maxEarly bounds the processes that are kept before Expect sets their number.
const maxEarly = 1 << 16

// arrive notes that a client has spoken. It keeps at most as many processes as
// are expected. The first processes may arrive before Expect is called, and
// never speak again.
func (s *store) arrive(c *conn) {
	most := s.expected
	if most == 0 {
		most = maxEarly
	}
	if c.arrived || len(s.came) >= most {
		return
	}
	c.arrived = true
	p := process{c.remote, c.pid}
	if c.pid != 0 {
		p.from = netip.AddrPortFrom(c.remote.Addr(), 0)
	}
	if !s.came[p] {
		s.came[p] = true
		s.changed = time.Now()
	}
}

// complete reports whether as many processes as there are workers have spoken to
// the store, whether or not they are still connected.
func (s *store) complete() bool { return s.expected > 0 && len(s.came) >= s.expected }

// Complete reports whether all workers that are expected have spoken to the
// store, whether or not they are still connected.
func (s *Server) Complete() bool {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.complete()
}

// settled reports whether the workers have exchanged their addresses: all have
// spoken, none waits for a key, and nothing has been written for settleTime.
// Reads do not count, because torch's watchdogs read a key every second while
// they live.
func (s *store) settled() bool {
	return s.complete() && s.waiting == 0 && time.Since(s.changed) >= settleTime
}

// Settled asks the store at addr (host:port) whether all workers that it
// expects have settled: they have spoken, and the store has been silent for a
// minute. The question does not count as arriving.
func Settled(ctx context.Context, addr string) (bool, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, fmt.Errorf("cannot reach the store at %s: %w", addr, err)
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	reply := make([]byte, 1)
	if _, err = nc.Write(askSettled()); err == nil {
		_, err = io.ReadFull(nc, reply)
	}
	if err != nil {
		return false, fmt.Errorf("cannot ask the store at %s: %w", addr, err)
	}
	return reply[0] == checkReady, nil
}

// askSettled returns the bytes that open a connection and ask whether the
// workers have settled.
func askSettled() []byte {
	var b bytes.Buffer
	b.WriteByte(byte(cmdValidate))
	_ = binary.Write(&b, binary.LittleEndian, uint32(validateMagic))
	b.WriteByte(byte(cmdCheck))
	_ = binary.Write(&b, binary.LittleEndian, []uint64{1, uint64(len(settledKey))})
	b.WriteString(settledKey)
	return b.Bytes()
}
