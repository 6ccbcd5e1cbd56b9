package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/gorun/gorun/worker/store"
)

const (
	// storeTime bounds the wait for a rank 0 that serves the store. torch waits 5 minutes.
	storeTime  = time.Minute
	storePause = 50 * time.Millisecond
	// leaveTime bounds how long the store that rank 0 serves outlives rank 0's Close, for
	// the ranks that still use it.
	leaveTime = 5 * time.Second
)

// dialStore connects to the job's store. Where the launcher serves none, as torchrun's
// c10d of torch 1.13 and mpirun, rank 0 serves it and the others wait for it; in a world
// of one the store is this process's own. The caller has passed the gate.
func (w *World) dialStore(ctx context.Context) (*store.Client, error) {
	if w.set.Store == "" && w.set.Size == 1 {
		if err := w.serveStore("127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	if w.set.Store == "" {
		return nil, errors.New("MASTER_ADDR and MASTER_PORT are not set, so this rank has no store; gorun and torchrun set them")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, storeTime, fmt.Errorf("nobody serves it for %v", storeTime))
	defer cancel()
	for {
		c, err := store.Dial(ctx, w.set.Store)
		switch {
		case err == nil:
			return c, nil
		case !w.set.OwnStore || !errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("%w (gorun and torchrun serve it at MASTER_ADDR:MASTER_PORT)", err)
		case w.set.Rank == 0 && w.jobStore().server == nil:
			if err := w.serveStore(listenAddress(w.set.Store)); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w: rank 0 serves the store once it calls World.Comm or World.Store", err, context.Cause(ctx))
		case <-time.After(storePause):
		}
	}
}

// listenAddress returns where rank 0 listens for a store: at the address itself, or, if it
// is a name, at all of this machine's, since other machines may know the name by another.
func listenAddress(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	if _, err := netip.ParseAddr(host); err != nil {
		host = ""
	}
	return net.JoinHostPort(host, port)
}

// serveStore serves the job's store in this process.
func (w *World) serveStore(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot serve the job's store: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kv.server = store.Serve(ln)
	if w.set.Store == "" {
		w.set.Store = ln.Addr().String()
	}
	return nil
}

// leaveStore tells a rank 0 that serves the store that this rank needs it no more. Rank 0
// waits for the others and ends the store.
func (w *World) leaveStore(broken bool, server *store.Server) {
	if w.set.OwnStore && w.set.Size > 1 && !broken {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		w.leave(ctx, server != nil)
	}
	if server != nil {
		server.Close()
	}
}

// leave writes that this rank has left. If it serves the store, it waits for the others
// instead. An error does not matter: then the store ends earlier.
func (w *World) leave(ctx context.Context, serves bool) {
	c, err := store.Dial(ctx, w.set.Store)
	if err != nil {
		return
	}
	defer c.Close()
	key := func(rank int) string { return fmt.Sprintf("%sleft/%d", w.prefix(), rank) }
	if !serves {
		_ = c.Set(ctx, key(w.set.Rank), []byte(os.Args[0]))
		_, _ = c.Check(ctx, key(w.set.Rank)) // its reply says that the set has arrived
		return
	}
	var others []string
	for rank := 1; rank < w.set.Size; rank++ {
		others = append(others, key(rank))
	}
	_ = c.Wait(ctx, others...)
}
