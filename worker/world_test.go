package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// serveStore serves gorun's own store on a loopback port until the test ends.
func serveStore(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tcpstore.New(tcpstore.Options{}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// world starts one rank over the store at addr, without an agent unless socket
// is set. It has a token, so that no rank's Comm waits for another's.
func world(t testing.TB, rank, size int, addr, socket string) *World {
	t.Helper()
	return start(t, Settings{Rank: rank, Size: size, Store: addr, Socket: socket, Token: "t"})
}

func start(t testing.TB, s Settings) *World {
	t.Helper()
	w, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// ranks runs f as every rank of a world at once and fails the test if it hangs.
func ranks(t testing.TB, size int, f func(w *World, c *Comm) error) []error {
	t.Helper()
	addr := serveStore(t)
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		w := start(t, Settings{Rank: r, Size: size, Store: addr}) // the token comes from rank 0
		wg.Go(func() {
			c, err := w.Comm(t.Context())
			if err == nil {
				err = f(w, c)
			}
			errs[r] = err
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatal("a rank hangs")
	}
	return errs
}

func TestFromEnv(t *testing.T) {
	full := map[string]string{
		"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
		"MASTER_ADDR": "::1", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "2",
		"GORUN_WORKER_SOCKET": "/run/x", "GORUN_RUN_ID": "job", "GORUN_ROUND": "3",
		"GORUN_DEVICE": "GPU-1", "GORUN_NODE_ADDR": "127.0.0.2", "GORUN_WORLD_TOKEN": "t",
		"GORUN_WORKER_PORTS": "20000-20009", "GLOO_SOCKET_IFNAME": "eth7",
	}
	with := func(kv ...string) map[string]string {
		m := map[string]string{}
		for k, v := range full {
			m[k] = v
		}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	for _, tc := range []struct {
		name string
		env  map[string]string
		want Settings
		err  string // words of the error
	}{
		{name: "nothing", want: Settings{Size: 1, LocalSize: 1}},
		{name: "full", env: full, want: Settings{
			Rank: 5, Size: 8, LocalRank: 1, LocalSize: 4, Node: 1, RestartCount: 2, Round: 3,
			Store: "[::1]:29500", Listen: Listen{Addr: "127.0.0.2", Iface: "eth7", Ports: "20000-20009"}, Socket: "/run/x", Token: "t", RunID: "job", Device: "GPU-1",
		}},
		{name: "one of mpirun", env: map[string]string{"OMPI_COMM_WORLD_SIZE": "1"}, want: Settings{Size: 1, LocalSize: 1}},
		{name: "many of mpirun", env: map[string]string{
			"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "123",
		}, want: Settings{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Store: "127.0.0.1:25371", OwnStore: true}},
		{name: "mpirun on two hosts", env: map[string]string{
			"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
		}, err: "mpirun -N 1 gorun"},
		{name: "half of mpiexec", env: map[string]string{"PMI_SIZE": "4"}, err: `PMI_RANK is ""`},
		{name: "rank only", env: map[string]string{"RANK": "0"}, err: "WORLD_SIZE is not set"},
		{name: "size only", env: map[string]string{"WORLD_SIZE": "2"}, err: "RANK is not set"},
		{name: "no number", env: with("RANK", "one"), err: `RANK is "one"`},
		{name: "negative", env: with("LOCAL_RANK", "-1"), err: `LOCAL_RANK is "-1"`},
		{name: "too high", env: with("RANK", "8"), err: "rank 8 is not in a world of 8"},
		{name: "no world", env: with("WORLD_SIZE", "0"), err: `WORLD_SIZE is "0"`},
		{name: "bad ports", env: with("GORUN_WORKER_PORTS", "9-8"), err: `GORUN_WORKER_PORTS is "9-8"`},
		{name: "bad round", env: with("GORUN_ROUND", "x"), err: `GORUN_ROUND is "x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := FromEnv(func(k string) (string, bool) { v, ok := tc.env[k]; return v, ok })
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q in it", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tc.want)
			}
		})
	}
}

func TestWorldOfOne(t *testing.T) {
	ctx := t.Context()
	w, err := Start(ctx, Settings{Size: 1, LocalSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Comm(ctx)
	if err != nil {
		t.Fatal(err)
	}
	buf := []float32{1, 2}
	for name, err := range map[string]error{
		"all-reduce": AllReduce(ctx, c, buf, Sum),
		"broadcast":  Broadcast(ctx, c, buf, 0),
		"barrier":    Barrier(ctx, c),
		"circle":     SendRecv(ctx, c, []int64{1}, 0, make([]int64, 1), 0),
		"fail":       w.Fail(errors.New("no agent")),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if buf[0] != 1 || buf[1] != 2 {
		t.Errorf("buffer changed to %v", buf)
	}
	if err := Send(ctx, c, buf, 0); err == nil {
		t.Error("sent to itself")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := context.Cause(w.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("cause after Close: %v", err)
	}
	if _, err := w.Comm(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Comm after Close: %v", err)
	}
}

func TestCollectivesOverTheStore(t *testing.T) {
	for _, size := range []int{2, 3, 4} {
		errs := ranks(t, size, func(w *World, c *Comm) error {
			ctx := t.Context()
			sum := []int64{int64(w.Rank()), 1}
			if err := AllReduce(ctx, c, sum, Sum); err != nil {
				return err
			}
			if want := int64(size * (size - 1) / 2); sum[0] != want || sum[1] != int64(size) {
				return fmt.Errorf("sum %v", sum)
			}
			greatest := []float64{float64(w.Rank())}
			if err := AllReduce(ctx, c, greatest, Max); err != nil {
				return err
			}
			if greatest[0] != float64(size-1) {
				return fmt.Errorf("max %v", greatest)
			}
			word := []float32{float32(w.Rank())}
			if err := Broadcast(ctx, c, word, 1); err != nil {
				return err
			}
			if word[0] != 1 {
				return fmt.Errorf("broadcast %v", word)
			}
			if w.Rank() == 0 {
				if err := Send(ctx, c, []int64{math.MinInt64}, 1); err != nil {
					return err
				}
			}
			if w.Rank() == 1 {
				if err := Recv(ctx, c, sum[:1], 0); err != nil || sum[0] != math.MinInt64 {
					return fmt.Errorf("received %v, %v", sum, err)
				}
			}
			return Barrier(ctx, c)
		})
		for r, err := range errs {
			if err != nil {
				t.Errorf("%d ranks: rank %d: %v", size, r, err)
			}
		}
	}
}

func TestMismatchNamesBothCalls(t *testing.T) {
	errs := ranks(t, 2, func(w *World, c *Comm) error {
		if w.Rank() == 0 {
			return AllReduce(t.Context(), c, make([]float32, 3), Sum)
		}
		return AllReduce(t.Context(), c, make([]float64, 3), Sum)
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "float32 x 3") || !strings.Contains(err.Error(), "float64 x 3") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestCommNeedsAStore(t *testing.T) {
	w := world(t, 0, 2, "", "")
	if _, err := w.Comm(t.Context()); err == nil || !strings.Contains(err.Error(), "MASTER_ADDR") {
		t.Errorf("error %v", err)
	}
	w = world(t, 0, 2, "127.0.0.1:1", "")
	if _, err := w.Comm(t.Context()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
}

func TestSecondProcessOfARankIsRefused(t *testing.T) {
	addr := serveStore(t)
	if _, err := world(t, 1, 2, addr, "").Comm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := world(t, 1, 2, addr, "").Comm(t.Context()); err == nil || !strings.Contains(err.Error(), "same RANK") {
		t.Errorf("error %v", err)
	}
}

// TestWorkerImportsOnlyTheStandardLibrary checks what a program links with this package.
func TestWorkerImportsOnlyTheStandardLibrary(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", "{{.ImportPath}} {{.Standard}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		path, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path == "testing" {
			t.Errorf("worker depends on %s", path)
		}
		if standard == "true" {
			continue
		}
		n++
		if !strings.HasPrefix(path+"/", "github.com/gorun/gorun/worker/") {
			t.Errorf("worker depends on %s", path)
		}
	}
	if n < 5 {
		t.Errorf("found only %d packages: does the test list the right ones?\n%s", n, out)
	}
}

func BenchmarkAllReduce(b *testing.B) {
	const size, n = 4, 1 << 18 // 1 MiB of float32
	b.SetBytes(4 * n)
	b.ReportAllocs()
	errs := ranks(b, size, func(w *World, c *Comm) error {
		buf := make([]float32, n)
		if err := Barrier(b.Context(), c); err != nil {
			return err
		}
		if w.Rank() == 0 {
			b.ResetTimer()
		}
		for range b.N {
			if err := AllReduce(b.Context(), c, buf, Sum); err != nil {
				return err
			}
		}
		return nil
	})
	for r, err := range errs {
		if err != nil {
			b.Fatalf("rank %d: %v", r, err)
		}
	}
}
