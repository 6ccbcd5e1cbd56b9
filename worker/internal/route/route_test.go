package route

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/shm"
	"github.com/gorun/gorun/worker/tcp"
)

// addresses is a tcp.Directory in memory.
type addresses struct {
	mu    sync.Mutex
	known map[int]string
}

func (a *addresses) Publish(_ context.Context, rank int, addr string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[rank] = addr
	return nil
}

func (a *addresses) Lookup(ctx context.Context, rank int) (string, error) {
	for {
		a.mu.Lock()
		addr, ok := a.known[rank]
		a.mu.Unlock()
		if ok {
			return addr, nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// end is one rank's end of the way between two.
type end struct {
	routes *Routes
	group  *collective.Group
}

// join makes a rank of a node of two.
func join(t *testing.T, b *board.Board, a *addresses, rank int, await func(ctx context.Context, rank int) error) *end {
	t.Helper()
	node, err := shm.NewNode(b, rank)
	if err != nil {
		t.Fatal(err)
	}
	m := node.NewMessages()
	m.Open()
	b.Join(rank, rank, 1)
	mesh, err := tcp.Open(t.Context(), tcp.Config{Rank: rank, Size: 2, Token: "t", Listen: tcp.Listen{Addr: "127.0.0.1"}, Directory: a})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{Mesh: mesh, Size: 2, Board: b, Node: node, Messages: m, Await: await})
	r.Start()
	g := collective.New(collective.NewMessages(r.World(), rank, 2), rank, 2, collective.Options{})
	t.Cleanup(func() { g.Close() })
	return &end{r, g}
}

// TestUnknownWay sends a message to a rank that has not been found when the store fails. The
// other rank knows the way through memory. Both ends fail, and say why.
func TestUnknownWay(t *testing.T) {
	for _, size := range []int{1, 1 << 20} { // sent at once, and when the receiver is there
		b, err := board.Create(board.Options{Ranks: 2, Memory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		a := &addresses{known: map[int]string{}}
		asked, here := make(chan struct{}), make(chan struct{})
		sender := join(t, b, a, 0, func(context.Context, int) error {
			close(asked)
			<-here
			return errors.New("the store is gone")
		})
		sent := sender.group.Isend(collective.Of(make([]byte, size)), 1, 0)
		<-asked
		receiver := join(t, b, a, 1, a.found)
		received := receiver.group.Irecv(collective.Of(make([]byte, size)), 0, 0)
		if !receiver.routes.InMemory(0) {
			t.Fatal("the receiver does not use memory")
		}
		close(here)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for name, r := range map[string]*collective.Request{"sender": sent, "receiver": received} {
			if err := r.Wait(ctx); err == nil || !strings.Contains(err.Error(), "cannot find out where rank 1 is: the store is gone") {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
		}
	}
}

func (a *addresses) found(ctx context.Context, rank int) error {
	_, err := a.Lookup(ctx, rank)
	return err
}

// TestLateRank sends a message to a rank that joins later.
func TestLateRank(t *testing.T) {
	b, err := board.Create(board.Options{Ranks: 2, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	a := &addresses{known: map[int]string{}}
	sender := join(t, b, a, 0, a.found)
	sent := sender.group.Isend(collective.Of([]byte{7}), 1, 0)
	receiver := join(t, b, a, 1, a.found)
	got := []byte{0}
	if err := receiver.group.Recv(t.Context(), collective.Of(got), 0, 0); err != nil || got[0] != 7 {
		t.Errorf("got %d, %v", got[0], err)
	}
	if err := sent.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if !sender.routes.InMemory(1) || !receiver.routes.InMemory(0) {
		t.Error("the ranks of a node do not use memory")
	}
}
