package standby

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/workers"
)

// Tasks is the table of a node whose workers run in the tasks of a scheduler: the
// agent's task has the worker of local rank 0, and the task of local rank r that of
// rank r. It is a [workers.Table].
type Tasks struct {
	own      workers.Table
	listener *net.UnixListener
	lost     func(local int)
	wg       sync.WaitGroup

	mu     sync.Mutex
	tasks  []*task // by local rank; nil: it has not come, and 0 has none
	came   int
	all    chan struct{} // closed when all tasks have come
	closed bool
}

// workersAddress returns the key at which the agent meets the tasks; at the key itself
// they meet the leader.
func workersAddress(key string) string { return key + " workers" }

// Listen waits for the other tasks of a node, which has count tasks. own starts the
// worker of local rank 0. lost is called for each task that ends before Close.
func Listen(key string, count int, own workers.Table, lost func(local int)) (*Tasks, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address(workersAddress(key)), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the %d other tasks of this node: %w", count-1, err)
	}
	return &Tasks{own: own, listener: l, lost: lost, tasks: make([]*task, count), all: make(chan struct{})}, nil
}

// helloWait bounds the time from a task's connection to its hello.
const helloWait = 10 * time.Second

// Serve receives the tasks until Close.
func (t *Tasks) Serve() {
	t.wg.Go(func() {
		for {
			c, err := t.listener.AcceptUnix()
			if err != nil {
				return
			}
			if !isSameUser(c) {
				c.Close()
				continue
			}
			t.wg.Go(func() { t.serve(c) })
		}
	})
}

// serve reads the messages of one task until its connection ends.
func (t *Tasks) serve(c *net.UnixConn) {
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(helloWait))
	hello, files, err := receive(c)
	if err != nil {
		return
	}
	if hello.Kind != kindHello || len(files) != maxFiles {
		closeAll(files)
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	console, err := logs.NewConsole(files[0], files[1])
	if err != nil {
		closeAll(files)
		return
	}
	one := newTask(c, hello, files, console)
	if !t.add(one) {
		console.Close()
		closeAll(files)
		return
	}
	one.read()
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if !closed {
		t.lost(hello.Local)
	}
}

// add keeps a task. It reports false for a task that the node does not have.
func (t *Tasks) add(one *task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	local := one.hello.Local
	if t.closed || local < 1 || local >= len(t.tasks) || t.tasks[local] != nil {
		return false
	}
	t.tasks[local] = one
	if t.came++; t.came == len(t.tasks)-1 {
		close(t.all)
	}
	return true
}

// Wait waits until all tasks have come, at most the time arrival.
func (t *Tasks) Wait(ctx context.Context, arrival time.Duration) error {
	timer := time.NewTimer(arrival)
	defer timer.Stop()
	select {
	case <-t.all:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var missing []string
	for local, one := range t.tasks {
		if local > 0 && one == nil && len(missing) < 8 {
			missing = append(missing, strconv.Itoa(local))
		}
	}
	return fmt.Errorf("%d of %d tasks of this node did not come within %v; the first ones are those with local rank %s", len(t.tasks)-1-t.came, len(t.tasks), arrival, strings.Join(missing, ", "))
}

// Workers returns what the workers have of their tasks, by local rank, once Wait has
// returned nil. With threads it shares the cores of equal sets of CPUs among their
// tasks.
func (t *Tasks) Workers(threads bool) []workers.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	cpus, cores := allowed()
	hellos := []message{{CPUs: cpus, Cores: cores}} // of the agent's own task
	sharing := map[string]int{cpus: 1}
	for _, one := range t.tasks[1:] {
		hellos = append(hellos, one.hello)
		sharing[one.hello.CPUs]++
	}
	all := make([]workers.Task, len(hellos))
	for i, h := range hellos {
		all[i].Env = h.Env
		if threads {
			all[i].Threads = envprop.Threads{Cores: h.Cores, Workers: sharing[h.CPUs]}
		}
	}
	return all
}

// Console returns the output of the task of a local rank above 0, once Wait has returned
// nil.
func (t *Tasks) Console(local int) *logs.Console { return t.at(local).console }

// Close ends the connections. The tasks kill what is left of their workers.
func (t *Tasks) Close() {
	t.mu.Lock()
	t.closed = true
	tasks := slices.Clone(t.tasks)
	t.mu.Unlock()
	t.listener.Close()
	for _, one := range tasks {
		if one != nil {
			one.conn.Close()
		}
	}
	t.wg.Wait()
	for _, one := range tasks {
		if one != nil {
			one.console.Close()
			closeAll(one.files)
		}
	}
}

// at returns the task of a local rank.
func (t *Tasks) at(local int) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if local >= len(t.tasks) {
		return nil
	}
	return t.tasks[local]
}

// StartAll starts the process of local rank r in the task of that rank. All tasks
// start at the same time, so some may have started when another one cannot.
func (t *Tasks) StartAll(specs []process.Spec) ([]workers.Process, error) {
	started, errs := make([]workers.Process, len(specs)), make([]error, len(specs))
	var wg sync.WaitGroup
	for i := 1; i < len(specs); i++ {
		wg.Go(func() {
			one := t.at(i)
			if one == nil {
				errs[i] = fmt.Errorf("this node has no task for local rank %d", i)
				return
			}
			if p, err := one.start(specs[i]); err != nil {
				errs[i] = fmt.Errorf("local rank %d: %w", i, err)
			} else {
				started[i] = p
			}
		})
	}
	if len(specs) > 0 {
		own, err := t.own.StartAll(specs[:1])
		started[0], errs[0] = own[0], err
	}
	wg.Wait()
	return started, errors.Join(errs...)
}

// Stop ends processes and everything that they left, each in its task.
func (t *Tasks) Stop(o process.StopOptions, procs []workers.Process) error {
	var own []workers.Process
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for _, p := range procs {
		far, ok := p.(*worker)
		if !ok {
			own = append(own, p)
			continue
		}
		wg.Go(func() {
			if err := far.task.stop(o, far); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	err := t.own.Stop(o, own)
	wg.Wait()
	return errors.Join(append(errs, err)...)
}
