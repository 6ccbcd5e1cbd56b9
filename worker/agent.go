package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
	"github.com/gorun/gorun/worker/internal/affinity"
)

const (
	// welcomeTime bounds reaching the agent and its welcome.
	welcomeTime = 10 * time.Second
	// deliverTime bounds sending a frame to the agent.
	deliverTime = 5 * time.Second
	// maxMessage is the longest message in a fail frame, in bytes. Escaped as JSON (at
	// worst six bytes for one) it still fits a frame.
	maxMessage = 8 << 10
)

// agent is the worker's end of the worker socket.
type agent struct {
	conn  *os.File
	r     *bufio.Reader
	wmu   sync.Mutex
	board *board.Board // that the ranks of this node share; nil: the agent gave none
}

// dialAgent sends a hello on the socket and waits for the welcome. The error is an
// *AbortError if the round has been aborted already.
func dialAgent(ctx context.Context, path string, rank, round int) (*agent, error) {
	ctx, cancel := context.WithTimeout(ctx, welcomeTime)
	defer cancel()
	var d net.Dialer
	dialled, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot reach gorun's agent (%s is %s): %w", contract.EnvSocket, path, err)
	}
	conn, err := raise(dialled.(*net.UnixConn))
	if err != nil {
		return nil, fmt.Errorf("cannot keep the connection to gorun's agent: %w", err)
	}
	in := &rightsReader{conn: conn}
	defer in.close()
	a := &agent{conn: conn, r: bufio.NewReaderSize(in, contract.MaxFrame)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	f := contract.Frame{Type: contract.TypeHello, Version: contract.Version, Rank: rank, PID: os.Getpid(), Round: &round, Board: contract.BoardVersion}
	if err = a.send(f); err == nil {
		f, err = readFrame(a.r)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
	case f.Type == contract.TypeAbort:
		err = aborted(f.Cause)
	case f.Type != contract.TypeWelcome:
		err = fmt.Errorf("it answered with %q instead of a welcome", f.Type)
	default:
		if a.board = in.takeBoard(f.Board); a.board != nil && affinity.Bind(f.CPUs) {
			a.board.SpinLong()
		}
		return a, nil
	}
	conn.Close()
	if abort, ok := errors.AsType[*AbortError](err); ok {
		return nil, abort
	}
	return nil, fmt.Errorf("no welcome from gorun's agent at %s: %w", path, err)
}

// listen reads frames until the round is over for this worker, and returns why. An
// agent that closes its connection or sends an invalid frame counts as lost.
func (a *agent) listen() *AbortError {
	for {
		f, err := readFrame(a.r)
		if err != nil {
			text := "the agent of this node sent an invalid frame: " + err.Error()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isSystem(err) {
				text = "the agent of this node is lost"
			}
			host, _ := os.Hostname()
			return aborted(&contract.Cause{Kind: "lost", Host: host, Rank: -1, Text: text, Time: time.Now()})
		}
		switch f.Type {
		case contract.TypeAbort:
			return aborted(f.Cause)
		case contract.TypeStacks:
			_ = a.send(tracesFrame()) // a lost agent is noticed by the next read
		}
		// Frames of other types belong to later versions.
	}
}

// isSystem reports whether err is the kernel's, not one of a frame.
func isSystem(err error) bool {
	_, file := errors.AsType[*fs.PathError](err)
	_, errno := errors.AsType[syscall.Errno](err)
	return file || errno
}

func (a *agent) send(f contract.Frame) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	a.wmu.Lock()
	defer a.wmu.Unlock()
	a.conn.SetWriteDeadline(time.Now().Add(deliverTime))
	_, err = a.conn.Write(append(line, '\n'))
	return err
}

// readFrame reads one line. r's buffer, contract.MaxFrame bytes, bounds it.
func readFrame(r *bufio.Reader) (contract.Frame, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = fmt.Errorf("a line of more than %d bytes", contract.MaxFrame)
		}
		return contract.Frame{}, err
	}
	var f contract.Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return contract.Frame{}, fmt.Errorf("not a JSON object: %w", err)
	}
	return f, nil
}

// maxTraces bounds the goroutines' traces in a frame, in bytes.
const maxTraces = contract.MaxFrame * 5 / 8

// tracesFrame returns a frame with the traces of all goroutines, the oldest goroutines
// first, as many as a frame takes.
func tracesFrame() contract.Frame {
	b := make([]byte, maxTraces)
	b = b[:runtime.Stack(b, true)]
	if i := bytes.Index(b, []byte("\n\n")); i >= 0 {
		b = b[i+2:] // the goroutine that answers
	}
	for {
		f := contract.Frame{Type: contract.TypeStacks, Message: strings.ToValidUTF8(string(b), "?")}
		if line, err := json.Marshal(f); err != nil || len(line) < contract.MaxFrame {
			return f
		}
		b = b[:len(b)/2]
	}
}

// message returns err's text for a fail frame: valid UTF-8, at most maxMessage bytes.
func message(err error) string {
	if err == nil {
		return "no reason given"
	}
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
}
