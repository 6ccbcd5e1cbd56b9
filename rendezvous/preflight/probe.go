package preflight

// Probe is the result of one node's connection to an address of another.
type Probe struct {
	From   int     `json:"from"` // group ranks
	To     int     `json:"to"`
	Use    Use     `json:"use"`
	Iface  string  `json:"iface"` // of the sender's side
	Source string  `json:"source"`
	Target string  `json:"target"`           // address:port
	Seen   string  `json:"seen,omitempty"`   // source address that the other side saw
	Answer string  `json:"answer,omitempty"` // id of the node that answered, if an agent of this job did
	Large  bool    `json:"large,omitempty"`  // 64 KiB had to pass each way, too
	Result Result  `json:"result"`
	Text   string  `json:"text,omitempty"` // the system's words
	TookMS float64 `json:"took_ms"`

	Sent    int     `json:"sent,omitempty"`     // segments with data, and the first of the handshake
	Resent  int     `json:"resent,omitempty"`   // segments of Sent that were sent again, because no acknowledgement came
	Silent  int     `json:"silent,omitempty"`   // segments of Resent that were the first of a connection without an answer, before another connection got one
	Mbit    float64 `json:"mbit_s,omitempty"`   // rate at which 64 KiB left, if the path was too slow for them; 0: the path was fast enough
	RoundMS float64 `json:"round_ms,omitempty"` // from the question to the answer
	Ahead   int64   `json:"ahead_ns,omitempty"` // of the other side's clock from this node's clock; it may be wrong by half of RoundMS
}

// Result is the outcome of a probe.
type Result string

const (
	OK          Result = "ok"
	Refused     Result = "refused"      // ECONNREFUSED: nothing listens there, or a firewall rejects
	NoRoute     Result = "no route"     // EHOSTUNREACH, ENETUNREACH, ENETDOWN
	TimedOut    Result = "timed out"    // no answer came: a firewall that drops packets, or a wrong route
	Stalled     Result = "stalled"      // connected, but no byte of a large write arrived: MTU
	Lossy       Result = "packets lost" // connected, but of a large write only a part arrived, and much was sent again
	Slow        Result = "slow"         // connected, but a large write did not arrive in time, though no packet got lost
	Reset       Result = "reset"        // ECONNRESET: a proxy, or a duplicate address
	Denied      Result = "denied"       // EPERM, EACCES: this node's own firewall or SELinux
	NoAddress   Result = "no address"   // EADDRNOTAVAIL: the source address is not on this node
	OtherAgent  Result = "other agent"  // another agent answered: a duplicate or translated address
	OtherSource Result = "other source" // all arrived, but the other side saw another source address: NAT
	Failed      Result = "failed"       // anything else; Text says what
)

// Failed reports whether a probe's connection could not be used at all. Other
// rules check connections that stall, are translated or reach another agent.
func (r Result) Failed() bool {
	switch r {
	case Refused, NoRoute, TimedOut, Reset, Denied, NoAddress, Failed:
		return true
	}
	return false
}

// Passed reports whether the connection reached the node that it was meant for.
func (r Result) Passed() bool {
	return r == OK || r == OtherSource || r == Stalled || r == Lossy || r == Slow
}

// ValidProbes iterates over the probes between two nodes of this fleet.
func (f *Fleet) ValidProbes(yield func(*Probe) bool) {
	n := len(f.Nodes)
	for i := range f.Probes {
		p := &f.Probes[i]
		if p.From >= 0 && p.From < n && p.To >= 0 && p.To < n && p.From != p.To && !yield(p) {
			return
		}
	}
}
