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
)

// leaseTTL is gorun's default.
const leaseTTL = 5 * time.Second

// simulant is an agent without workers: it drives a machine as package launch does.
type simulant struct {
	machine *rendezvous.Machine
	plane   *control.Plane
	backend rendezvous.Backend
	fence   rendezvous.Fence   // nil: the backend is none
	giveUp  context.CancelFunc // of the Seal that goes on; nil: none does
	listen  net.Listener
	wake    chan struct{}
	started chan struct{} // closed when it has a world, or none to expect
	once    sync.Once
	at      int64 // monotonic ns at which the world was committed here; valid after started, 0: it was not

	mu      sync.Mutex
	events  []rendezvous.Event
	trouble string
	waits   *rendezvous.Status
}

func newSimulant(n rendezvous.Node, b rendezvous.Backend, l net.Listener) *simulant {
	a := &simulant{backend: b, listen: l, wake: make(chan struct{}, 1), started: make(chan struct{})}
	a.fence, _ = b.(rendezvous.Fence)
	jobs := 0
	const silence, retry = 10 * time.Second, 50 * time.Millisecond
	a.machine = rendezvous.New(rendezvous.Config{
		Self: n, Endpoints: 1, Where: "here", Fenced: a.fence != nil, Takeover: true, Join: fleetBound, Rejoin: silence, Retry: retry,
		Token: func() string { jobs++; return fmt.Sprintf("%s.%d", n.ID, jobs) },
	}, time.Now())
	o := control.Options{Interval: time.Second, Silence: silence, Dial: 3 * time.Second, Post: a.post, Failed: a.failed}
	if a.fence != nil {
		o.Interval, o.Hush = leaseTTL/8, leaseTTL*3/10
	}
	a.plane = control.New(o)
	a.post(rendezvous.Ready{})
	return a
}

func (a *simulant) post(e rendezvous.Event) {
	a.mu.Lock()
	a.events = append(a.events, e)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *simulant) take() []rendezvous.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := a.events
	a.events = nil
	return batch
}

func (a *simulant) failed(err error) {
	a.mu.Lock()
	a.trouble = cmp.Or(a.trouble, err.Error())
	a.mu.Unlock()
	a.once.Do(func() { close(a.started) })
}

// awaits returns when the coordinator says here that n nodes have come.
func (a *simulant) awaits(ctx context.Context, n int) error {
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

// world returns when, in monotonic ns, it was committed here.
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

// why it has no world.
func (a *simulant) why() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trouble == "" && a.waits != nil {
		return fmt.Errorf("it waits: %+v", *a.waits)
	}
	return errors.New(cmp.Or(a.trouble, "it has heard nothing"))
}

// run is the agent's life until ctx ends.
func (a *simulant) run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { a.plane.Serve(ctx, a.listen) })
	parts.Go(func() {
		if err := a.backend.Run(ctx, a.post); err != nil {
			a.failed(err)
		}
	})
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next := a.machine.Next(); !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		} else {
			timer.Stop()
		}
		batch := []rendezvous.Event{rendezvous.Tick{}}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-a.wake:
			batch = a.take()
		}
		for _, e := range batch {
			for _, c := range a.machine.Step(time.Now(), e) {
				a.do(ctx, c, &parts)
			}
			if r, ok := e.(rendezvous.Received); ok {
				a.plane.Handled(r.Conn)
			}
		}
	}
}

func (a *simulant) do(ctx context.Context, c rendezvous.Command, parts *sync.WaitGroup) {
	switch c := c.(type) {
	case rendezvous.Dial:
		a.plane.Dial(ctx, c.Addr)
	case rendezvous.Send:
		a.plane.Send(c.Conn, c.Msg)
	case rendezvous.Close:
		a.plane.Close(c.Conn)
	case rendezvous.Lead:
		a.fence.Lead()
	case rendezvous.Seal:
		if a.giveUp != nil {
			a.giveUp()
		}
		ctx, a.giveUp = context.WithCancel(ctx)
		parts.Go(func() { a.post(a.fence.Seal(ctx, c)) })
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
