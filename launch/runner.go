package launch

import (
	"bytes"
	"context"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/process"
)

// maxOutput bounds what is kept of a helper program's output, in bytes.
const maxOutput = 1 << 20

// outputTimeout bounds the wait for the last output of a helper that has ended.
const outputTimeout = time.Second

// runner runs a helper program (go build, the GPU probe) as a child of the
// table that owns all children of the agent.
type runner struct{ table *process.Table }

// run has the signature of program.Runner.
func (r runner) run(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	var out bytes.Buffer
	exit, err := r.stream(ctx, path, argv, env, dir, &head{&out, maxOutput})
	return out.Bytes(), exit, err
}

// stream is run for a program that goes on: what it prints goes to out as it comes.
func (r runner) stream(ctx context.Context, path string, argv, env []string, dir string, out io.Writer) (int, error) {
	rd, wr, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer rd.Close()
	p, err := r.table.Start(process.Spec{Path: path, Args: argv, Env: env, Dir: dir, Stdout: wr, Stderr: wr, Session: true, Death: syscall.SIGKILL})
	wr.Close()
	if err != nil {
		return 0, err
	}
	killed := make(chan struct{}) // closed when nothing of it lives any more, or cannot be ended
	spare := context.AfterFunc(ctx, func() {
		defer close(killed)
		_, _ = r.table.Stop(context.Background(), process.StopOptions{}, p)
		_ = rd.SetReadDeadline(time.Now())
	})
	go func() { // what it left behind may keep the pipe open for ever
		<-p.Done()
		_ = rd.SetReadDeadline(time.Now().Add(outputTimeout))
	}()
	_, _ = io.Copy(out, rd)
	select {
	case <-p.Done():
	case <-killed:
	}
	if !spare() {
		<-killed
		return 0, ctx.Err()
	}
	e := p.Exit()
	return e.Status(), nil
}

// head keeps the beginning of what is written.
type head struct {
	to   *bytes.Buffer
	left int
}

func (h *head) Write(p []byte) (int, error) {
	keep := p[:min(len(p), h.left)]
	h.left -= len(keep)
	h.to.Write(keep)
	return len(p), nil
}
