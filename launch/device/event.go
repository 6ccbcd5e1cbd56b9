package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// EventKind says what happened.
type EventKind string

const (
	Watching  EventKind = "watching" // the driver reports events from now on
	Alive     EventKind = "alive"    // nothing has happened
	Xid       EventKind = "xid"      // the driver reported an error; Code is its number
	DoubleBit EventKind = "double-bit-ecc"
	Lost      EventKind = "lost"    // the GPU does not answer any more
	Refused   EventKind = "refused" // there will be no events; Text says why
)

// Event is a line that the child process prints for Listen.
type Event struct {
	Version int       `json:"gorun_gpu_event"` // eventVersion; marks the line
	Kind    EventKind `json:"kind"`
	UUID    string    `json:"uuid,omitempty"` // of the GPU; "" when the driver does not say which
	Code    uint64    `json:"code,omitempty"`
	GI      *int      `json:"gi,omitempty"` // of a MIG instance
	CI      *int      `json:"ci,omitempty"`
	Text    string    `json:"text,omitempty"`
}

const (
	eventVersion = 1
	maxLine      = 64 << 10 // bytes of one line of a child's
	// heartbeat is how often the child reports that it is alive; a failed write
	// also shows it that nobody reads any more. maxSilence is how long a child
	// may print nothing.
	heartbeat  = 10 * time.Second
	maxSilence = 60 * time.Second
)

// ErrNoEvents is the error of Listen after which another call is of no use.
var ErrNoEvents = errors.New("the driver tells of no events")

// Listen calls got for every event, Watching and Alive among them, until ctx or
// the child ends. It ends a child that prints nothing for 60 s. It never
// returns nil.
func (c Child) Listen(ctx context.Context, got func(Event)) error {
	if !c.Present() {
		return fmt.Errorf("%w: there is no driver", ErrNoEvents)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(fmt.Errorf("the probe said nothing for %v", maxSilence)) })
	defer silence.Stop()

	var refused error
	out := &lineWriter{line: func(line []byte) {
		e, ok := readEvent(line)
		if !ok {
			return
		}
		silence.Reset(maxSilence)
		if e.Kind == Refused {
			refused = fmt.Errorf("%w: %s", ErrNoEvents, e.Text)
			return
		}
		got(e)
	}}
	argv, env := c.command(Troubles)
	exit, err := c.Stream(ctx, c.Path, argv, env, "/", out)
	switch {
	case refused != nil:
		return refused
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	return fmt.Errorf("the probe ended with code %d", exit)
}

func readEvent(line []byte) (e Event, ok bool) {
	ok = bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &e) == nil && e.Version == eventVersion
	return e, ok
}

// refuse reports to a Listen that there will be no events.
func refuse(w io.Writer, why error) error {
	return json.NewEncoder(w).Encode(Event{Version: eventVersion, Kind: Refused, Text: why.Error()})
}

// lineWriter splits what is written into lines and drops what a line has beyond
// maxLine.
type lineWriter struct {
	line func([]byte)
	part []byte
}

func (l *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		head, tail, whole := bytes.Cut(rest, []byte("\n"))
		l.part = append(l.part, head[:min(len(head), maxLine-len(l.part))]...)
		if whole {
			l.line(l.part)
			l.part = l.part[:0]
		}
		rest = tail
	}
	return len(p), nil
}
