package e2e_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

// TestPreflightHost checks the findings about a node's GPUs, limits, files and environment.
func TestPreflightHost(t *testing.T) {
	t.Parallel()
	for _, s := range []preflightCase{
		{
			name:  "a GPU is lost",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].nvml("gpus 2 host node2 broken 1") },
			finds: []string{"error D04"}, text: []string{"> node2 (rank 1)", "GPU 1", "GPU is lost"},
		},
		{
			name:  "the driver was upgraded under a running kernel module",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].nvml("init 18") },
			finds: []string{"error D04"}, text: []string{"> node2 (rank 1)", "Driver/library version mismatch"},
		},
		{
			name:  "the driver hangs",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].nvml("gpus 2 sleep 60") },
			finds: []string{"error D04"}, text: []string{"> node2 (rank 1)", "no answer within 20s"},
		},
		{
			name:  "more workers than GPUs",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].env = append(f.machines[1].env, "CUDA_VISIBLE_DEVICES=1") },
			flags: []string{"--nproc-per-node", "2"},
			finds: []string{"error D02"}, text: []string{"node2", "2 workers, 1 GPU visible of 2"},
		},
		{
			name: "somebody computes on a GPU",
			nics: twoMachines(),
			setup: func(f *fleet) {
				f.machines[1].nvml("gpus 2 host node2 busy 0 1")
			},
			finds: []string{"warning S01"}, text: []string{"node2", "GPU"},
		},
		{
			name: "a container lost its environment",
			nics: append(twoMachines(), eth0("10.77.0.3/24")),
			setup: func(f *fleet) {
				for _, m := range f.machines[:2] {
					m.env = append(m.env, "NCCL_SOCKET_IFNAME=eth0")
				}
				f.machines[2].env = append(f.machines[2].env, "container=docker")
			},
			finds: []string{"error E03"}, text: []string{"> node3 (rank 2)", "without NCCL_SOCKET_IFNAME", "docker"},
		},
		{
			name:  "a conf file on one node",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].write("/etc/nccl.conf", "NCCL_BUFFSIZE=8388608\n") },
			finds: []string{"error E01", "warning E05"}, text: []string{"NCCL_BUFFSIZE unset", "NCCL_BUFFSIZE=8388608", "/etc/nccl.conf", "node2"},
		},
		{
			name: "few open files",
			nics: twoMachines(),
			setup: func(f *fleet) {
				f.machines[0].gpus(8)
				f.machines[1].gpus(8)
				f.machines[1].Limits[unix.RLIMIT_NOFILE] = 120
			},
			flags: []string{"--ignore", "", "--nproc-per-node", "8"},
			finds: []string{"error L02"}, text: []string{"> node2", "hard limit 120, about 160 needed"},
		},
		{
			name: "few processes",
			nics: twoMachines(),
			setup: func(f *fleet) {
				f.machines[1].Limits[unix.RLIMIT_NPROC] = 3000
				f.machines[1].Drop = []uintptr{unix.CAP_SYS_RESOURCE}
			},
			finds: []string{"warning L04"}, text: []string{"> node2", "ulimit -u 3000"},
		},
		{
			name: "locked memory is limited",
			nics: twoMachines(),
			setup: func(f *fleet) {
				for _, m := range f.machines {
					m.adapter()
				}
				f.machines[1].Limits[unix.RLIMIT_MEMLOCK] = 64 << 10
				f.machines[1].Drop = []uintptr{unix.CAP_IPC_LOCK}
			},
			finds: []string{"error L03"}, text: []string{"> node2", "limit 64 KiB"},
		},
		{
			name: "an adapter on one node only",
			nics: twoMachines(),
			setup: func(f *fleet) {
				f.machines[0].adapter()
			},
			finds: []string{"error N01"}, text: []string{"node1", "IB", "node2", "Socket"},
		},
		{
			name:  "a small /dev/shm",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].SHM = "64k" },
			flags: []string{"--nproc-per-node", "2"},
			finds: []string{"error L01"}, text: []string{"> node2"},
		},
		{
			name: "a topology file on one node",
			nics: twoMachines(),
			setup: func(f *fleet) {
				f.setenv("NCCL_TOPO_FILE=/etc/topo.xml")
				f.machines[0].write("/etc/topo.xml", "<system/>")
			},
			finds: []string{"warning E02", "warning E06"}, text: []string{"> node2", "NCCL_TOPO_FILE=/etc/topo.xml: no such file"},
		},
		{
			name:  "a read-only /dev/shm",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].SHM = "8g,ro" },
			flags: []string{"--nproc-per-node", "2"},
			finds: []string{"error L01"}, text: []string{"> node2", "read-only file system"},
		},
		{
			name: "half of libnccl",
			nics: twoMachines(),
			setup: func(f *fleet) {
				m := f.machines[1]
				path := m.file(m.site() + "/nvidia/nccl/lib/libnccl.so.2")
				info, err := os.Stat(path)
				if err == nil {
					err = os.Truncate(path, info.Size()-100)
				}
				if err != nil {
					m.Fatal(err)
				}
			},
			finds: []string{"error V02"}, text: []string{"> node2", "the file is cut off after"},
		},
		{
			name: "a copy of a running machine",
			nics: twoMachines(),
			setup: func(f *fleet) {
				f.machines[1].Host = f.machines[0].Host
				f.machines[1].write("boot_id", "00000000-0000-4000-8000-000000000001\n")
			},
			finds: []string{"error H01"}, text: []string{"> both nodes", "host name node1, boot id", "export NCCL_HOSTID="},
		},
		{
			name:  "another script",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.machines[1].write(script, "print('up')") },
			finds: []string{"error R03"}, text: []string{"node1", "node2"},
		},
		{
			name: "another module beside the script",
			nics: twoMachines(),
			setup: func(f *fleet) {
				f.machines[0].write("/opt/train/model/net.py", "width = 1")
				f.machines[1].write("/opt/train/model/net.py", "width = 2")
			},
			finds: []string{"warning R03"}, text: []string{"> node2", "differs: model/net.py"},
		},
		{
			name: "two wheels of NCCL",
			nics: twoMachines(),
			setup: func(f *fleet) {
				m := f.machines[1]
				m.write(m.site()+"/nvidia_nccl_cu11-2.21.5.dist-info/METADATA", "Name: nvidia-nccl-cu11\n")
			},
			finds: []string{"error V02"}, text: []string{"> node2", "nvidia-nccl-cu11 2.21.5", "nvidia-nccl-cu12 2.27.5"},
		},
	} {
		t.Run(s.name, s.run)
	}
}

// adapter gives the machine an InfiniBand adapter that NCCL would take.
func (m *machine) adapter() {
	m.Helper()
	id := fmt.Sprintf("%04x", m.Host[len(m.Host)-1])
	for name, text := range map[string]string{
		"node_guid": "b83f:d203:00a1:" + id, "fw_ver": "28.39.1002", "hca_type": "MT4129", "board_id": "MT_0000000838",
		"ports/1/state": "4: ACTIVE", "ports/1/phys_state": "5: LinkUp", "ports/1/link_layer": "InfiniBand", "ports/1/rate": "400 Gb/sec (4X NDR)",
		"ports/1/gids/0": "fe80:0000:0000:0000:b83f:d203:00a1:" + id,
	} {
		m.write("/sys/class/infiniband/mlx5_0/"+name, text+"\n")
	}
	for path, l := range map[string]ldsotest.Library{
		"/libibverbs.so.1":               {Soname: "libibverbs.so.1", Versions: []string{"IBVERBS_1.1"}},
		"/libibverbs/libmlx5-rdmav34.so": {},
	} {
		_ = os.Remove(m.file(libDir + path)) // if it was hidden
		m.library(libDir+path, l)
	}
}
