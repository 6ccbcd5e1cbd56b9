package preflight

// Fleet is the facts of all nodes of a world and, once they were made, the
// probes between them.
type Fleet struct {
	Nodes  []Facts // in the order of group ranks; facts of a node that sent none have Format 0
	Probes []Probe // of all nodes; nil before the probes were made
	Asked  string  // why --iface auto has no answer; "" when it has one or was not asked
	Master string  // host:port of the store that workers will be told; "" when no job is started

	// Differences are what was found when one environment was decided from those of
	// all nodes, by name. Settings are what workers have after that.
	Differences []Difference

	seen *view // set by Compare, so that rules share what they look up
}

// Difference is a variable in which the nodes of a job differ.
type Difference struct {
	Name   string
	Text   string  // what a difference leads to, as part of a sentence
	Values []Value // group ranks by value; the first is that of the node whose word counts
	Asked  bool    // the nodes were asked for different values, and Values are the requests
	Left   bool    // workers still differ; else all get the first value

	Targeted bool // with Left: because the user asks for a value on some nodes only
	Error    bool // the job must not start like that
}

// Probe is what one node found when it connected to an address of another.
type Probe struct {
	From   int     `json:"from"` // group ranks
	To     int     `json:"to"`
	Use    Use     `json:"use"`
	Iface  string  `json:"iface"` // of the sender's side
	Source string  `json:"source"`
	Target string  `json:"target"`           // address:port
	Seen   string  `json:"seen,omitempty"`   // source address that the other side saw
	Answer string  `json:"answer,omitempty"` // id of the node that answered, if an agent of this job did
	Large  bool    `json:"large,omitempty"`  // 64 KiB were to pass each way, too
	Result Result  `json:"result"`
	Text   string  `json:"text,omitempty"` // the system's words
	TookMS float64 `json:"took_ms"`

	Sent    int     `json:"sent,omitempty"`     // segments that carried something
	Resent  int     `json:"resent,omitempty"`   // of these: sent again, because nothing acknowledged them
	Silent  int     `json:"silent,omitempty"`   // of these: the first of a connection that nobody answered, before another one was
	Mbit    float64 `json:"mbit_s,omitempty"`   // at which 64 KiB left, where the path was too slow for them; 0: it was not
	RoundMS float64 `json:"round_ms,omitempty"` // from the question to the answer
	Ahead   int64   `json:"ahead_ns,omitempty"` // of the other side's clock to this one's, give or take half of RoundMS
}

// Result of a probe.
type Result string

const (
	OK          Result = "ok"
	Refused     Result = "refused"      // ECONNREFUSED: nothing listens there, or a firewall rejects
	NoRoute     Result = "no route"     // EHOSTUNREACH, ENETUNREACH, ENETDOWN
	TimedOut    Result = "timed out"    // nothing came back: a firewall that drops, or a wrong route
	Stalled     Result = "stalled"      // connected, but nothing of a large write arrived: MTU
	Lossy       Result = "packets lost" // connected, but of a large write only a part arrived, and much was sent again
	Slow        Result = "slow"         // connected, but a large write did not arrive in time, though nothing got lost
	Reset       Result = "reset"        // ECONNRESET: a proxy, or a duplicate address
	Denied      Result = "denied"       // EPERM, EACCES: this node's own firewall or SELinux
	NoAddress   Result = "no address"   // EADDRNOTAVAIL: the source address is not on this node
	Stranger    Result = "other agent"  // somebody else answered: a duplicate or translated address
	OtherSource Result = "other source" // all arrived, but the other side saw another source address: NAT
	Failed      Result = "failed"       // anything else; Text says what
)
