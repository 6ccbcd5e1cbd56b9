package cuda_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
	"github.com/gorun/gorun/worker/cuda/cudatest"
	"github.com/gorun/gorun/worker/cuda/internal/dl"
	"github.com/gorun/gorun/worker/store"
)

// fake is the stand-in of a test's ranks.
type fake struct {
	t    *testing.T
	path string
	lib  *dl.Library
}

func newFake(t *testing.T, defines ...string) *fake {
	t.Helper()
	path := cudatest.Build(t, defines...)
	lib, err := dl.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return &fake{t, path, lib}
}

// set sets an option of the stand-in until the test ends.
func (f *fake) set(name, value string) {
	set := func(value string) {
		n, v := append([]byte(name), 0), append([]byte(value), 0)
		f.lib.Find("fake_set").Call(address(n), address(v))
	}
	set(value)
	f.t.Cleanup(func() { set("") })
}

// settings returns the Settings of a rank with GPU number n of two.
func (f *fake) settings(n int) cuda.Settings {
	return cuda.Settings{CUDA: f.path, NCCL: f.path, LocalRank: n}
}

// record makes the stand-in write the names of calls, and returns how to read them.
func (f *fake) record() (read func() []string) {
	path := filepath.Join(f.t.TempDir(), "calls")
	f.set("FAKE_CUDA_LOG", path)
	return func() []string {
		text, _ := os.ReadFile(path) // none: no calls yet
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

const (
	gpu0 = "GPU-00000000-0000-0000-0000-000000000000"
	gpu1 = "GPU-11111111-1111-1111-1111-111111111111"
	gpu2 = "GPU-22222222-2222-2222-2222-222222222222"
)

// testTime bounds what a test waits for.
const testTime = 20 * time.Second

// rank is one rank of a test's world.
type rank struct {
	*worker.World
	comm *worker.Comm
	ctx  context.Context
}

// place says where the ranks of a test's world are.
type place struct {
	apart  bool   // on a node each
	socket string // of their agent; "": there is none
}

// world runs run as every rank of a world.
func world(t *testing.T, size int, at place, run func(r rank) error) []error {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := store.Serve(ln)
	t.Cleanup(func() { server.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	errs := make([]error, size)
	var wg sync.WaitGroup
	for i := range size {
		wg.Go(func() {
			s := worker.Settings{Rank: i, Size: size, LocalRank: i, LocalSize: size, Store: ln.Addr().String(), Token: "t", Socket: at.socket}
			if at.apart {
				s.LocalRank, s.LocalSize, s.Node = 0, 1, i
			}
			w, err := worker.Start(ctx, s)
			if err == nil {
				defer w.Close()
				var c *worker.Comm
				if c, err = w.Comm(ctx); err == nil {
					err = run(rank{w, c, ctx})
				}
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errs
}

// gpus runs run as every rank of a communicator of GPUs.
func gpus(t *testing.T, f *fake, size int, at place, run func(r rank, c *cuda.Comm) error) []error {
	t.Helper()
	f.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1+","+gpu2)
	return world(t, size, at, func(r rank) error {
		c, err := cuda.Start(f.settings(r.Rank())).Open(r.ctx, r.comm)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		err = run(r, c)
		if closed := c.Close(); err == nil && closed != nil {
			err = fmt.Errorf("close: %w", closed)
		}
		return err
	})
}

// openAgent opens an agent's socket for the workers of a node.
func openAgent(t *testing.T, ranks int) *socket.Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := socket.Open(ctx, socket.Options{Path: filepath.Join(t.TempDir(), "s"), Failed: func(socket.Report) {}})
	if err != nil {
		t.Fatal(err)
	}
	s.Begin(board.Round{Ranks: ranks})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	return s
}

// noErrors fails the test for every rank that has an error.
func noErrors(t *testing.T, errs []error) {
	t.Helper()
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
