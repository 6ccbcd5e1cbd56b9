package status

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Frames are JSON objects, one on each line. The agent sends the first frame: a Hello
// or, to a client of another user, a Challenge. After that client's Proof it sends the
// Hello. Then one Request and one Reply follow.

// Version is the version of the frames. Fields may be added to a version.
const Version = 1

// Bounds of frames, in bytes.
const (
	maxHello   = 16 << 10
	maxRequest = 16 << 10
	maxReply   = 64 << 20 // holds the views of the largest jobs, quoted
)

// MaxMessage is the longest message of an abort, in bytes.
const MaxMessage = 1 << 10

// Challenge asks a client of another user to prove the secret, for this nonce and to
// this agent.
type Challenge struct {
	Nonce []byte `json:"nonce,omitempty"`
	Error string `json:"error,omitempty"` // why the client cannot prove the secret; the connection ends
}

// Proof answers a Challenge.
type Proof struct {
	Proof []byte `json:"proof"`
}

// Hello is what an agent says about itself.
type Hello struct {
	Version int    `json:"version"`
	RunID   string `json:"run_id"`
	Job     string `json:"job,omitempty"` // random name of the job, made for the first world and the same on every node; empty before
	Host    string `json:"host"`
	Addr    string `json:"addr,omitempty"`
	PID     int    `json:"pid"`
	Keeper  int    `json:"keeper"` // pid of the process that the user started
}

// Types of requests.
const (
	TypeStatus = "status"
	TypeAbort  = "abort"
	TypeEnv    = "env" // only for the agent's own user and root
)

// Request is what a client asks the agent to do.
type Request struct {
	Type    string `json:"type"`
	Message string `json:"message,omitempty"` // abort: the reason
	User    string `json:"user,omitempty"`    // abort: the user of the client, for messages on the other nodes
	// Question of TypeStatus is what every node answers. Without one, each reports how it stands.
	Question rendezvous.Question `json:"question,omitzero"`
}

// limit is how long a client waits for the Reply.
func (r *Request) limit() time.Duration { return AnswerTime + r.Question.Within }

// Reply answers a Request.
type Reply struct {
	Error   string          `json:"error,omitempty"`
	View    json.RawMessage `json:"view,omitempty"` // a rendezvous.View whose reports are NodeReports, or Answers to a question
	Aborted *Aborted        `json:"aborted,omitempty"`
	Env     json.RawMessage `json:"env,omitempty"` // a preview.Node with the environment of this node's workers
}

// Aborted says what an abort ended.
type Aborted struct {
	RunID   string `json:"run_id"`
	Nodes   int    `json:"nodes"`   // nodes of the world, at least this node
	Workers int    `json:"workers"` // workers of the world; 0: none runs
}

// frameReader reads frames from a connection.
type frameReader struct{ r *bufio.Reader }

func newFrameReader(r io.Reader) frameReader { return frameReader{bufio.NewReader(r)} }

// read reads one frame of at most limit bytes.
func (f frameReader) read(limit int, v any) error {
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
		return fmt.Errorf("invalid frame: %w", err)
	}
	return nil
}

// writeFrame writes one frame.
func writeFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
