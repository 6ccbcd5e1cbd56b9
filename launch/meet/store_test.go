package meet

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func TestStore(t *testing.T) {
	var opened int
	s := &Store{addr: "127.0.0.1", open: func() (net.Listener, error) {
		if opened++; opened == 3 {
			return nil, errors.New("no port")
		}
		return net.Listen("tcp", "127.0.0.1:0")
	}}
	t.Cleanup(s.close)
	reach := func(at string) bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	renew := func() string {
		t.Helper()
		if err := s.renew(); err != nil {
			t.Fatal(err)
		}
		return s.Offer()
	}
	one := renew()
	if !reach(one) {
		t.Fatalf("the store does not answer at %q", one)
	}
	stuck, err := net.Dial("tcp", one) // a worker that keeps its connection
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if two := renew(); !reach(two) || two == one {
		t.Fatalf("%q after %q", two, one)
	}
	_ = stuck.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := stuck.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection to the old store: %v", err)
	}
	if reach(one) {
		t.Error("the old store still answers")
	}
	if err := s.renew(); err == nil {
		t.Error("no error without a port")
	}
	s.close()
	if err := s.renew(); err != nil || opened != 3 {
		t.Errorf("opened %d times, the last one after the end (%v)", opened, err)
	}
}

// TestUnusedStoreServesTheNextRound checks that a store that no worker has used also serves the next
// round.
func TestUnusedStoreServesTheNextRound(t *testing.T) {
	first := rendezvous.World{Store: "n0:29500", Restart: 0, MaxRestarts: 1}
	last := first
	last.Restart = 1
	tests := []struct {
		name    string
		world   rendezvous.World
		group   int
		elastic bool
		fresh   bool
	}{
		{"of the node that served it", first, 0, false, true},
		{"of another node", first, 1, false, false},
		{"after the last round", last, 0, false, false},
		{"after the last restart of an elastic job", last, 0, true, true},
		{"without a store", rendezvous.World{MaxRestarts: 1}, 0, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &Store{addr: "127.0.0.1", open: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }}
			defer s.close()
			if err := s.renew(); err != nil {
				t.Fatal(err)
			}
			before := s.Server()
			at, err := s.Next(&tt.world, tt.group, tt.elastic)
			if err != nil || at != s.Offer() || (s.Server() != before) != tt.fresh {
				t.Errorf("%q, %v; a fresh one: %v, want %v", at, err, s.Server() != before, tt.fresh)
			}
		})
	}
	none := &Store{}
	if at, err := none.Next(&first, 0, false); at != "" || err != nil {
		t.Errorf("without a store: %q, %v", at, err)
	}
}

func TestStoreBytes(t *testing.T) {
	for allowed, want := range map[int64]int64{-1: 1 << 30, 512 << 20: 128 << 20, 1 << 40: 1 << 30, 1: 1 << 20} {
		if got := storeBytes(allowed); got != want {
			t.Errorf("of %d: %d, want %d", allowed, got, want)
		}
	}
}
