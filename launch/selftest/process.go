package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/worker/contract"
)

// process is one process of a rank. It waits for its order, and ends after it.
type process struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out, errs tail
	cancel    context.CancelCauseFunc
	ctx       context.Context
	err       error         // it could not be started
	ended     chan struct{} // closed when it has ended with exit
	exit      error
}

// leaveTime is how long a killed process may take to end. One that the driver of a broken
// GPU holds in the kernel never does.
const leaveTime = 2 * killTime

// start starts the process of the next task. It has no agent, so the job does not take its
// end for a worker's.
func (t *Tester) start(ctx context.Context, onGPU bool) *process {
	p := &process{ended: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.cmd = t.Probe(p.ctx, onGPU)
	p.cmd.Env = slices.DeleteFunc(slices.Clone(t.Env), func(entry string) bool { return strings.HasPrefix(entry, contract.EnvSocket+"=") })
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = &p.out, &p.errs, killTime
	if p.in, p.err = p.cmd.StdinPipe(); p.err == nil {
		p.err = p.cmd.Start()
	}
	if p.err == nil {
		go func() {
			p.exit = p.cmd.Wait()
			close(p.ended)
		}()
	}
	return p
}

// await returns when the process has ended. It returns false if it was killed and does not
// end.
func (p *process) await() bool {
	select {
	case <-p.ended:
		return true
	case <-p.ctx.Done(): // which kills it
	}
	select {
	case <-p.ended:
		return true
	case <-time.After(leaveTime):
		return false
	}
}

// errLate ends a process after its deadline.
var errLate = errors.New("not done in time")

// errPartner ends a process because of another rank of its group.
var errPartner = errors.New("another rank of its group failed")

// carryOut gives the process its order and returns what it found.
func (p *process) carryOut(o Order) Result {
	defer p.cancel(nil)
	if p.err != nil {
		return Result{End: EndFailed, Text: shorten(fmt.Sprintf("cannot start a process: %v", p.err))}
	}
	limit := o.Task.Deadline + killTime
	late := time.AfterFunc(limit, func() { p.cancel(errLate) })
	defer late.Stop()
	// A process that ended before has a reason that its exit code and its output say.
	_ = json.NewEncoder(p.in).Encode(o)
	_ = p.in.Close()
	if !p.await() {
		return Result{End: EndStuck, Text: fmt.Sprintf("not ended %v after it was killed, as where a driver does not answer (dmesg)", leaveTime)}
	}
	var r Result
	if json.Unmarshal(p.out.last(), &r) == nil && r.End != "" {
		return r
	}
	switch {
	case context.Cause(p.ctx) == errPartner:
		return Result{End: EndLost, Text: "ended, because " + errPartner.Error()}
	case p.ctx.Err() != nil:
		return Result{End: EndStuck, Text: fmt.Sprintf("killed after %v %s", limit, shorten(string(p.errs.last())))}
	case p.exit == nil:
		return Result{End: EndCrashed, Text: "it ended without a result"}
	}
	return Result{End: EndCrashed, Text: shorten(fmt.Sprintf("%v %s", p.exit, p.errs.last()))}
}

// discard ends a process that gets no order; nil is none.
func (p *process) discard() {
	if p == nil {
		return
	}
	p.cancel(nil)
	if p.err == nil {
		_ = p.in.Close()
		p.await()
	}
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxResult; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// last returns the last line that is not empty.
func (t *tail) last() []byte {
	text := bytes.TrimSpace(t.text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
