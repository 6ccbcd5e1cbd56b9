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

// process is a client that has sent a request. Its pid identifies it or, if it
// does not send one, its connection.
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

// maxUnexpected bounds the processes that are kept before Expect sets their number.
const maxUnexpected = 1 << 16

// noteProcess notes that a client has sent a request. It keeps at most as many
// processes as are expected. The first processes may send all their requests
// before Expect is called.
func (s *store) noteProcess(c *conn) {
	most := s.expected
	if most == 0 {
		most = maxUnexpected
	}
	if c.counted || len(s.processes) >= most {
		return
	}
	c.counted = true
	p := process{c.remote, c.pid}
	if c.pid != 0 {
		p.from = netip.AddrPortFrom(c.remote.Addr(), 0)
	}
	if !s.processes[p] {
		s.processes[p] = true
		s.changed = time.Now()
	}
}

func (s *store) complete() bool { return s.expected > 0 && len(s.processes) >= s.expected }

// Complete reports whether as many processes as workers are expected have sent a
// request, whether or not they are still connected.
func (s *Server) Complete() bool {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.complete()
}

// settled reports whether the workers have exchanged their addresses: all have
// sent a request, none waits for a key, and nothing has been written for
// settleTime. Reads do not count, because torch's watchdogs read a key every
// second while they live.
func (s *store) settled() bool {
	return s.complete() && s.waiting == 0 && time.Since(s.changed) >= settleTime
}

// Settled asks the store at addr (host:port) whether all workers that it expects
// have settled: they have sent requests, and the store has been silent for a
// minute. The call itself does not count as a worker's request.
func Settled(ctx context.Context, addr string) (bool, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, fmt.Errorf("cannot reach the store at %s: %w", addr, err)
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	reply := make([]byte, 1)
	if _, err = nc.Write(settledRequest()); err == nil {
		_, err = io.ReadFull(nc, reply)
	}
	if err != nil {
		return false, fmt.Errorf("cannot ask the store at %s: %w", addr, err)
	}
	return reply[0] == checkReady, nil
}

// settledRequest returns the bytes that open a connection and ask whether the
// workers have settled.
func settledRequest() []byte {
	var b bytes.Buffer
	b.WriteByte(byte(cmdValidate))
	_ = binary.Write(&b, binary.LittleEndian, uint32(validateMagic))
	b.WriteByte(byte(cmdCheck))
	_ = binary.Write(&b, binary.LittleEndian, []uint64{1, uint64(len(settledKey))})
	b.WriteString(settledKey)
	return b.Bytes()
}
