// Package rdma reads what NCCL's NET/IB and net plugins would find on a node:
// verbs devices in /sys, libibverbs and its providers, plugin files. From that
// and the environment that workers will have, it reproduces which network,
// which adapters and which GIDs NCCL would use.
//
// Invariants: Transport, HCAs and Port.GID are pure. Gather reads files and
// asks its Find which libraries dlopen would find; it uses no verbs and no
// dlopen. In /dev/infiniband it opens and closes the uverbs nodes, to see
// whether they can be opened. Everything is bounded.
package rdma

// Facts is what is known of the node's RDMA.
type Facts struct {
	Devices  []Device  `json:"devices,omitempty"`
	Verbs    Library   `json:"verbs"`              // libibverbs
	Provider []string  `json:"provider,omitempty"` // drivers for which libibverbs finds a library: "mlx5", sorted
	Nodes    []DevNode `json:"nodes,omitempty"`    // /dev/infiniband/*
	Plugin   []Plugin  `json:"plugin,omitempty"`   // net plugins in NCCL's order, then the tuner; empty: NCCL looks for libnccl-net.so and finds none
	PeerMem  bool      `json:"peer_mem"`           // nvidia_peermem or nv_mem is loaded
}

// Library is where a shared library is.
type Library struct {
	Path  string `json:"path,omitempty"`  // "" if it is not found
	Error string `json:"error,omitempty"` // why it is unusable: not found, lacks symbol version IBVERBS_1.1
	Why   string `json:"why,omitempty"`
}

// Device is one HCA.
type Device struct {
	Name     string `json:"name"` // mlx5_0
	Firmware string `json:"firmware,omitempty"`
	Board    string `json:"board,omitempty"`
	Type     string `json:"type,omitempty"`
	GUID     string `json:"guid,omitempty"`
	Driver   string `json:"driver,omitempty"` // libibverbs' name: "mlx5"; "" unknown
	Verbs    string `json:"verbs,omitempty"`  // its file in /dev/infiniband: "uverbs0"
	Ports    []Port `json:"ports,omitempty"`
}

// Port is a port of an HCA.
type Port struct {
	Number int    `json:"number"`
	State  string `json:"state"`          // "ACTIVE", "DOWN", "INIT"
	Phys   string `json:"phys,omitempty"` // "LinkUp", "Polling", "Disabled"
	Link   string `json:"link"`           // "InfiniBand", "Ethernet"; EFA has "Unspecified"
	Rate   string `json:"rate,omitempty"` // "400 Gb/sec (4X NDR)"
	MTU    int    `json:"mtu,omitempty"`  // active_mtu in bytes, 0 unknown: /sys does not have it
	GIDs   []GID  `json:"gids,omitempty"` // GIDs of an active port that are not zero
}

// GID is an entry of a port's GID table.
type GID struct {
	Index int    `json:"index"`
	GID   string `json:"gid"`  // "::ffff:10.0.0.1", "fe80::1"
	Type  string `json:"type"` // "IB/RoCE v1", "RoCE v2"
	Iface string `json:"iface,omitempty"`
}

// DevNode is a file of /dev/infiniband.
type DevNode struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty"`
}

// Plugin is a library that NCCL would load, or that the user asks for and NCCL
// cannot load.
type Plugin struct {
	Name     string   `json:"name"`            // "net", "tuner"
	Asked    string   `json:"asked,omitempty"` // as NCCL_NET_PLUGIN or NCCL_TUNER_PLUGIN has it; "" for the default
	Path     string   `json:"path"`
	Hash     string   `json:"hash,omitempty"`     // SHA-256, hex, of files up to 64 MiB
	Versions []string `json:"versions,omitempty"` // ncclNetPlugin_v8, ...
	Error    string   `json:"error,omitempty"`
}
