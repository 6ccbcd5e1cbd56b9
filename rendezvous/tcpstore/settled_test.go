package tcpstore

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pipes serves a store over pipes, in the time of a synctest bubble.
type pipes struct {
	t *testing.T
	s *Server
}

func (p pipes) open() *client {
	ours, theirs := net.Pipe()
	go func() { _ = p.s.ServeConn(p.t.Context(), theirs) }()
	return &client{p.t, ours}
}

// connect makes a process that has sent a request.
func (p pipes) connect(pid uint32) *client {
	c := p.open()
	c.send([]byte{0x00, 0xCE, 0xF7, 0x85, 0x3C})
	c.call(frame(byte(cmdPing), pid), encode(pid))
	return c
}

// settled asks the store as Settled does.
func (p pipes) settled() bool {
	c := p.open()
	defer c.Close()
	c.send(settledRequest())
	reply := make([]byte, 1)
	if _, err := io.ReadFull(c, reply); err != nil {
		p.t.Fatal(err)
	}
	return bytes.Equal(reply, []byte{checkReady})
}

func TestWorkersSettleAfterAMinuteOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{t, New(Options{})}
		is := func(want bool, when string) {
			t.Helper()
			if p.settled() != want {
				t.Errorf("%s: settled is %v", when, !want)
			}
		}
		pass := func(d time.Duration) { time.Sleep(d) } // of the bubble
		pass(time.Hour)
		is(false, "no worker is expected")
		p.s.Expect(3)
		is(false, "no worker has sent a request")
		complete := func(want bool, when string) {
			t.Helper()
			if p.s.Complete() != want {
				t.Errorf("%s: complete is %v", when, !want)
			}
		}
		a, a2 := p.connect(1), p.connect(1) // torch's watchdog has a connection of its own
		defer a2.Close()
		complete(false, "one of three has sent a request")
		b := p.connect(2)
		pass(time.Hour)
		is(false, "two of three have sent a request")
		c := p.connect(3)
		defer c.Close()
		pass(settleTime - time.Second)
		is(false, "the last has just sent its first request")
		a.call(frame(byte(cmdAdd), "n", 1), encode(1))
		pass(settleTime - time.Second)
		is(false, "a worker has just written")
		b.send(frame(byte(cmdWait), 1, "id"))
		pass(time.Hour)
		is(false, "a worker waits")
		a.send(frame(byte(cmdSet), "id", "x"))
		b.expect([]byte{waitStop})
		b.Close() // Go workers leave once they have exchanged addresses
		complete(true, "all sent requests, one has disconnected")
		for range 70 {
			a.call(frame(byte(cmdCheck), 1, "dump"), []byte{checkNotReady})
			pass(time.Second)
		}
		is(true, "after a minute of reading only")
		if st := p.s.Stats(); st.Keys != 2 {
			t.Errorf("the workers see %d keys", st.Keys)
		}
		a.Close()
	})
}

// TestRequestsBeforeExpectCount checks workers that send all their requests before
// Expect sets their number.
func TestRequestsBeforeExpectCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{t, New(Options{})}
		for pid := range uint32(3) {
			defer p.connect(pid + 1).Close()
		}
		p.s.Expect(3)
		if !p.s.Complete() {
			t.Error("early workers are not counted")
		}
		time.Sleep(settleTime) // of the bubble
		if !p.settled() {
			t.Error("the workers have not settled")
		}
	})
}

// TestSettledIsNoWorkersRequest checks that a call of Settled does not count as a
// worker, and that it ends with its context.
func TestSettledIsNoWorkersRequest(t *testing.T) {
	s, addr := start(t, Options{})
	s.Expect(1)
	for range 3 {
		if ok, err := Settled(t.Context(), addr); ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	if st := s.Stats(); st.Requests != 0 || st.Rejected != 0 {
		t.Errorf("%+v", st)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // no server answers there
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Settled(ctx, l.Addr().String()); err == nil {
		t.Error("no error without a server")
	}
}
