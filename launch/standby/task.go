package standby

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
)

// Waits for the answers of a task.
const (
	startWait = 30 * time.Second
	stopWait  = process.KillTimeout + 5*time.Second // after the grace period
)

// task is a task as its agent sees it.
type task struct {
	conn    *net.UnixConn
	hello   message
	files   []*os.File // its standard output and standard error
	console *logs.Console

	writing sync.Mutex // held while a message is written

	mu      sync.Mutex
	serial  int
	answers map[int]chan answer // to start and stop, by serial
	workers map[int]*worker     // that live, by the serial of their start
	lost    bool
}

// answer is what a task says to start or stop.
type answer struct {
	err    error
	worker *worker // that was started
}

// worker is a process that a task started.
type worker struct {
	task   *task
	serial int
	pid    int
	done   chan struct{}
	exit   process.Exit // written before done is closed
}

func newTask(c *net.UnixConn, hello message, files []*os.File, console *logs.Console) *task {
	return &task{conn: c, hello: hello, files: files, console: console, answers: map[int]chan answer{}, workers: map[int]*worker{}}
}

// Pid returns the pid.
func (w *worker) Pid() int { return w.pid }

// Done is closed when the process has ended.
func (w *worker) Done() <-chan struct{} { return w.done }

// Exit waits for Done and returns how the process ended.
func (w *worker) Exit() process.Exit {
	<-w.done
	return w.exit
}

// Dying returns false: the task says when the process has ended, not before.
func (w *worker) Dying() (process.Exit, bool) { return process.Exit{}, false }

// Signal sends a signal to the process's group.
func (w *worker) Signal(sig syscall.Signal) error {
	select {
	case <-w.done:
		return os.ErrProcessDone
	default:
		return w.task.send(message{Kind: kindSignal, Serial: w.serial, Signal: sig})
	}
}

// errLost says that a task has ended.
var errLost = errors.New("the task of its rank has ended")

// send sends a message.
func (t *task) send(m message, files ...*os.File) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return send(t.conn, m, files...)
}

// ask sends a message and waits for its answer. A task that does not answer counts as
// lost, because nobody knows what it will do.
func (t *task) ask(m message, wait time.Duration, files ...*os.File) (*worker, error) {
	reply := make(chan answer, 1)
	t.mu.Lock()
	if t.lost {
		t.mu.Unlock()
		return nil, errLost
	}
	t.serial++
	m.Serial = t.serial
	t.answers[m.Serial] = reply
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.answers, m.Serial)
	}()
	if err := t.send(m, files...); err != nil {
		t.conn.Close()
		return nil, fmt.Errorf("cannot reach task %d of this node: %w", t.hello.Local, err)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case a, ok := <-reply:
		if !ok {
			return nil, errLost
		}
		return a.worker, a.err
	case <-timer.C:
		t.conn.Close()
		return nil, fmt.Errorf("task %d of this node did not answer within %v", t.hello.Local, wait)
	}
}

// start starts a worker in the task.
func (t *task) start(s process.Spec) (*worker, error) {
	if s.Stdout == nil || s.Stderr == nil {
		return nil, errors.New("a worker needs an output")
	}
	m := message{Kind: kindStart, Path: s.Path, Args: s.Args, Env: s.Env, Dir: s.Dir, Input: s.Stdin != nil}
	return t.ask(m, startWait, s.Stdout, s.Stderr)
}

// stop ends a worker and what it left. A task that has ended has taken its worker along.
func (t *task) stop(o process.StopOptions, w *worker) error {
	_, err := t.ask(message{Kind: kindStop, Signal: o.Signal, Grace: o.Grace}, o.Grace+stopWait)
	if errors.Is(err, errLost) {
		<-w.done
		return nil
	}
	return err
}

// read handles the task's messages until the connection ends.
func (t *task) read() {
	for {
		m, files, err := receive(t.conn)
		closeAll(files) // only a hello has files
		if err != nil {
			break
		}
		t.handle(m)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = true
	for _, reply := range t.answers {
		close(reply)
	}
	clear(t.answers)
	for serial, w := range t.workers { // the kernel kills a worker together with its task
		delete(t.workers, serial)
		w.exit = process.Exit{Code: -1, Signal: syscall.SIGKILL, At: time.Now()}
		close(w.done)
	}
}

func (t *task) handle(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch m.Kind {
	case kindStarted, kindStopped:
		a := answer{err: m.Error.err()}
		if m.Kind == kindStarted && a.err == nil {
			a.worker = &worker{task: t, serial: m.Serial, pid: m.PID, done: make(chan struct{})}
			t.workers[m.Serial] = a.worker
		}
		if reply := t.answers[m.Serial]; reply != nil {
			delete(t.answers, m.Serial)
			reply <- a
		}
	case kindEnded:
		if w := t.workers[m.Serial]; w != nil {
			delete(t.workers, m.Serial)
			w.exit = m.exit()
			close(w.done)
		}
	}
}
