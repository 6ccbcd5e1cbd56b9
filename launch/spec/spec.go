// Package spec holds what the user asked for, as plain data: Raw is the flags
// as they were written, Spec is what they mean.
//
// Invariants: Resolve reads nothing but its arguments (the one exception is the
// random run id of --standalone); a Spec that it returns is complete and
// consistent, so later stages check nothing again; its errors are one line for
// the person at the terminal and all mean "wrong command line" (exit code 2).
//
// Names, defaults and checks are torchrun's where torchrun has the flag, and
// the variable PET_<NAME> gives that flag's default, as there.
package spec

import (
	"net"
	"strconv"
	"time"
)

// Backend says how the nodes of a job find each other.
type Backend string

// The backends of this build. "c10d", torchrun's name for the rendezvous that
// needs nothing installed, means Gossip.
const (
	Gossip     Backend = "gossip"
	Static     Backend = "static"
	Standalone Backend = "standalone"
	EtcdV3     Backend = "etcd"
)

// Ports and times that are used when the user names none.
const (
	DefaultPort       = 29400 // of an endpoint (torchrun's c10d)
	DefaultEtcdPort   = 2379  // of etcd's clients
	DefaultMasterPort = 29500 // of --master-port (torchrun's static)

	// DefaultShutdownTimeout is torchrun's time between SIGTERM and SIGKILL.
	DefaultShutdownTimeout = 30 * time.Second
)

// UsageError is an error of the command line or of a file that it names: exit
// code 2.
type UsageError struct{ Err error }

func (u *UsageError) Error() string { return u.Err.Error() }

func (u *UsageError) Unwrap() error { return u.Err }

// Spec is a checked request. Its embedded parts are what the rooms of an agent get.
type Spec struct {
	Nodes
	Network
	Output
	Checks
	Command

	RunID   string
	Nproc   Nproc
	Devices Devices
	Role    string
	Env     Env

	MaxRestarts     int
	ShutdownTimeout time.Duration // SIGTERM to SIGKILL; 0: SIGKILL at once

	// Dry: the nodes meet and decide, and nothing is started (gorun run --dry-run,
	// gorun env).
	Dry *Dry

	// Notes are lines for the user: what was asked and has no effect here.
	Notes []string
}

// Nodes are how many nodes a job has, and which of them this one is.
type Nodes struct {
	// MinNodes and MaxNodes bound the number of nodes: 0 < MinNodes <= MaxNodes.
	// They are equal unless the job is elastic.
	MinNodes, MaxNodes int
	// LocalNodes is the number of agents to start on this machine (--local-nodes);
	// 0: this process is one agent. Above 1 Backend is EtcdV3, or Gossip without
	// Endpoints, and who starts the agents chooses the endpoint and node ranks.
	LocalNodes int
	// NodeRank is the wished group rank, -1 when the user gave none. Static and
	// Standalone always have one.
	NodeRank int
	// JoinWaits: a node that comes while an elastic job runs waits for the next
	// round (--on-join=wait) instead of starting it.
	JoinWaits bool
}

// Output is where the workers' output and the report go.
type Output struct {
	// LogDir is the base folder of log files, "" for a temporary one; Redirects
	// and Tee are the flags' text, which package launch/logs understands.
	LogDir, Redirects, Tee string
	ReportFile             string // "" for none
}

// Checks say how the nodes are compared.
type Checks struct {
	Preflight Preflight
	Ignore    []string // checks whose findings are dropped, by id or name as the user wrote it: "V01", "nccl-version"
	// Iface is what the workers' libraries shall talk over: "" leaves it to them,
	// "auto" finds a common choice, else an interface's name or a network in CIDR.
	Iface string
	// Check: the nodes are compared and nothing is started; Program may be "".
	Check *Check
}

// Command is the program to run.
type Command struct {
	NoPython, Module bool
	Program          string
	Args             []string
}

// Network is how the nodes meet.
type Network struct {
	Backend Backend
	// Endpoints are where the nodes meet: for Gossip at least one, all with a
	// port (except with LocalNodes: none); for Static exactly one, equal to
	// MasterAddr:MasterPort; for EtcdV3 etcd's own; for Standalone none.
	Endpoints []Endpoint
	Conf      Conf
	Etcd      Etcd
	// StoreOpen: the workers' store answers any address (--store-open).
	StoreOpen bool

	// LocalAddr is the address that this node tells the others, "" to choose one.
	LocalAddr string
	// MasterAddr and MasterPort are where the workers' store must be. With Gossip
	// they are "" and 0: agreed in the rendezvous. With Standalone "" means that
	// nobody named an address, and port 0 any free port.
	MasterAddr string
	MasterPort int
	// MeetBy are the flags or variables that name them, for messages, the one of the
	// address first; nil if nobody can name them, or only the port.
	MeetBy []string
	// Ports confines every other port that gorun opens.
	Ports PortRange

	SecretFile string // whose text every node must have; "" for GORUN_SECRET or none
	Trusted    bool   // the nodes prove a secret to each other; set by the reader of the secret
}

// Nproc is the number of workers on this node: Count, or when Count is 0 what
// Of names ("auto", "cpu" or "gpu") at the time of the start.
type Nproc struct {
	Count int
	Of    string
}

// Conf is --rdzv-conf.
type Conf struct {
	JoinTimeout     time.Duration // for the whole rendezvous (600 s)
	LastCallTimeout time.Duration // for more nodes after MinNodes are there (30 s)
	// A node that is silent for KeepAliveMaxAttempt times KeepAliveInterval counts
	// as lost. The defaults (10 times 1 s) notice a dead node sooner than torchrun's
	// 3 times 5 s and forgive more lost packets.
	KeepAliveInterval   time.Duration
	KeepAliveMaxAttempt int
	// IsHost forces whether this node serves the endpoint; nil: found out by
	// comparing the endpoint with this node's addresses.
	IsHost *bool
}

// PortRange is an inclusive range of TCP and UDP ports; the zero value allows all.
type PortRange struct{ Lo, Hi int }

// Endpoint is a place where nodes meet.
type Endpoint struct {
	Host string // name or IP address, without brackets
	Port int
}

// String gives host:port, with brackets around an IPv6 address.
func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }
