package status

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Frames are JSON objects, one a line. The agent speaks first: a Hello, or to a
// stranger a Challenge, whose Proof is answered by the Hello. One Request and one
// Reply follow.

// Version of the frames; fields may be added to it.
const Version = 1

// Bounds of frames, in bytes.
const (
	maxHello   = 16 << 10
	maxRequest = 16 << 10
	maxReply   = 64 << 20 // the views of the largest jobs, quoted
)

// MaxMessage is the longest message of an abort, in bytes.
const MaxMessage = 1 << 10

// Challenge is what a stranger hears first: it is to prove the secret, for this
// nonce and to this agent.
type Challenge struct {
	Nonce []byte `json:"nonce,omitempty"`
	Error string `json:"error,omitempty"` // nothing can be proven: good-bye
}

// Proof answers a Challenge.
type Proof struct {
	Proof []byte `json:"proof"`
}

// Hello is what an agent says of itself.
type Hello struct {
	Version int    `json:"version"`
	RunID   string `json:"run_id"`
	Job     string `json:"job,omitempty"` // drawn for the first world, the same on every node; empty before
	Host    string `json:"host"`
	Addr    string `json:"addr,omitempty"`
	PID     int    `json:"pid"`
	Keeper  int    `json:"keeper"` // pid of the process that the user started
}

// Requests.
const (
	TypeStatus = "status"
	TypeAbort  = "abort"
	TypeEnv    = "env" // for the agent's own user and root only
)

// Request is what a client wants.
type Request struct {
	Type    string `json:"type"`
	Message string `json:"message,omitempty"` // abort: why
	User    string `json:"user,omitempty"`    // abort: who, for the other nodes' people
}

// Reply answers a Request.
type Reply struct {
	Error   string          `json:"error,omitempty"`
	View    json.RawMessage `json:"view,omitempty"` // a rendezvous.View whose reports are Nodes
	Aborted *Aborted        `json:"aborted,omitempty"`
	Env     json.RawMessage `json:"env,omitempty"` // a preview.Node: what this node's workers got
}

// Aborted is what an order to end the job has reached.
type Aborted struct {
	RunID   string `json:"run_id"`
	Nodes   int    `json:"nodes"`   // of the world, at least this one
	Workers int    `json:"workers"` // of the world, 0: none runs
}

// frames reads what the other side says.
type frames struct{ r *bufio.Reader }

func newFrames(r io.Reader) frames { return frames{bufio.NewReader(r)} }

// next takes one frame of at most limit bytes.
func (f frames) next(limit int, v any) error {
	var line []byte
	for {
		part, err := f.r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return fmt.Errorf("a frame has more than %d bytes", limit)
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), v); err != nil {
		return fmt.Errorf("a frame makes no sense: %w", err)
	}
	return nil
}

// say writes one frame.
func say(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
