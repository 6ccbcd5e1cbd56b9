package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf16"
)

// EventLog writes torchrun's event stream (--event-log-handler console): a line of JSON
// for each state of the agent and of its workers. Fields, their order and the text are
// those of torch 2.11 (torch/distributed/elastic/agent/server/api.py).
type EventLog struct {
	Out        io.Writer
	RunID      string
	Role       string
	Host       string
	Backend    string // torchrun's name for how the nodes meet
	Entrypoint string // name of the file that the workers execute
}

// EventState is a state that an event tells. Its texts are torchrun's.
type EventState string

const (
	EventRendezvous EventState = "RENDEZVOUS"          // the agent is in a world
	EventRanked     EventState = "ASSIGN_WORKER_RANKS" // the workers of the agent have their ranks
	EventStart      EventState = "START"               // a worker was started
	EventSucceeded  EventState = "SUCCEEDED"           // a worker ended with 0; an agent ended as it should, whatever its workers did
	EventFailed     EventState = "FAILED"              // a worker failed; an agent could not run its workers to their end
	EventTerminated EventState = "TERMINATED"          // a worker was stopped after the failure of another one
)

// Event is one line of the stream.
type Event struct {
	State    EventState
	Worker   *EventWorker // nil: the event is the agent's
	Group    *EventGroup  // nil: the agent has not been in a world yet
	Restarts int
	RunTime  time.Duration  // of the agent; torchrun counts it at the end only
	Took     *time.Duration // nil: the event has no duration
	Error    string         // why an agent failed
}

// EventGroup is the place of an agent in its world.
type EventGroup struct{ Rank, Size int }

// EventWorker is a worker of an event.
type EventWorker struct {
	Rank, LocalRank, RoleRank, RoleSize int
	PID                                 int
	Failure                             *EventFailure // nil: it has not failed
}

// EventFailure is how a worker failed.
type EventFailure struct {
	ExitCode  int    // negative: the signal
	ErrorFile string // "": none
}

// eventJSON is the JSON of an event.
type eventJSON struct {
	Name      string `json:"name"`
	Source    string `json:"source"`
	Timestamp int    `json:"timestamp"` // torchrun writes 0
	Metadata  struct {
		RunID      string     `json:"run_id"`
		GlobalRank *int       `json:"global_rank"`
		GroupRank  *int       `json:"group_rank"`
		WorkerID   *string    `json:"worker_id"`
		Role       string     `json:"role"`
		Host       string     `json:"hostname"`
		State      EventState `json:"state"`
		RunTime    int        `json:"total_run_time"` // in seconds
		Backend    string     `json:"rdzv_backend"`
		Error      *string    `json:"raw_error"`
		Details    string     `json:"metadata"`
		Restarts   int        `json:"agent_restarts"`
		Took       *float64   `json:"duration_ms"`
	} `json:"metadata"`
}

// eventDetails is the JSON in the metadata of an event. Each list has one element.
type eventDetails struct {
	GroupSize  *int   `json:"group_world_size"`
	Entrypoint string `json:"entry_point"`
	LocalRank  []int  `json:"local_rank,omitempty"`
	RoleRank   []int  `json:"role_rank,omitempty"`
	RoleSize   []int  `json:"role_world_size,omitempty"`
	ExitCode   []*int `json:"exit_code,omitempty"`
	PID        []*int `json:"worker_pid,omitempty"` // of a failed worker
}

// Write writes an event.
func (l *EventLog) Write(e Event) {
	line := eventJSON{Name: "torchelastic.worker.status." + string(e.State), Source: "AGENT"}
	details := eventDetails{Entrypoint: l.Entrypoint}
	m := &line.Metadata
	m.RunID, m.Role, m.Host, m.Backend = l.RunID, l.Role, l.Host, l.Backend
	m.State, m.RunTime, m.Restarts = e.State, int(e.RunTime.Seconds()), e.Restarts
	if g := e.Group; g != nil {
		m.GroupRank, details.GroupSize = &g.Rank, &g.Size
	}
	if e.Took != nil {
		took := float64(*e.Took) / float64(time.Millisecond)
		m.Took = &took
	}
	if e.Error != "" {
		m.Error = &e.Error
	}
	if w := e.Worker; w != nil {
		line.Source = "WORKER"
		id := fmt.Sprint(w.PID)
		m.GlobalRank, m.WorkerID = &w.Rank, &id
		details.LocalRank, details.RoleRank, details.RoleSize = []int{w.LocalRank}, []int{w.RoleRank}, []int{w.RoleSize}
		details.ExitCode, details.PID = []*int{nil}, []*int{nil}
		if f := w.Failure; f != nil {
			details.ExitCode[0], details.PID[0] = &f.ExitCode, &w.PID
			text := f.text()
			m.Error = &text
		}
	}
	m.Details = pythonJSON(details)
	fmt.Fprintln(l.Out, pythonJSON(line))
}

// text returns the content of the failed worker's error file, or what torch has in its
// place.
func (f *EventFailure) text() string {
	b, size, err := readBounded(f.ErrorFile)
	if err == nil && size <= MaxErrorFile && json.Valid(b) {
		return pythonJSON(json.RawMessage(b))
	}
	if f.ExitCode < 0 {
		return `{"message": "<NONE>"}`
	}
	return `{"message": "<NONE>", "errorTraits": {"category": "system_terminated_error", "retryability": "False"}}`
}

// pythonJSON returns a value as Python's json.dumps writes it: a space after each colon
// and comma, and ASCII only.
func pythonJSON(v any) string {
	var compact bytes.Buffer
	e := json.NewEncoder(&compact)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "null" // cannot happen: the values above have a JSON form
	}
	var out []byte
	quoted, escaped := false, false
	for _, c := range string(bytes.TrimSuffix(compact.Bytes(), []byte("\n"))) {
		switch {
		case c < 0x7f:
			out = append(out, byte(c))
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ':' || c == ','):
			out = append(out, ' ')
		}
	}
	return string(out)
}
