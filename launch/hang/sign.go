package hang

import "time"

// Doing says what a rank does, as far as signs show it.
type Doing string

const (
	Computes Doing = "computes" // the main thread of a process of the worker
	Files    Doing = "files"    // a process of the worker reads or writes much
	Steps    Doing = "steps"    // the worker says that it goes on: by calls or steps
	Waits    Doing = "waits"    // in a call of package worker
	Still    Doing = "still"    // nothing shows any progress
	Frozen   Doing = "stopped"  // by SIGSTOP or a debugger
	Ended    Doing = "ended"    // with exit code 0
)

// Sign is what one rank does, as its agent knows it. Times are ages, because clocks of
// nodes differ.
type Sign struct {
	Rank  int    `json:"rank"`
	PID   int    `json:"pid"`
	Doing Doing  `json:"doing"`
	State string `json:"state,omitempty"` // of the main thread, as in /proc/PID/stat: R, S, D, T
	// Still is the time without progress.
	Still  time.Duration `json:"still_ns"`
	Step   uint64        `json:"step,omitempty"`
	Output time.Duration `json:"output_ns,omitempty"` // since the last output; 0: unknown
	Calls  []Call        `json:"calls,omitempty"`     // open calls of package worker
}

// Call is a call of package worker that has not ended.
type Call struct {
	Comm   uint64        `json:"comm"` // the communicator, equal on its ranks
	Me     int           `json:"me"`   // the rank in the communicator
	Size   int           `json:"size"` // of the communicator
	Text   string        `json:"text"`
	Where  string        `json:"where,omitempty"` // file and line
	Waits  string        `json:"waits,omitempty"` // sender, receiver; "": all
	Peer   int           `json:"peer"`            // in the communicator; -1: none
	Tag    int32         `json:"tag,omitempty"`
	Number uint64        `json:"number"` // tells the call from others of the rank
	For    time.Duration `json:"for_ns"`
}
