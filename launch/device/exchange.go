package device

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"time"
)

// Exchange gives one survey to all agents that a keeper started on this machine. The
// driver answers one process after the other, so each further survey would make all
// agents wait longer. The first agent asks the driver and writes the answer into a file
// that has no name. It then writes a byte for each other agent into a pipe.
type Exchange struct {
	Others int      // agents that wait for the first; -1: this agent waits
	Answer *os.File // memory that all agents share
	Ready  *os.File // an end of the pipe; the first agent writes to it
}

const (
	maxAnswer = 1 << 20 // bytes of the answer
	// answerTimeout is longer than the first agent asks the driver.
	answerTimeout = probeTimeout + time.Second
)

// survey passes the answer of the first agent to use. An agent that gets none asks for
// itself. It may be called once.
func (x *Exchange) survey(ctx context.Context, ask func(context.Context, func(Report, error)), use func(Report, error)) {
	if x.Others < 0 {
		if r, ok := x.receive(ctx); ok {
			use(r, r.err())
			return
		}
		ask(ctx, use)
		return
	}
	ask(ctx, func(r Report, err error) {
		if ctx.Err() == nil {
			x.write(r, err)
		}
		_, _ = x.Ready.Write(make([]byte, x.Others)) // the pipe has room for a byte for each of --local-nodes
		use(r, err)
	})
}

// write writes the answer, which may be an error. If that fails, the other agents ask for
// themselves.
func (x *Exchange) write(r Report, err error) {
	r.Probe = reportVersion
	if err != nil {
		r.Error = err.Error()
	}
	if b, err := json.Marshal(r); err == nil {
		_, _ = x.Answer.WriteAt(append(b, '\n'), 0)
	}
}

// receive waits for the first agent's answer.
func (x *Exchange) receive(ctx context.Context) (r Report, ok bool) {
	_ = x.Ready.SetReadDeadline(time.Now().Add(answerTimeout))
	defer context.AfterFunc(ctx, func() { _ = x.Ready.SetReadDeadline(time.Now()) })()
	if _, err := io.ReadFull(x.Ready, make([]byte, 1)); err != nil {
		return r, false
	}
	b, err := io.ReadAll(io.NewSectionReader(x.Answer, 0, maxAnswer)) // the agents share the file's offset
	if err != nil {
		return r, false
	}
	return readReport(bytes.TrimSpace(b))
}
