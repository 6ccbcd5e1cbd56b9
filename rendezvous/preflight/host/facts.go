// Package host reads what identifies and limits a machine or container: names,
// namespaces, kernel, clock, shared memory, resource limits, leftovers.
//
// Invariants: it needs no privilege, changes nothing, and leaves unknown what
// it may not read. Work that may block, such as opening a device or reading a
// remote file system, runs beside the rest and is abandoned in time. The
// estimates of what a job needs are pure functions.
package host

// Unlimited is the value of a limit that limits nothing.
const Unlimited = -1

// Facts is what is known of the host.
type Facts struct {
	Hostname  string   `json:"hostname"`
	BootID    string   `json:"boot_id,omitempty"`
	MachineID string   `json:"machine_id,omitempty"`
	NS        NS       `json:"ns"`
	Kernel    string   `json:"kernel,omitempty"` // uname -r
	Arch      string   `json:"arch,omitempty"`   // uname -m
	CPUVendor string   `json:"cpu_vendor,omitempty"`
	CPUs      int      `json:"cpus"` // number of CPUs that this process may use
	MemKiB    int64    `json:"mem_kib,omitempty"`
	UnixNano  int64    `json:"unix_nano"` // wall clock when the facts were read
	SysPCI    bool     `json:"sys_pci"`   // /sys/class/pci_bus is readable
	ProcGPU   bool     `json:"proc_gpu"`  // /proc/driver/nvidia is readable
	DevNodes  []Node   `json:"dev_nodes,omitempty"`
	SHM       SHM      `json:"shm"`
	Limits    Limits   `json:"limits"`
	Sysctl    Sysctl   `json:"sysctl"`
	Leftover  Leftover `json:"leftover"`
	Container string   `json:"container,omitempty"` // "docker", "kubernetes"; "" without a sign of a container
}

// NS are the namespaces, as /proc/self/ns links name them.
type NS struct {
	Net  string `json:"net,omitempty"`
	IPC  string `json:"ipc,omitempty"`
	PID  string `json:"pid,omitempty"`
	Mnt  string `json:"mnt,omitempty"`
	User string `json:"user,omitempty"`
}

// Node is a device file that NVIDIA's stack opens.
type Node struct {
	Path  string `json:"path"`            // "/dev/nvidia0"
	Error string `json:"error,omitempty"` // why it could not be opened; "missing" if it is not there
}

// WSL is the one device file of the driver under WSL.
const WSL = "/dev/dxg"

// SHM is /dev/shm.
type SHM struct {
	Dev   uint64 `json:"dev"` // device number: equal for nodes that share it
	Size  int64  `json:"size"`
	Free  int64  `json:"free"`            // bytes; -1 unknown
	Flags string `json:"flags,omitempty"` // flags of the mount that matter: "ro", "noexec"
	Error string `json:"error,omitempty"` // why no file can be created there: "no such file or directory", "read-only file system"
}

// Limits are what a worker would get. Bytes or counts, Unlimited (-1), or -2
// for unknown.
type Limits struct {
	NoFileSoft  int64  `json:"nofile_soft"`
	NoFileHard  int64  `json:"nofile_hard"`
	MemLock     int64  `json:"memlock"`      // bytes, hard
	MemLockSoft int64  `json:"memlock_soft"` // bytes: workers get this value, as nothing raises it
	NProc       int64  `json:"nproc"`
	PIDMax      int64  `json:"pid_max"`  // kernel.pid_max
	PidsMax     int64  `json:"pids_max"` // cgroup
	PidsCurrent int64  `json:"pids_current"`
	ThreadsMax  int64  `json:"threads_max"`     // kernel.threads-max
	Stack       int64  `json:"stack"`           // bytes, soft
	AS          int64  `json:"as"`              // bytes, soft
	Data        *int64 `json:"data,omitempty"`  // bytes of private memory, soft; nil: not read; the same holds for the next two
	FSize       *int64 `json:"fsize,omitempty"` // bytes of one file, soft
	CPU         *int64 `json:"cpu,omitempty"`   // seconds of CPU time that a process may use, soft
	MemMax      int64  `json:"mem_max"`         // cgroup memory.max, bytes
	MemCurrent  int64  `json:"mem_current"`
	Caps        uint64 `json:"caps"` // CapEff
}

// Unknown is a limit that could not be read.
const Unknown = -2

// Sysctl holds sysctl values, Unknown if they cannot be read.
type Sysctl struct {
	SomaxConn     int64 `json:"somaxconn"`
	GCThresh3     int64 `json:"gc_thresh3"` // net.ipv4.neigh.default
	ConntrackMax  int64 `json:"conntrack_max"`
	ConntrackUsed int64 `json:"conntrack_used"`
	FileMax       int64 `json:"file_max"`
}

// Leftover is what earlier jobs may have left on the node.
type Leftover struct {
	SHMFiles int    `json:"shm_files"` // /dev/shm/nccl-* that no process maps, of this user
	SHMBytes int64  `json:"shm_bytes"`
	Unsure   bool   `json:"unsure,omitempty"` // a process of another container may map them
	Jobs     []Job  `json:"jobs,omitempty"`   // live processes of this user with the same run id, at most 16
	Log      []File `json:"log,omitempty"`    // folders for logs: NCCL_DEBUG_FILE's
}

// Job is a live worker of another job.
type Job struct {
	PID   int    `json:"pid"`
	RunID string `json:"run_id"`
	Name  string `json:"name"`
	Gorun bool   `json:"gorun,omitempty"` // started by gorun: perhaps by another agent of the same job
}

// File is a folder that workers would write to.
type File struct {
	Path     string `json:"path"`
	Writable bool   `json:"writable"`
	Free     int64  `json:"free"`            // bytes, -1 unknown
	Error    string `json:"error,omitempty"` // why it is not writable: "no such file or directory"
}
