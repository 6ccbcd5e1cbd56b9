// Package rdma reads what NCCL's NET/IB and net plugins would find on a node:
// verbs devices in /sys, libibverbs and its providers, plugin files; and
// reproduces, from that and the environment that workers will have, which
// network, which adapters and which GIDs NCCL would use.
//
// Invariants: Transport, HCAs and Port.GID are pure. Gather reads files, and
// asks its Find which libraries dlopen would find: no verbs, no dlopen; of
// /dev/infiniband it opens and closes the uverbs nodes, for their permission. Everything is bounded.
package rdma

// Facts is what is known of the node's RDMA.
type Facts struct {
	Devices  []Device  `json:"devices,omitempty"`
	Verbs    Library   `json:"verbs"`              // libibverbs
	Provider []string  `json:"provider,omitempty"` // drivers that libibverbs finds a library for: "mlx5", sorted
	Nodes    []DevNode `json:"nodes,omitempty"`    // /dev/infiniband/*
	Plugin   []Plugin  `json:"plugin,omitempty"`   // net plugins in NCCL's order, then the tuner; none: NCCL looks for libnccl-net.so and there is none
	PeerMem  bool      `json:"peer_mem"`           // nvidia_peermem or nv_mem is loaded
}

// Library is where a shared library is.
type Library struct {
	Path  string `json:"path,omitempty"`  // "" when it is not found
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
	Driver   string `json:"driver,omitempty"` // of libibverbs: "mlx5"; "" unknown
	Verbs    string `json:"verbs,omitempty"`  // its file of /dev/infiniband: "uverbs0"
	Ports    []Port `json:"ports,omitempty"`
}

// Port of an HCA.
type Port struct {
	Number int    `json:"number"`
	State  string `json:"state"`          // "ACTIVE", "DOWN", "INIT"
	Phys   string `json:"phys,omitempty"` // "LinkUp", "Polling", "Disabled"
	Link   string `json:"link"`           // "InfiniBand", "Ethernet"; EFA has "Unspecified"
	Rate   string `json:"rate,omitempty"` // "400 Gb/sec (4X NDR)"
	MTU    int    `json:"mtu,omitempty"`  // active_mtu bytes, 0 unknown: /sys does not say it
	GIDs   []GID  `json:"gids,omitempty"` // that are not zero, of an active port
}

// GID of a port.
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

// Plugin is a library that NCCL would load, or that is asked for and cannot be loaded.
type Plugin struct {
	Name     string   `json:"name"`            // "net", "tuner"
	Asked    string   `json:"asked,omitempty"` // as NCCL_NET_PLUGIN or NCCL_TUNER_PLUGIN has it; "" for the default
	Path     string   `json:"path"`
	Hash     string   `json:"hash,omitempty"`     // SHA-256, hex, of files up to 64 MiB
	Versions []string `json:"versions,omitempty"` // ncclNetPlugin_v8, ...
	Error    string   `json:"error,omitempty"`
}
