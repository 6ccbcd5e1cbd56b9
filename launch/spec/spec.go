// Package spec holds what the user asked for, as plain data. Raw holds the flags as
// they were written; Spec holds what they mean.
//
// Invariants: Resolve reads nothing but its arguments. The one exception is the
// random run id of --standalone. A Spec that Resolve returns is complete and
// consistent, so later stages check nothing again. Each error is one line for the
// user and means a wrong command line (exit code 2).
//
// Where torchrun has the flag, the name, the default and the checks are torchrun's,
// and the variable PET_<NAME> gives the flag's default.
package spec

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Backend says how the nodes of a job find each other.
type Backend string

// These are the backends of this build. "c10d" means Gossip: it is torchrun's name
// for the rendezvous that needs no installed service.
const (
	Gossip     Backend = "gossip"
	Static     Backend = "static"
	Standalone Backend = "standalone"
	EtcdV3     Backend = "etcd"
)

// Ports and times that apply when the user names none.
const (
	DefaultPort       = 29400 // of an endpoint (torchrun's c10d)
	DefaultEtcdPort   = 2379  // of etcd's clients
	DefaultMasterPort = 29500 // of --master-port (torchrun's static)

	// DefaultShutdownTimeout is torchrun's time between SIGTERM and SIGKILL.
	DefaultShutdownTimeout = 30 * time.Second
	// DefaultHangTimeout is half of the time after which NCCL's watchdog ends a job.
	DefaultHangTimeout = 5 * time.Minute
)

// UsageError is an error in the command line or in a file that it names: exit code
// 2.
type UsageError struct{ Err error }

func (u *UsageError) Error() string { return u.Err.Error() }

func (u *UsageError) Unwrap() error { return u.Err }

// Spec is a checked request. Each part of an agent gets one of its embedded parts.
type Spec struct {
	Nodes
	Network
	Output
	Checks
	Command
	End

	RunID   string
	Nproc   Nproc
	Devices Devices
	Role    string
	Env     Env

	// Dry says what to show if the nodes meet and decide, but start nothing (gorun
	// run --dry-run, gorun env); nil: the job runs.
	Dry *Dry

	// Surroundings says what started this process, and which values come from there.
	Surroundings Surroundings

	// Notes are lines for the user on options that have no effect here.
	Notes []string
}

// Nodes says how many nodes a job has, and which of them this node is.
type Nodes struct {
	// MinNodes and MaxNodes bound the number of nodes: 0 < MinNodes <= MaxNodes.
	// They are equal unless the job is elastic.
	MinNodes, MaxNodes int
	// LocalNodes is the number of agents to start on this machine (--local-nodes);
	// 0: this process is one agent. Above 1 Backend is EtcdV3, or Gossip without
	// Endpoints, and the process that starts the agents chooses the endpoint and the
	// node ranks.
	LocalNodes int
	// NodeRank is the group rank that the user asks for, or -1. Static and
	// Standalone always have one.
	NodeRank int
	// JoinWaits makes a node that comes while an elastic job runs wait for the next
	// round (--on-join=wait), instead of starting it.
	JoinWaits bool
}

// End says what a failure and a signal do.
type End struct {
	MaxRestarts     int
	Signals         []syscall.Signal // that end the job (--signals-to-handle); of the others gorun takes no notice
	ShutdownTimeout time.Duration    // SIGTERM to SIGKILL; 0: SIGKILL at once
	ReportOn        ReportOn
	RequeueExitCode int           // of an end after which another try may help; 0: the cause's own code
	HangTimeout     time.Duration // without progress of any rank, from which the job hangs; 0: nothing is watched
	OnHang          OnHang
}

// OnHang says what gorun does about a job that hangs.
type OnHang string

// These are the values of OnHang.
const (
	OnHangReport  OnHang = "report"  // and let it go on
	OnHangAbort   OnHang = "abort"   // end the job, without a restart
	OnHangRestart OnHang = "restart" // end the round, as a failure does
)

// ReportOn says which nodes print the report and the warnings of the whole job.
type ReportOn string

// These are the values of ReportOn. With ReportFirst every other node prints one line
// about the end.
const (
	ReportAll   ReportOn = "all"
	ReportFirst ReportOn = "first" // the node with rank 0, where ranks are given
)

// Output says where the workers' output and the report go.
type Output struct {
	// LogDir is the base folder of log files, or "" for a temporary one. Redirects
	// and Tee are the texts of the flags; package launch/logs reads them.
	LogDir, Redirects, Tee string
	Console                Console
	Filters                Filters
	Events                 EventHandler
	ReportFile             string // "": none
	MetricsAddr            string // host:port of /healthz, /readyz and /metrics; "": none
}

// Checks says how the nodes are compared.
type Checks struct {
	Preflight Preflight
	SelfTest  bool     // each round, ranks test the nodes together before the program starts
	Ignore    []string // checks to ignore, by id or name as the user wrote it: "V01", "nccl-version"
	// Iface says which interface the workers' libraries use: "" leaves it to them,
	// "auto" finds a common choice; any other text is the name of an interface or a
	// network in CIDR.
	Iface string
	// Check holds the options of gorun check, which compares the nodes and starts
	// nothing; Program may then be "". It is nil for a job that runs.
	Check *Check
}

// Command is the program to run.
type Command struct {
	NoPython, Module bool
	// RunPath runs the script in Python's runpy (--run-path); it wins over NoPython.
	RunPath bool
	// LocalRankArg gives each worker --local-rank=N as its first argument (gorun
	// launch without --use-env).
	LocalRankArg bool
	Program      string
	Args         []string
}

// Network says how the nodes meet.
type Network struct {
	Backend Backend
	// Endpoints lists where the nodes meet. For Gossip it has at least one
	// endpoint, all with a port (with LocalNodes: none). For Static it has exactly
	// one, equal to MasterAddr:MasterPort. For EtcdV3 it has etcd's own endpoints,
	// for Standalone none.
	Endpoints []Endpoint
	Conf      Conf
	Etcd      Etcd
	// StoreOpen lets the workers' store serve clients at any address
	// (--store-open).
	StoreOpen bool

	// LocalAddr is the address that this node announces to the others; "" means
	// that gorun chooses one.
	LocalAddr string
	// Host is the scheduler's name of this node, and Peer that of another node; "":
	// unknown. The address of Host is this node's if the user names none.
	Host, Peer string
	// MasterAddr and MasterPort say where the workers' store must be. With Gossip
	// they are "" and 0, because the rendezvous decides. With Standalone "" means
	// that the user named no address, and 0 means any free port.
	MasterAddr string
	MasterPort int
	// StoreOwner says who opens the store at that port.
	StoreOwner StoreOwner
	// MasterFrom lists the flags or variables that name the two, for messages; the one
	// for the address comes first. It is nil if no flag or variable can name them,
	// or only the port.
	MasterFrom []string
	// Ports bounds all other ports that gorun opens.
	Ports PortRange

	Secret
}

// StoreOwner says which process opens the store at MASTER_ADDR:MASTER_PORT.
type StoreOwner int

// torchrun's agent opens the store of its static rendezvous. With its c10d rendezvous,
// so with --standalone, the worker with rank 0 does.
const (
	// AgentAtPort means that the agent opens it, at MasterPort if that is not 0.
	AgentAtPort StoreOwner = iota
	// AgentNearPort means that the agent opens it, at MasterPort if that port is free.
	AgentNearPort
	// RankZero means that the worker with rank 0 opens it, at a free port.
	RankZero
)

// Secret says what the nodes prove to each other.
type Secret struct {
	SecretFile string // file with the secret that every node must have; "": GORUN_SECRET, or none of the user
	SecretFrom string // where the nodes have the secret from, for gorun env; set when the session is open
	Trusted    bool   // the nodes prove a secret that no stranger knows; set when the session is open
}

// Nproc is the number of workers on this node. If Count is 0, it is the number of
// what Of names ("auto", "cpu" or "gpu") at the time of the start.
type Nproc struct {
	Count int
	Of    string
}

// Conf holds the values of --rdzv-conf.
type Conf struct {
	JoinTimeout     time.Duration // for the whole rendezvous (600 s)
	LastCallTimeout time.Duration // how long to wait for more nodes after MinNodes have come (30 s)
	// A node that is silent for KeepAliveMaxAttempt times KeepAliveInterval counts
	// as lost. The defaults (10 times 1 s) find a lost node sooner than torchrun's
	// 3 times 5 s and tolerate more lost packets.
	KeepAliveInterval   time.Duration
	KeepAliveMaxAttempt int
	// IsHost forces whether this node serves the endpoint. If it is nil, gorun
	// compares the endpoint with this node's addresses.
	IsHost *bool
}

// PortRange is a range of TCP and UDP ports that includes both ends; the zero value
// allows all.
type PortRange struct{ Lo, Hi int }

// String returns the range as ParsePortRange reads it, "" for no limit.
func (r PortRange) String() string {
	if r == (PortRange{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", r.Lo, r.Hi)
}

// Endpoint is a place where nodes meet.
type Endpoint struct {
	Host string // name or IP address, without brackets
	Port int    // of no meaning for the name of a service record, which has the ports
}

// IsService reports whether the host is the name of a DNS service (SRV) record:
// _name._tcp.domain.
func (e Endpoint) IsService() bool {
	name, rest, ok := strings.Cut(e.Host, ".")
	return ok && strings.HasPrefix(name, "_") && strings.HasPrefix(strings.ToLower(rest), "_tcp.")
}

// String returns host:port, with brackets around an IPv6 address, or the name of a
// service record.
func (e Endpoint) String() string {
	if e.IsService() {
		return e.Host
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
}
