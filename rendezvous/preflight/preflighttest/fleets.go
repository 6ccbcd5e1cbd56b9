// Package preflighttest makes the facts of healthy fleets, which tests then break.
package preflighttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// H100s returns a healthy fleet: nodes of 8 GPUs and 4 InfiniBand adapters that
// run torch with the NCCL of its wheel.
func H100s(nodes int) *preflight.Fleet {
	f := CPUs(nodes)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		n.Node.Workers = 8
		n.GPU = preflight.GPU{Driver: true, NVML: "12.550.54.15"}
		for g := range 8 {
			id := fmt.Sprintf("GPU-%d-%d", i, g)
			n.GPU.Devices = append(n.GPU.Devices, preflight.Device{Index: g, UUID: id, PCI: fmt.Sprintf("0000:%02x:00.0", g+16), Name: "NVIDIA H100 80GB HBM3"})
			n.GPU.Visible = append(n.GPU.Visible, id)
			n.Host.DevNodes = append(n.Host.DevNodes, host.Node{Path: fmt.Sprintf("/dev/nvidia%d", g)})
		}
		n.Host.DevNodes = append(n.Host.DevNodes, host.Node{Path: "/dev/nvidiactl"}, host.Node{Path: "/dev/nvidia-uvm"})
		n.Host.SysPCI, n.Host.ProcGPU = true, true
		const site = "/opt/venv/lib/python3.11/site-packages"
		n.Libraries = library.Facts{
			NCCL:       &library.NCCL{Path: site + "/nvidia/nccl/lib/libnccl.so.2", Version: "2.27.5", Code: 22705, CUDA: "12.9", Why: "RPATH of libtorch_cuda.so"},
			Candidates: []library.NCCL{{Path: "/usr/lib/x86_64-linux-gnu/libnccl.so.2", Version: "2.17.1", Code: 21701, CUDA: "12.0", Why: "RPATH comes before ld.so.cache"}},
			Wheels:     []library.Wheel{{Name: "nvidia-nccl-cu12", Version: "2.27.5", Site: site, File: true}},
			Torch:      "2.9.0", TorchCUDA: "12.8", Python: "3.11",
			Driver: "550.54.15", NVML: "550.54.15",
			CUDA: []library.CUDA{{Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Version: "550.54.15", Why: "ld.so.cache"}},
		}
		for h := range 4 {
			n.RDMA.Devices = append(n.RDMA.Devices, rdma.Device{
				Name: fmt.Sprintf("mlx5_%d", h), GUID: fmt.Sprintf("%04x:0000:0000:%04x", i+1, h+1), Driver: "mlx5", Verbs: fmt.Sprintf("uverbs%d", h),
				Ports: []rdma.Port{{Number: 1, State: "ACTIVE", Link: "InfiniBand", Rate: "400 Gb/sec (4X NDR)", MTU: 4096, GIDs: []rdma.GID{{GID: "fe80::1", Type: "IB/RoCE v1"}}}},
			})
			n.RDMA.Nodes = append(n.RDMA.Nodes, rdma.DevNode{Path: fmt.Sprintf("/dev/infiniband/uverbs%d", h)})
		}
		n.RDMA.Verbs = rdma.Library{Path: "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"}
		n.RDMA.Provider = []string{"mlx5"}
		n.RDMA.PeerMem = true
		Set(n, "NCCL_DEBUG", "WARN")
	}
	return f
}

// CPUs returns a healthy fleet without GPUs: torch with Gloo over one
// interface.
func CPUs(nodes int) *preflight.Fleet {
	f := &preflight.Fleet{Master: "10.0.0.1:29500"}
	for i := range nodes {
		ip := fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)
		name := fmt.Sprintf("node%d", i+1)
		n := preflight.Facts{
			Format: preflight.Format,
			Node: preflight.Node{
				ID: fmt.Sprint("id", i), Name: name + " (" + ip + ")", Host: name, Addr: ip,
				Version: "1.0.0", Protocol: 1, Workers: 4, NodeRank: -1, RunID: "run42",
			},
			Program: preflight.Program{
				Title: "train.py", Path: "/opt/venv/bin/python", Python: "/opt/venv/bin/python", Script: "/job/train.py",
				Args: []string{"--lr", "3e-4"}, Hash: strings.Repeat("ab", 32), Dir: "/job",
			},
			Libraries: library.Facts{Torch: "2.9.0", Python: "3.11"},
		}
		n.Host = host.Facts{
			Hostname: name, BootID: fmt.Sprint("boot", i), NS: host.NS{Net: "net:[4026531840]", IPC: "ipc:[1]", PID: "pid:[1]"},
			Kernel: "6.8.0-60-generic", Arch: "x86_64", CPUVendor: "GenuineIntel", CPUs: 96, MemKiB: 1 << 30,
			SHM: host.SHM{Dev: 24, Size: 512 << 30, Free: 500 << 30},
			Limits: host.Limits{
				NoFileSoft: 1 << 20, NoFileHard: 1 << 20, MemLock: -1, MemLockSoft: -1, NProc: -1, PIDMax: 4194304, PidsMax: -1,
				ThreadsMax: 8000000, Stack: 8 << 20, AS: -1, MemMax: -1, MemCurrent: -2,
			},
			Sysctl: host.Sysctl{SomaxConn: 16384, GCThresh3: 65536, ConntrackMax: -2, ConntrackUsed: -2, FileMax: 1 << 40},
		}
		n.Network = netif.Facts{
			Interfaces: []netif.Interface{
				{Index: 1, Name: "lo", MTU: 65536, Up: true, Running: true, Loopback: true},
				{Index: 2, Name: "eth0", MTU: 9000, MAC: fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255), Up: true, Running: true, Speed: 25000, Device: true},
				{Index: 3, Name: "docker0", MTU: 1500, MAC: "02:42:00:00:00:01", Up: true, Kind: "bridge"},
			},
			Addresses: []netif.Address{
				{Index: 1, Label: "lo", IP: "127.0.0.1", Bits: 8, Scope: "host"},
				{Index: 2, Label: "eth0", IP: ip, Bits: 16, Scope: "global"},
				{Index: 3, Label: "docker0", IP: "172.17.0.1", Bits: 16, Scope: "global"},
				{Index: 1, Label: "lo", IP: "::1", Bits: 128, Scope: "host"},
				{Index: 2, Label: "eth0", IP: fmt.Sprintf("fe80::%x", i+1), Bits: 64, Scope: "link"},
			},
			Host: name, Hostname: []string{ip}, HostFrom: "/etc/hosts", HostKnown: true,
			RPFilter: 2, ARPIgnore: 0, PortFirst: 32768, PortLast: 60999,
		}
		Set(&n, "OMP_NUM_THREADS", "8")
		f.Nodes = append(f.Nodes, n)
	}
	return f
}

// OnOneMachine puts all nodes onto one machine, as --local-nodes does.
func OnOneMachine(f *preflight.Fleet) *preflight.Fleet {
	for i := range f.Nodes {
		f.Nodes[i].Host = f.Nodes[0].Host
		f.Nodes[i].Network = f.Nodes[0].Network
		f.Nodes[i].GPU.Devices = f.Nodes[0].GPU.Devices
		f.Nodes[i].Node.Host = f.Nodes[0].Node.Host
		f.Nodes[i].Node.Addr = fmt.Sprintf("127.0.0.%d", i+1)
	}
	f.Master = "127.0.0.1:29500"
	return f
}

// Set gives the node's workers a variable.
func Set(n *preflight.Facts, name, value string) { SetFrom(n, name, value, ncclenv.Environment) }

// SetFrom gives the node's workers a variable that source sets.
func SetFrom(n *preflight.Facts, name, value, source string) {
	n.Settings = append(n.Settings, ncclenv.Value{Name: name, Value: value, Source: source})
	slices.SortFunc(n.Settings, func(a, b ncclenv.Value) int { return strings.Compare(a.Name, b.Name) })
}
