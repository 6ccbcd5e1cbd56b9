package tcpstore

import (
	"slices"
	"testing"
)

func TestEveryWriteEndsAWait(t *testing.T) {
	f := func(c command, fields ...any) []byte { return frame(byte(c), fields...) }
	for name, req := range map[string][]byte{
		"SET":         f(cmdSet, "k", "v"),
		"ADD":         f(cmdAdd, "k", 1),
		"APPEND":      f(cmdAppend, "k", "v"),
		"COMPARE_SET": f(cmdCompareSet, "k", "", "v"),
		"MULTI_SET":   f(cmdMultiSet, 2, "j", "v", "k", "v"),
		"QUEUE_PUSH":  f(cmdQueuePush, "k", "v"),
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := start(t, Options{})
			modern, legacy, other := dialModern(t, addr), dial(t, addr), dialModern(t, addr)
			waiters := []*client{modern, legacy}
			modern.send(f(cmdWait, 1, "k"))
			if name == "QUEUE_PUSH" { // ends one wait only
				waiters = waiters[:1]
			} else {
				legacy.send(frame(5, 1, "k"))
			}
			awaitWaiting(t, s, len(waiters))
			other.send(req)
			for _, w := range waiters {
				w.expect([]byte{waitStop})
			}
			awaitWaiting(t, s, 0)
			modern.call(f(cmdCheck, 1, "k"), []byte{checkReady}) // and no other byte
		})
	}
}

func TestWaitForSeveral(t *testing.T) {
	s, addr := start(t, Options{})
	w, c := dialModern(t, addr), dialModern(t, addr)
	c.call(append(frame(1, "b", ""), frame(7)...), encode(1))
	w.send(frame(6, 4, "a", "b", "c", "a"))
	awaitWaiting(t, s, 1)
	c.call(append(frame(1, "a", "1"), frame(8, "a")...), encode(1)) // set once is enough
	if st := s.Stats(); st.Waiting != 1 {
		t.Fatalf("released before the last key: %+v", st)
	}
	// A comparison that fails sets nothing and ends no wait.
	c.call(frame(2, "c", "x", "y"), encode("x"))
	cl := s.Clients()
	slices.SortFunc(cl, func(a, b Client) int { return b.WaitingFor - a.WaitingFor })
	if cl[0].WaitingFor != 1 || !slices.Equal(cl[0].Waiting, []string{"c"}) {
		t.Fatalf("clients: %+v", cl)
	}
	c.call(frame(4, "c", 1), encode(1))
	w.expect([]byte{waitStop})
}

func TestCancelWait(t *testing.T) {
	s, addr := start(t, Options{})
	w, c := dialModern(t, addr), dialModern(t, addr)

	w.send(frame(6, 1, "k"))
	awaitWaiting(t, s, 1)
	w.call(frame(12), []byte{waitCanceled})
	c.call(frame(4, "k", 1), encode(1))
	w.call(frame(7), encode(1)) // no late answer to the wait

	// The answer and the cancellation may cross; the client reads both.
	w.send(frame(6, 1, "l"))
	awaitWaiting(t, s, 1)
	c.call(frame(4, "l", 1), encode(1))
	w.call(frame(12), []byte{waitStop, waitCanceled})
}

// TestLegacyWaitThatTimedOut checks that a wait which timed out gets no late
// answer. torch 1.13 sends nothing when its wait times out, and would read the
// answer as one to another request.
func TestLegacyWaitThatTimedOut(t *testing.T) {
	s, addr := start(t, Options{})
	w, c := dial(t, addr), dial(t, addr)
	w.send(frame(5, 1, "k"))
	awaitWaiting(t, s, 1)
	w.call(frame(6), encode(0))
	awaitWaiting(t, s, 0)
	c.call(frame(3, "k", 1), encode(1))
	w.call(frame(2, "k"), encode("1"))
}

func TestQueueWakesTheOldestWaiter(t *testing.T) {
	s, addr := start(t, Options{})
	var w [3]*client
	for i := range w {
		w[i] = dialModern(t, addr)
		w[i].send(frame(6, 1, "q"))
		awaitWaiting(t, s, i+1)
	}
	c := dialModern(t, addr)
	for i := range w {
		c.send(frame(14, "q", "v"))
		w[i].expect([]byte{waitStop})
		if n := s.Stats().Waiting; n != len(w)-1-i {
			t.Fatalf("%d still wait after %d values", n, i+1)
		}
		w[i].call(frame(15, "q"), encode(1, "v"))
	}
}

func TestWaiterThatDisconnectsIsForgotten(t *testing.T) {
	s, addr := start(t, Options{})
	w, c := dialModern(t, addr), dialModern(t, addr)
	w.send(frame(6, 2, "k", "l"))
	c.send(frame(6, 1, "k"))
	awaitWaiting(t, s, 2)
	w.Close()
	awaitWaiting(t, s, 1)
	o := dialModern(t, addr)
	o.call(frame(4, "k", 1), encode(1))
	c.expect([]byte{waitStop})
	o.call(frame(8, "k"), encode(1))
	until(t, "all bytes to be released", func() bool { return s.Stats().Bytes == 0 })
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if n := len(s.store.waits); n != 0 {
		t.Errorf("%d lists of waiters are left", n)
	}
}

// TestReleaseWithinAFrame checks that a message which interrupts the reading of
// a frame leaves the frame intact.
func TestReleaseWithinAFrame(t *testing.T) {
	s, addr := start(t, Options{})
	w, c := dialModern(t, addr), dialModern(t, addr)
	for range 50 {
		w.send(frame(6, 1, "k"))
		awaitWaiting(t, s, 1)
		get := frame(3, "k")
		w.send(get[:5])
		c.send(frame(1, "k", "v"))
		awaitWaiting(t, s, 0)
		w.send(get[5:])
		w.expect(append([]byte{waitStop}, encode("v")...))
		c.call(frame(8, "k"), encode(1))
	}
}
