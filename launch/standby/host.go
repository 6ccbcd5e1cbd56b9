package standby

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/process"
)

// Self describes the task that RunWorkers runs in.
type Self struct {
	Key                   string
	Local                 int
	Env                   []string
	Stdin, Stdout, Stderr *os.File
}

// RunWorkers starts the workers that the agent of this node asks for, as children of
// this process, until ctx ends or the agent has ended. Then it kills what is left of
// them. The agent must come within the time arrival. RunWorkers opens the table of its
// process, so the process must start nothing else.
func RunWorkers(ctx context.Context, self Self, arrival time.Duration) error {
	c, err := dial(ctx, workersAddress(self.Key), arrival)
	if ctx.Err() != nil {
		return nil // the job ended before its workers started
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if !isSameUser(c) {
		return errors.New("a process of another user has the address of this node's agent")
	}
	table, err := process.Open()
	if err != nil {
		return err
	}
	defer table.Close()
	h := &host{Self: self, conn: c, table: table, procs: map[int]*process.Process{}}
	cpus, cores := allowed()
	hello := message{Kind: kindHello, Local: self.Local, PID: os.Getpid(), Env: self.Env, CPUs: cpus, Cores: cores}
	if err := h.send(hello, self.Stdout, self.Stderr); err != nil {
		return fmt.Errorf("cannot reach the agent of this node: %w", err)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return h.run()
}

// allowed returns the CPUs that this process may use, and the number of their cores.
func allowed() (cpus string, cores int) {
	set, _, err := numa.Allowed()
	if err != nil {
		return "", 0
	}
	return set.String(), len(numa.Cores(os.DirFS("/"), set))
}

// host is the side of a task that starts workers.
type host struct {
	Self
	conn  *net.UnixConn
	table *process.Table
	wg    sync.WaitGroup

	writing sync.Mutex
	mu      sync.Mutex
	procs   map[int]*process.Process // by the serial of their start
}

func (h *host) send(m message, files ...*os.File) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	return send(h.conn, m, files...)
}

// run does what the agent asks for until the connection ends, and then kills what is
// left.
func (h *host) run() error {
	for {
		m, files, err := receive(h.conn)
		if err != nil {
			break
		}
		h.handle(m, files)
		closeAll(files)
	}
	_, err := h.table.Stop(context.Background(), process.StopOptions{}, h.all()...)
	h.conn.Close()
	if err == nil { // else something hangs in the kernel and may never end
		h.wg.Wait()
	}
	return err
}

// all returns all processes that were started.
func (h *host) all() (procs []*process.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.procs {
		procs = append(procs, p)
	}
	return procs
}

func (h *host) handle(m message, files []*os.File) {
	switch m.Kind {
	case kindStart:
		h.start(m, files)
	case kindSignal:
		h.mu.Lock()
		p := h.procs[m.Serial]
		h.mu.Unlock()
		if p != nil {
			_ = p.Signal(m.Signal) // it may have ended
		}
	case kindStop:
		procs := h.all()
		h.wg.Go(func() {
			_, err := h.table.Stop(context.Background(), process.StopOptions{Signal: m.Signal, Grace: m.Grace}, procs...)
			_ = h.send(message{Kind: kindStopped, Serial: m.Serial, Error: faultOf(err)})
		})
	}
}

// start starts a worker and reports its end.
func (h *host) start(m message, files []*os.File) {
	p, err := h.startProcess(m, files)
	answer := message{Kind: kindStarted, Serial: m.Serial, Error: faultOf(err)}
	if p != nil {
		answer.PID = p.Pid()
	}
	_ = h.send(answer) // a lost connection ends run
	if p == nil {
		return
	}
	h.wg.Go(func() {
		e := p.Exit()
		_ = h.send(message{Kind: kindEnded, Serial: m.Serial, Code: e.Code, Signal: e.Signal, Core: e.CoreDumped, At: e.At})
	})
}

func (h *host) startProcess(m message, files []*os.File) (*process.Process, error) {
	if len(files) != maxFiles || m.Path == "" || len(m.Args) == 0 {
		return nil, errors.New("the agent of this node did not say what to start")
	}
	s := process.Spec{
		Path: m.Path, Args: m.Args, Env: m.Env, Dir: m.Dir, Stdout: files[0], Stderr: files[1],
		Session: true, Death: syscall.SIGKILL,
	}
	if m.Input {
		s.Stdin = h.Stdin
	}
	p, err := h.table.Start(s)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.procs[m.Serial] = p
	for serial, old := range h.procs { // ended ones have been reported
		select {
		case <-old.Done():
			if serial != m.Serial {
				delete(h.procs, serial)
			}
		default:
		}
	}
	return p, nil
}
