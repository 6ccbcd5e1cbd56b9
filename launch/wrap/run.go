package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/launch/process"
)

// Bounds of a probe: the bytes of output that gorun keeps, and how long processes
// that it left may hold the output open.
const (
	maxOutput = 1 << 20
	maxError  = 4 << 10
	lingering = time.Second
)

// run returns the standard output of a program that ends with 0. It kills
// everything that the program started when ctx ends.
func (o Options) run(ctx context.Context, argv []string) ([]byte, error) {
	var outs [2]stream
	for i, most := range []int64{maxOutput, maxError} {
		rd, wr, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, outs[0].close())
		}
		outs[i] = stream{rd: rd, wr: wr, most: most}
	}
	defer func() { _ = errors.Join(outs[0].close(), outs[1].close()) }()
	p, err := o.Table.Start(process.Spec{
		Path: o.Path, Args: argv, Env: o.Sent.Env, Dir: o.Dir, Stdout: outs[0].wr, Stderr: outs[1].wr, Session: true,
	})
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for i := range outs {
		outs[i].wr.Close()
		wg.Go(outs[i].read)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		_, _ = o.Table.Stop(context.Background(), process.StopOptions{}, p)
	}
	for i := range outs {
		_ = outs[i].rd.SetReadDeadline(time.Now().Add(lingering))
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// Processes that a probe left in its session do not belong to the job.
	stop, cancel := context.WithTimeout(ctx, lingering)
	defer cancel()
	_, _ = o.Table.Stop(stop, process.StopOptions{}, p)
	if code := p.Exit().Status(); code != 0 {
		return nil, fmt.Errorf("it ended with code %d%s", code, reason(outs[1].got))
	}
	return outs[0].got, nil
}

// stream is a pipe whose first bytes are kept.
type stream struct {
	rd, wr *os.File
	most   int64
	got    []byte
}

func (s *stream) read() {
	s.got, _ = io.ReadAll(io.LimitReader(s.rd, s.most))
	_, _ = io.Copy(io.Discard, s.rd)
}

func (s *stream) close() error {
	if s.rd == nil {
		return nil
	}
	s.wr.Close() // usually the second call
	return s.rd.Close()
}

// reason returns the line of an error output that explains the failure, as the end
// of a sentence: the last line that is not advice on where to find help.
func reason(b []byte) string {
	line := ""
	for text := range strings.Lines(string(b)) {
		text = strings.TrimSpace(text)
		if advice := strings.HasSuffix(strings.TrimRight(text, "'\". "), "--help") || strings.Contains(text, "--help' for more"); text != "" && (!advice || line == "") {
			line = text
		}
	}
	if line == "" {
		return ""
	}
	return fmt.Sprintf(" (%.400s)", line)
}
