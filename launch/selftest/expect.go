package selftest

import (
	"fmt"
	"strings"
)

// GPU is what the process of a rank learnt of its GPU and of the libraries for it.
type GPU struct {
	Model   string `json:"model"`
	UUID    string `json:"uuid"`
	Host    string `json:"nccl_host,omitempty"` // NCCL_HOSTID: what NCCL takes for the machine
	Visible int    `json:"visible"`             // GPUs that the process sees
	Driver  int    `json:"cuda_of_driver"`      // 13000 for 13.0
	NCCL    int    `json:"nccl"`                // 22809 for 2.28.9
	Library string `json:"nccl_library"`
	// Port is what the fastest port carries that NCCL uses to reach other nodes; 0: unknown.
	Port float64 `json:"port_gb_s,omitempty"`
}

// release returns the release of NCCL.
func (g *GPU) release() string {
	return fmt.Sprintf("%d.%d.%d", g.NCCL/10000, g.NCCL/100%100, g.NCCL%100)
}

// nccl names the release of NCCL and its file.
func (g *GPU) nccl() string { return fmt.Sprintf("%s (%s)", g.release(), g.Library) }

// model is what a kind of GPU can do, in GB/s. A name that is part of another one comes
// after it.
type model struct {
	name   string // part of the name that the driver gives it
	memory float64
	// link is what its NVLinks carry one way to the other GPUs of the machine, through
	// NVSwitches: half of what data sheets give for both ways. 0: the GPU is a card, whose
	// links depend on the machine.
	link float64
}

// models returns the table of GPUs; docs/selftest.md has it with the titles of the sources.
func models() []model {
	return []model{
		{"GB200", 8000, 900},          // Lockwood, B200; 4 GPUs of a node have measured 663 (OCI GPU Quick Start: GB200)
		{"B200", 7670, 900},           // bus and clock that the driver reports (torchao, "update b200 peak memory bandwidth"); data sheets: up to 8000. Links: Lockwood, B200
		{"GH200", 4000, 0},            // ml-engineering, accelerators: 96 GB; with 144 GB it is 4800
		{"H200 NVL", 4800, 0},         // OpenMetal, How the H200 is built for memory-bound AI workloads
		{"H200", 4800, 450},           // AnandTech, Nvidia at SC23: H200; MLPerf Inference v4.1, NVIDIA's system H200-SXM-141GBx8
		{"H100 NVL", 3900, 0},         // ml-engineering, accelerators
		{"H100 PCIe", 2000, 0},        // NVIDIA H100 PCIe GPU Product Brief, PB-11133: more than 2000
		{"H100 80GB HBM3", 3350, 450}, // AnandTech, Nvidia at SC23: H200; nccl-tests, "H100 all reduce performance is poor": 450 is the line rate
		{"A100-SXM4-80GB", 2039, 300}, // Lockwood, A100, which quotes NVIDIA's data sheet
		{"A100-SXM4-40GB", 1555, 300}, // the same; Paderborn PC2, NVIDIA A100 40GB with NVLINK
		{"A100 80GB PCIe", 1935, 0},   // Thunder Compute, NVIDIA A100 specs
		{"A100-PCIE-40GB", 1555, 0},   // the same
		{"L40", 864, 0},               // NVIDIA's figures of L40 and L40S, quoted by Mullet and IT Creations
		{"L4", 300, 0},                // NVIDIA's figures, quoted by Source Code (store) and Grokipedia, NVIDIA L4 vs L40S
	}
}

// What is expected is less than what healthy GPUs were seen to reach, so that only what is
// broken falls below.
const (
	// copyShare is of the memory's bandwidth, which a copy uses twice: it reads and writes
	// each byte, and is counted once here, as by nvbandwidth's device_local_copy. Seen: 74 to
	// 88 % of that half (H100, A100, H200, GB200). GPUs with few processors for their memory
	// reach less (H20-3e: 1116 of 2400 GB/s) and do not belong in the table.
	copyShare = 0.6 / 2
	// linkShare is of the links, for the bus bandwidth of nccl-tests. Seen with 256 MiB: 66 %
	// (GB200, 4 GPUs), 71 % (A100, 8), 96 % (H200, 8: its switches add, which saves traffic).
	linkShare = 0.6
	// largeEnough is the size from which a rate is compared: below it the start of a call
	// counts. 8 healthy A100 reach 56 % of their links with 64 MiB (Azure ND A100 v4 results).
	largeEnough = 256 * mib
)

// meshed is the number of GPUs of the machines whose NVLinks connect them without switches
// (HGX A100, H100 and H200 with 4 GPUs): each has a third of its links to each other one.
const meshed = 4

// expected returns the bus bandwidth in GB/s that a call of ranks on one machine must have,
// of which the job is known to use local GPUs; 0: unknown.
func (g *GPU) expected(kind Kind, ranks, local, bytes int) float64 {
	if g == nil || bytes < largeEnough {
		return 0
	}
	for _, m := range models() {
		if !strings.Contains(g.Model, m.name) || strings.Contains(g.Model, "MIG") {
			continue
		}
		switch {
		case kind == KindCopy && ranks == 1:
			return m.memory * copyShare
		case kind == KindAllReduce && ranks > 1 && ranks < meshed && max(local, g.Visible) <= meshed:
			return m.link * linkShare * float64(ranks-1) / (meshed - 1)
		case kind == KindAllReduce && ranks > 1:
			return m.link * linkShare
		}
		return 0
	}
	return 0
}
