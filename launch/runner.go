package launch

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/gorun/gorun/launch/process"
)

// maxOutput bounds what is kept of a helper program's output, in bytes.
const maxOutput = 1 << 20

// runner runs a helper program (go build, the GPU probe) as a child of the
// table that owns all children of the agent.
type runner struct{ table *process.Table }

// run has the signature of program.Runner.
func (r runner) run(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer rd.Close()
	p, err := r.table.Start(process.Spec{Path: path, Args: argv, Env: env, Dir: dir, Stdout: wr, Stderr: wr, Session: true})
	wr.Close()
	if err != nil {
		return nil, 0, err
	}
	kill := context.AfterFunc(ctx, func() {
		_, _ = r.table.Stop(context.Background(), process.StopOptions{}, p)
	})
	defer kill()
	go func() { // what it left behind may keep the pipe open for ever
		<-p.Done()
		_ = rd.SetReadDeadline(time.Now().Add(outputTimeout))
	}()
	out, _ := io.ReadAll(io.LimitReader(rd, maxOutput))
	_, _ = io.Copy(io.Discard, rd)
	<-p.Done()
	if ctx.Err() != nil {
		return out, 0, ctx.Err()
	}
	e := p.Exit()
	return out, e.Status(), nil
}
