package process

import (
	"bytes"
	"context"
	"io"
	"os"
	"syscall"
	"time"
)

const (
	// maxOutput bounds what is kept of a helper program's output, in bytes.
	maxOutput = 1 << 20
	// outputTimeout bounds the wait for the last output of a helper program that
	// has ended.
	outputTimeout = time.Second
)

// Run runs a helper program (go build, the GPU probe) in a session of its own. It
// returns the first maxOutput bytes of the output, and the exit status. When ctx
// ends, Run kills the program and everything that it started, and returns ctx's
// error.
func (t *Table) Run(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	var out bytes.Buffer
	exit, err := t.Stream(ctx, path, argv, env, dir, &limitedWriter{&out, maxOutput})
	return out.Bytes(), exit, err
}

// Stream runs a program like Run, for a program that runs on: it writes the output
// to out as it comes.
func (t *Table) Stream(ctx context.Context, path string, argv, env []string, dir string, out io.Writer) (int, error) {
	rd, wr, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer rd.Close()
	p, err := t.Start(Spec{Path: path, Args: argv, Env: env, Dir: dir, Stdout: wr, Stderr: wr, Session: true, Death: syscall.SIGKILL})
	wr.Close()
	if err != nil {
		return 0, err
	}
	killed := make(chan struct{}) // closed when everything that the program started has ended, or cannot be ended
	stopKill := context.AfterFunc(ctx, func() {
		defer close(killed)
		_, _ = t.Stop(context.Background(), StopOptions{}, p)
		_ = rd.SetReadDeadline(time.Now())
	})
	go func() { // a process that the program left may hold the pipe open for ever
		<-p.Done()
		_ = rd.SetReadDeadline(time.Now().Add(outputTimeout))
	}()
	_, _ = io.Copy(out, rd)
	select {
	case <-p.Done():
	case <-killed:
	}
	if !stopKill() {
		<-killed
		return 0, ctx.Err()
	}
	return p.Exit().Status(), nil
}

// limitedWriter keeps the first bytes that are written to it.
type limitedWriter struct {
	to   *bytes.Buffer
	left int
}

func (h *limitedWriter) Write(p []byte) (int, error) {
	keep := p[:min(len(p), h.left)]
	h.left -= len(keep)
	h.to.Write(keep)
	return len(p), nil
}
