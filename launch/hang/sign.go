package hang

import "time"

// Doing says what a rank does, as far as signs show it.
type Doing string

const (
	Computes Doing = "computes" // the main thread of a process of the worker
	Files    Doing = "files"    // a process of the worker reads or writes much
	Goes     Doing = "goes on"  // it ends calls or names new steps
	Waits    Doing = "waits"    // in a call of package worker
	Still    Doing = "still"    // nothing shows any progress
	Frozen   Doing = "stopped"  // by SIGSTOP or a debugger
	Ended    Doing = "ended"    // with exit code 0
	Unseen   Doing = "unseen"   // it runs where the agent sees none of its processes
)

// Sign is what one rank does, as its agent knows it. Times are ages, because clocks of
// nodes differ.
type Sign struct {
	Rank  int    `json:"rank"`
	PID   int    `json:"pid,omitempty"`
	Doing Doing  `json:"doing"`
	State string `json:"state,omitempty"` // of the main thread, as in /proc/PID/stat: R, S, D, T
	// Still is the time without progress. Quiet is the time in which nothing but the use of
	// CPUs showed any progress.
	Still time.Duration `json:"still_ns"`
	Quiet time.Duration `json:"quiet_ns"`
	Step  uint64        `json:"step,omitempty"`
	Lines []Line        `json:"lines,omitempty"`
}

// Line is where a rank is in one communicator of package worker. A rank may have several
// lines of a communicator, for messages beside the one for collectives.
type Line struct {
	Comm   uint64 `json:"comm,omitempty"`   // equal on all its ranks; 0: the world's
	Me     int    `json:"me"`               // the rank in the communicator
	Size   int    `json:"size"`             // of the communicator
	Seq    uint64 `json:"seq,omitempty"`    // of the last collective that the rank entered; 0: it entered none
	Unsure bool   `json:"unsure,omitempty"` // Seq is not known
	Last   string `json:"last,omitempty"`   // where in the program its last call was
	Open   *Call  `json:"open,omitempty"`   // nil: it is in no call there
}

// Call is a call of package worker that has not ended.
type Call struct {
	Text   string        `json:"text"`            // "all-reduce #7 (sum of float32 x 4)"
	Where  string        `json:"where,omitempty"` // file and line
	Waits  For           `json:"waits,omitempty"`
	Peer   int           `json:"peer,omitempty"` // rank of the communicator, of a message
	Tag    int32         `json:"tag,omitempty"`
	Number uint64        `json:"number"` // of the rank's calls in the communicator
	Age    time.Duration `json:"age_ns"`
}

// For says what a call waits for.
type For string

const (
	ForAll      For = ""         // a collective
	ForReceiver For = "receiver" // it sends to Peer
	ForSender   For = "sender"   // it receives from Peer
	Aside       For = "aside"    // a collective, while the program goes on
)

// isMessage reports whether a call sends or receives.
func (c *Call) isMessage() bool { return c.Waits == ForReceiver || c.Waits == ForSender }

// oldest returns the line with the oldest open call for which the program waits, nil if
// there is none.
func (s *Sign) oldest() *Line {
	var found *Line
	for i := range s.Lines {
		if l := &s.Lines[i]; l.Open != nil && l.Open.Waits != Aside && (found == nil || l.Open.Age > found.Open.Age) {
			found = l
		}
	}
	return found
}

// last returns the rank's line of a communicator with its last collective, nil if it has no
// line there.
func (s *Sign) last(comm uint64) *Line {
	var found *Line
	for i := range s.Lines {
		if l := &s.Lines[i]; l.Comm == comm && (found == nil || l.Seq > found.Seq) {
			found = l
		}
	}
	return found
}
