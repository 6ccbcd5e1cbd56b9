package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
	"github.com/gorun/gorun/rendezvous/drive"
)

// leaseTTL is the time to live of an etcd lease, gorun's default.
const leaseTTL = 5 * time.Second

// simulant is an agent without workers: it drives a machine as package launch does.
type simulant struct {
	machine *drive.Machine
	plane   *control.Plane
	backend rendezvous.Backend
	listen  net.Listener
	events  *drive.Queue[rendezvous.Event]
	parts   sync.WaitGroup
	started chan struct{} // closed when the agent has a world, or cannot get one
	once    sync.Once
	at      int64 // monotonic ns at which the world was committed here; 0: it was not; valid after started

	mu      sync.Mutex
	trouble string
	waits   *rendezvous.Status
}

func newSimulant(n rendezvous.Node, b rendezvous.Backend, l net.Listener) *simulant {
	a := &simulant{backend: b, listen: l, events: drive.NewQueue[rendezvous.Event](), started: make(chan struct{})}
	fence, fences := b.(rendezvous.Fence)
	jobs := 0
	const silence, retry = 10 * time.Second, 50 * time.Millisecond
	m := rendezvous.New(rendezvous.Config{
		Self: n, Endpoints: 1, Where: "here", Fenced: fences, Takeover: true, Timeouts: rendezvous.Timeouts{Join: fleetBound, Rejoin: silence, Retry: retry},
		Token: func() string { jobs++; return fmt.Sprintf("%s.%d", n.ID, jobs) },
	}, time.Now())
	o := control.Options{Interval: time.Second, Silence: silence, Dial: 3 * time.Second, Post: a.events.Put, Failed: a.failed}
	if fences {
		o.Interval, o.SilentAfter = leaseTTL/8, leaseTTL*3/10
	}
	a.plane = control.New(o)
	a.machine = &drive.Machine{Machine: m, Streams: a.plane, Fence: fence, Post: a.events.Put, Wait: &a.parts}
	a.events.Put(rendezvous.Ready{})
	return a
}

func (a *simulant) failed(err error) {
	a.mu.Lock()
	a.trouble = cmp.Or(a.trouble, err.Error())
	a.mu.Unlock()
	a.once.Do(func() { close(a.started) })
}

// waitForNodes waits until the coordinator, on this agent, says that n nodes have joined.
func (a *simulant) waitForNodes(ctx context.Context, n int) error {
	for {
		a.mu.Lock()
		st := a.waits
		a.mu.Unlock()
		if st != nil && st.Came == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return a.why()
		case <-a.started:
			return a.why()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// world waits for the agent's world and returns when it was committed here, in
// monotonic ns.
func (a *simulant) world(ctx context.Context) (at int64, err error) {
	select {
	case <-ctx.Done():
		return 0, a.why()
	case <-a.started:
	}
	if a.at == 0 {
		return 0, a.why()
	}
	return a.at, nil
}

// why returns why the agent has no world.
func (a *simulant) why() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trouble == "" && a.waits != nil {
		return fmt.Errorf("it waits: %+v", *a.waits)
	}
	return errors.New(cmp.Or(a.trouble, "it has heard nothing"))
}

// run runs the agent until ctx ends.
func (a *simulant) run(ctx context.Context) {
	defer a.parts.Wait()
	a.parts.Go(func() { a.plane.Serve(ctx, a.listen) })
	a.parts.Go(func() {
		if err := a.backend.Run(ctx, a.events.Put); err != nil {
			a.failed(err)
		}
	})
	for e := range drive.Events(ctx, a.machine, a.events) {
		for c := range a.machine.Step(ctx, e) {
			a.do(c)
		}
	}
}

func (a *simulant) do(c rendezvous.Command) {
	switch c := c.(type) {
	case rendezvous.Show:
		a.mu.Lock()
		a.waits = c.Status
		a.mu.Unlock()
	case rendezvous.Start:
		a.once.Do(func() {
			a.at = monotonic()
			close(a.started)
		})
	case rendezvous.Finish:
		a.failed(fmt.Errorf("the job ended: %s", c.Outcome.Cause.Line()))
	}
}
