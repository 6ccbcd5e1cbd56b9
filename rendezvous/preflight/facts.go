package preflight

import (
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// Format is the version of Facts in JSON; facts of another format are refused.
const Format = 1

// Facts is what an agent learnt about its node.
type Facts struct {
	Format      int                `json:"format"`
	Node        Node               `json:"node"`
	Program     Program            `json:"program"`
	Host        host.Facts         `json:"host"`
	GPU         GPU                `json:"gpu"`
	Libraries   library.Facts      `json:"libraries"`
	Network     netif.Facts        `json:"network"`
	RDMA        rdma.Facts         `json:"rdma"`
	Settings    []ncclenv.Value    `json:"settings,omitempty"`   // effective NCCL_, TORCH_, GLOO_, ... as the workers will have them
	ConfFiles   []ncclenv.ConfFile `json:"conf_files,omitempty"` // nccl.conf files that exist
	Files       []ncclenv.Named    `json:"files,omitempty"`      // files that variables of Settings name
	WrapperLoss *WrapperLoss       `json:"lost,omitempty"`       // nil: the program has no wrapper, or nothing was tried behind it
	Listeners   []Listener         `json:"listeners,omitempty"`  // ports for the probes of the other nodes
	Unknown     []Unknown          `json:"unknown,omitempty"`    // what could not be learnt
	TookMS      float64            `json:"took_ms"`              // time of gathering, milliseconds
}

// Node names the agent and what it starts.
type Node struct {
	ID       string `json:"id"`
	Name     string `json:"name"` // as messages name it, e.g. "node1 (10.0.0.1)"
	Host     string `json:"host"`
	Addr     string `json:"addr"`     // IP address that the other agents reach
	Version  string `json:"version"`  // gorun's
	Protocol int    `json:"protocol"` // gorun's
	Workers  int    `json:"workers"`  // local world size
	Role     string `json:"role,omitempty"`
	NodeRank int    `json:"node_rank"` // --node-rank; -1: not given
	RunID    string `json:"run_id"`
	Offset   int64  `json:"clock_offset_ns"` // of this node's clock from the coordinator's, known only after the join; 0: same or unknown
	Within   int64  `json:"clock_within_ns"` // how far Offset may be wrong: half a round trip
}

// Program is what the node would start.
type Program struct {
	Title  string   `json:"title,omitempty"`  // what the user named; empty: no program to run (gorun check)
	Path   string   `json:"path,omitempty"`   // file that is executed
	Args   []string `json:"args,omitempty"`   // arguments of the user's program, without credentials
	Script string   `json:"script,omitempty"` // file that the user named, absolute; of a Go package or a module: empty
	Hash   string   `json:"hash,omitempty"`   // SHA-256 of Script in hex
	Dir    string   `json:"dir,omitempty"`    // working directory
	Python string   `json:"python,omitempty"` // interpreter, if there is one

	Modules []Module `json:"modules,omitempty"` // beside a Python script, by path
	More    bool     `json:"more,omitempty"`    // there are modules beyond the bounds
}

// Module is a Python file in the folder of the script, or below it.
type Module struct {
	Path string `json:"path"` // from that folder
	Hash string `json:"hash"` // of its size and its beginning, or "unreadable"
}

// WrapperLoss has the variables that a wrapper before the program (docker run, ssh,
// sudo) does not pass on to a worker, as a program in the worker's place saw them. If
// all lists of names are empty, every variable arrives.
type WrapperLoss struct {
	Wrapper       string   `json:"wrapper"`
	Missing       []string `json:"missing,omitempty"`
	Changed       []string `json:"changed,omitempty"`
	Forced        []string `json:"forced,omitempty"`  // essential to workers, but the command line sets one value for all
	Fix           []string `json:"fix,omitempty"`     // lines of a Finding.Fix
	NoProbeReason string   `json:"unseen,omitempty"`  // why no program could run behind the wrapper; the names are then the variables that its options withhold
	Assumed       bool     `json:"assumed,omitempty"` // the loss is not certain: no probe ran, or the wrapper's configuration may pass the names on

	// The fields below concern variables that depend on the other nodes' facts.
	Conditional   []string `json:"perhaps,omitempty"` // of the names above, those that count only if the workers get them
	BlocksUnknown bool     `json:"closed,omitempty"`  // a made-up variable did not arrive, so the wrapper passes on known names only
	Arrived       []string `json:"passed,omitempty"`  // with BlocksUnknown: the variables that arrived
	Unsent        []string `json:"untried,omitempty"` // the workers get them, the probe did not send them, and they will probably not arrive
}

// EssentialVariables returns the variables without which a worker cannot find
// its place.
func EssentialVariables() []string {
	return []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
}

// GPU is what is known of the node's NVIDIA devices. Without a driver nothing
// else is known, and the rules about NCCL do not apply to the node.
type GPU struct {
	Driver  bool     `json:"driver"`            // a device node or the driver's /proc folder exists
	Devices []Device `json:"devices,omitempty"` // as NVML lists them, whatever CUDA_VISIBLE_DEVICES says
	Visible []string `json:"visible,omitempty"` // UUIDs that CUDA_VISIBLE_DEVICES leaves, in CUDA's order
	Owned   []string `json:"owned,omitempty"`   // UUIDs that the agent gives to its workers only; empty: it gives none, or other agents may use them, too
	Shared  bool     `json:"shared,omitempty"`  // the user lets workers share GPUs
	Error   string   `json:"error,omitempty"`   // why NVML does not work
	NVML    string   `json:"nvml,omitempty"`    // NVML's version
	Busy    []Holder `json:"busy,omitempty"`    // processes that hold a device now
}

// Device is one GPU as NVML sees it.
type Device struct {
	Index int    `json:"index"` // in PCI order
	UUID  string `json:"uuid,omitempty"`
	PCI   string `json:"pci,omitempty"`
	Name  string `json:"name,omitempty"`
	Error string `json:"error,omitempty"` // why NVML gives no handle for it: the GPU is faulty

	// The fields below are nil, empty or "" if the driver does not know them.
	Denied    string   `json:"denied,omitempty"`    // why the node's processes may not use it
	NUMA      *int     `json:"numa,omitempty"`      // node of the CPUs next to it
	MIG       *bool    `json:"mig,omitempty"`       // whether it is cut into MIG instances
	Instances []string `json:"instances,omitempty"` // UUIDs of these

	DeviceState
}

// DeviceState is the state of a GPU, as far as its driver reports it. A field
// that is nil, empty or "" is unknown, which is never the same as zero.
type DeviceState struct {
	MemoryMiB   *uint64 `json:"memory_mib,omitempty"`   // in total
	Capability  string  `json:"capability,omitempty"`   // of CUDA: "9.0"
	ComputeMode string  `json:"compute_mode,omitempty"` // "default", "exclusive-process", "prohibited"
	Persistence *bool   `json:"persistence,omitempty"`

	Uncorrected   *uint64  `json:"uncorrected,omitempty"`    // errors of memory since the driver was loaded
	RemapPending  *bool    `json:"remap_pending,omitempty"`  // rows of memory are remapped at the next reset
	RemapFailed   *bool    `json:"remap_failed,omitempty"`   // no row is left to remap to
	RetirePending *bool    `json:"retire_pending,omitempty"` // pages are retired at the next reset
	Slowed        []string `json:"slowed,omitempty"`         // why its clocks are held down, if the reason is a fault
	Links         []bool   `json:"nvlinks,omitempty"`        // for each NVLink of the GPU: whether it is up
	Fabric        string   `json:"fabric,omitempty"`         // state that the Fabric Manager set: "unsupported", "not started", "in progress", "completed", "unknown"
	FabricError   string   `json:"fabric_error,omitempty"`   // error of a fabric that is completed without success

	NICs     []string `json:"nearest_nics,omitempty"` // all of them equally near
	Distance string   `json:"distance,omitempty"`     // to them, in nvidia-smi's words: "PIX"
}

// Holder is a process that holds a GPU.
type Holder struct {
	GPU    string `json:"gpu"` // UUID
	PID    int    `json:"pid"`
	Name   string `json:"name,omitempty"`
	User   string `json:"user,omitempty"`
	MemMiB int64  `json:"mem_mib,omitempty"`
}

// Listener is a port that the agent opened at one of its addresses for the
// probes of other nodes.
type Listener struct {
	Iface string `json:"iface"`
	Addr  string `json:"addr"` // IP address, with its zone if it has one
	Port  int    `json:"port"`
	Use   Use    `json:"use"`
	Ports []int  `json:"ports,omitempty"` // all ports that are open at the address, Port among them, spread over the range that programs get ports from
}

// Use is what workers would use an address for.
type Use string

const (
	UseBootstrap Use = "bootstrap" // the first address that NCCL would choose
	UseData      Use = "data"      // NET/Socket's further addresses
	UseGloo      Use = "gloo"      // the address that Gloo would choose
	UsePorts     Use = "ports"     // another port of an address that has one of the uses above
)

// Unknown is a fact that could not be learnt.
type Unknown struct {
	Source string `json:"source"` // "gpu", "library", "host", "network", "rdma", "settings", or one of the constants below
	Why    string `json:"why"`
}

// These are the sources of Unknown that rules ask for.
const (
	WrapperSource = "delivery" // no program could run behind the wrapper
	IfaceSource   = "--iface"  // --iface could not be followed on the node
)

// Env returns the value that the node's workers have of a variable, "" if it is
// unset.
func (n *Facts) Env(name string) string {
	value, _ := n.Setting(name)
	return value
}

// Setting returns the value of a variable as Env does, and whether the variable
// is set.
func (n *Facts) Setting(name string) (string, bool) {
	for i := range n.Settings {
		if n.Settings[i].Name == name {
			return n.Settings[i].Value, true
		}
	}
	return "", false
}

// EnvWith returns Env with another value of one variable; "" unsets it.
func (n *Facts) EnvWith(name, value string) func(string) string {
	return func(s string) string {
		if s == name {
			return value
		}
		return n.Env(s)
	}
}

// SettingSource returns where a variable is set: ncclenv.Environment or the
// path of a conf file; "" if it is unset.
func (n *Facts) SettingSource(name string) string {
	for i := range n.Settings {
		if n.Settings[i].Name == name {
			return n.Settings[i].Source
		}
	}
	return ""
}

// NCCLCode returns the version of the NCCL that the node's workers load, 0 if
// unknown.
func (n *Facts) NCCLCode() int {
	if n.Libraries.NCCL == nil {
		return 0
	}
	return n.Libraries.NCCL.Code
}

// IsOn reports whether a switch of NCCL is set to anything but 0.
func (n *Facts) IsOn(name string) bool {
	value, set := n.Setting(name)
	return set && value != "" && value != "0"
}

// Knows reports whether every fact of a source is known.
func (n *Facts) Knows(source string) bool {
	for _, u := range n.Unknown {
		if u.Source == source {
			return false
		}
	}
	return true
}

// KnowsSettings reports whether the node's variables are known. Conf files that
// may change them can still be unknown.
func (n *Facts) KnowsSettings() bool {
	return len(n.Settings) > 0 || len(n.ConfFiles) > 0 || n.Knows("settings")
}
