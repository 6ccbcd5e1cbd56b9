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
	Watching    EventKind = "watching" // the driver reports events from now on
	Heartbeat   EventKind = "alive"    // the child runs, and there is no event
	Xid         EventKind = "xid"      // the driver reported an error; Code is its number
	DoubleBit   EventKind = "double-bit-ecc"
	Lost        EventKind = "lost"    // the GPU does not answer any more
	Unavailable EventKind = "refused" // there will be no events; Text says why
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
	// heartbeat is the interval at which the child writes a Heartbeat. If the
	// agent has ended, the write fails and the child ends.
	heartbeat  = 10 * time.Second
	maxSilence = 60 * time.Second // a child that prints nothing for longer is ended
)

// ErrNoEvents is the error of Listen if the driver reports no events. Another call
// fails in the same way.
var ErrNoEvents = errors.New("the driver reports no events")

// Listen calls handle for every event, including Watching and Heartbeat, until ctx
// or the child ends. It ends a child that prints nothing for 60 s. It never
// returns nil.
func (c Child) Listen(ctx context.Context, handle func(Event)) error {
	if !c.HasDriver() {
		return fmt.Errorf("%w: there is no driver", ErrNoEvents)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(fmt.Errorf("the probe printed nothing for %v", maxSilence)) })
	defer silence.Stop()

	var unavailable error
	out := &lineWriter{most: maxLine, line: func(line []byte) {
		e, ok := readEvent(line)
		if !ok {
			return
		}
		silence.Reset(maxSilence)
		if e.Kind == Unavailable {
			unavailable = fmt.Errorf("%w: %s", ErrNoEvents, e.Text)
			return
		}
		handle(e)
	}}
	argv, env := c.command(Events)
	exit, err := c.Stream(ctx, c.Path, argv, env, "/", out)
	switch {
	case unavailable != nil:
		return unavailable
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

// writeUnavailable writes the event after which no other event follows.
func writeUnavailable(w io.Writer, why error) error {
	return json.NewEncoder(w).Encode(Event{Version: eventVersion, Kind: Unavailable, Text: why.Error()})
}

// lineWriter splits its input into lines. It cuts a line after most bytes.
type lineWriter struct {
	line func([]byte)
	most int
	part []byte
}

func (l *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		head, tail, whole := bytes.Cut(rest, []byte("\n"))
		l.part = append(l.part, head[:min(len(head), l.most-len(l.part))]...)
		if whole {
			l.line(l.part)
			l.part = l.part[:0]
		}
		rest = tail
	}
	return len(p), nil
}
