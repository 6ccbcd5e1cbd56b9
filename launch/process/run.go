package process

import (
	"bytes"
	"context"
	"fmt"
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

// maxInput bounds the input of a helper program, in bytes: a pipe holds as many.
const maxInput = 32 << 10

// Run runs a helper program (go build, the GPU probe) in a session of its own. It
// returns the first maxOutput bytes of the output, and the exit status. When ctx
// ends, Run kills the program and everything that it started, and returns ctx's
// error.
func (t *Table) Run(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	var out bytes.Buffer
	exit, err := t.Stream(ctx, path, argv, env, dir, &limitedWriter{&out, maxOutput})
	return out.Bytes(), exit, err
}

// RunWith runs a program like Run, which reads input, of at most maxInput bytes, from
// its standard input.
func (t *Table) RunWith(ctx context.Context, input []byte, path string, argv, env []string, dir string) ([]byte, int, error) {
	if len(input) > maxInput {
		return nil, 0, fmt.Errorf("the input of %s has %d bytes, more than %d", path, len(input), maxInput)
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer rd.Close()
	_, err = wr.Write(input)
	if wr.Close(); err != nil {
		return nil, 0, err
	}
	var out bytes.Buffer
	exit, err := t.stream(ctx, Spec{Path: path, Args: argv, Env: env, Dir: dir, Stdin: rd}, &limitedWriter{&out, maxOutput})
	return out.Bytes(), exit, err
}

// Stream runs a program like Run, for a program that runs on: it writes the output
// to out as it comes.
func (t *Table) Stream(ctx context.Context, path string, argv, env []string, dir string, out io.Writer) (int, error) {
	return t.stream(ctx, Spec{Path: path, Args: argv, Env: env, Dir: dir}, out)
}

// stream runs a program whose output goes to out.
func (t *Table) stream(ctx context.Context, s Spec, out io.Writer) (int, error) {
	rd, wr, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer rd.Close()
	s.Stdout, s.Stderr, s.Session, s.Death = wr, wr, true, syscall.SIGKILL
	p, err := t.Start(s)
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
