package rules

import (
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func nccl(n *preflight.Facts, version string, code int) {
	n.Libraries.NCCL.Version, n.Libraries.NCCL.Code = version, code
}

func versionCases() map[string][]ruleCase {
	wheel := func(name string, file bool) library.Wheel {
		return library.Wheel{Name: name, Version: "2.21.5", Site: "/opt/venv/lib/python3.11/site-packages", File: file}
	}
	return map[string][]ruleCase{
		"V01": {
			{name: "one that cannot be loaded has no version", change: func(f *preflight.Fleet) {
				x := f.Nodes[2].Libraries.NCCL
				x.Error, x.CUDA = "the file is cut off after 4096 bytes", ""
			}},
			{
				name: "one node has another version", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { nccl(&f.Nodes[2], "2.19.3", 21903) },
				says: []string{"2.27.5", "> node3 (ranks 16-23) 2.19.3", "not 2.17.1 /usr/lib/x86_64-linux-gnu/libnccl.so.2 (RPATH comes before ld.so.cache)", "on node3: /opt/venv/bin/python -m pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5"},
			},
			{
				name: "the wheel of another CUDA", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
					n := &f.Nodes[2]
					nccl(n, "2.21.5", 22105)
					n.Libraries.Wheels = []library.Wheel{wheel("nvidia-nccl-cu11", true)}
				},
				says: []string{"/opt/venv/bin/python -m pip uninstall -y nvidia-nccl-cu11 /opt/venv/bin/python -m pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5"},
			},
			{
				name: "in a folder of PYTHONPATH", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
					n := &f.Nodes[2]
					preflighttest.Set(n, "PYTHONPATH", "/data/site")
					nccl(n, "2.19.3", 21903)
					n.Libraries.NCCL.Path = "/data/site/nvidia/nccl/lib/libnccl.so.2"
					n.Libraries.Wheels = append(n.Libraries.Wheels, library.Wheel{Name: "nvidia-nccl-cu12", Version: "2.19.3", Site: "/data/site", File: true})
				},
				says: []string{`rm -rf /data/site/nvidia/nccl /data/site/nvidia_nccl_cu*.dist-info d=$(mktemp -d) && /opt/venv/bin/python -m pip install --no-deps --target="$d" nvidia-nccl-cu12==2.27.5 && cp -r "$d"/. /data/site`},
			},
			{
				name: "wheels in two sites", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
					everyNode(f, func(n *preflight.Facts) {
						w := wheel("nvidia-nccl-cu11", true)
						w.Site = "/usr/lib/python3/dist-packages"
						n.Libraries.Wheels = append(n.Libraries.Wheels, w)
					})
					nccl(&f.Nodes[2], "2.19.3", 21903)
				},
				says: []string{"pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5"},
			},
			{
				name: "the same path without wheels", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
					everyNode(f, func(n *preflight.Facts) { n.Libraries.Wheels = nil; n.Libraries.NCCL.Path = "/usr/lib/libnccl.so.2" })
					nccl(&f.Nodes[2], "2.19.3", 21903)
				},
				says:  []string{"install NCCL 2.27.5, which most nodes load, on node3"},
				omits: []string{"from loading"},
			},
			{
				name: "another path", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
					nccl(&f.Nodes[2], "2.19.3", 21903)
					f.Nodes[2].Libraries.NCCL.Path = "/opt/old/libnccl.so.2"
				},
				says: []string{"keep the workers of node3 from loading /opt/old/libnccl.so.2"},
			},
			{name: "two nodes of two versions", nodes: 2, severity: preflight.Error, odd: nil, change: func(f *preflight.Fleet) { nccl(&f.Nodes[0], "2.27.3", 22703) }, says: []string{"2.27.3", "2.27.5", "as node2 has it, on node1: /opt/venv/bin/python -m pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5"}},
			{name: "another build", severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Libraries.NCCL.CUDA = "11.8" }, says: []string{"2.27.5 for CUDA 11.8"}},
			{name: "a vendor's suffix", severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Libraries.NCCL.Version = "2.27.5rc1" }},
			{name: "a node does not know", change: func(f *preflight.Fleet) { f.Nodes[2].Libraries.NCCL = nil; f.Nodes[3].Libraries.NCCL.Version = "" }},
			{name: "no GPU anywhere", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				for i := range f.Nodes {
					f.Nodes[i].Libraries.NCCL = &library.NCCL{Version: "2.27.5", Code: 22705 + i}
				}
			}},
		},
		"V02": {
			{name: "two wheels in one site", severity: preflight.Error, odd: []int{1}, says: []string{"nvidia-nccl-cu12 2.27.5 and nvidia-nccl-cu11 2.21.5 in /opt/venv"}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Libraries.Wheels = append(f.Nodes[1].Libraries.Wheels, wheel("nvidia-nccl-cu11", true))
			}},
			{name: "on a single node", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Libraries.Wheels = append(f.Nodes[0].Libraries.Wheels, wheel("nvidia-nccl-cu11", true))
			}},
			{name: "a wheel without its file", severity: preflight.Error, odd: []int{3}, change: func(f *preflight.Fleet) { f.Nodes[3].Libraries.Wheels[0].File = false }, says: []string{"is missing"}},
			{name: "one is cut off", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
				f.Nodes[2].Libraries.NCCL.Error = "the file is cut off after 4096 bytes"
			}, says: []string{"libnccl.so.2: the file is cut off after 4096 bytes"}},
			{name: "none is found", severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Libraries.NCCL, f.Nodes[0].Libraries.NCCLError = nil, "libnccl.so.2: not found in RPATH and ld.so.cache"
			}, says: []string{"not found in RPATH"}},
			{name: "the loader gives up at the wheel's", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				l := &f.Nodes[1].Libraries
				l.NCCL, l.NCCLError = nil, "libtorch_cuda.so needs libnccl.so.2: the loader gives up at "+l.NCCL.Path+": the file is cut off"
			}, says: []string{"the file is cut off", "install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5"}},
			{name: "two wheels where the workers load none", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				a, b := wheel("nvidia-nccl-cu11", true), wheel("nvidia-nccl-cu12", true)
				a.Site, b.Site = "/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages"
				f.Nodes[1].Libraries.Wheels = append(f.Nodes[1].Libraries.Wheels, a, b)
			}},
			{name: "two sites", change: func(f *preflight.Fleet) {
				w := wheel("nvidia-nccl-cu11", true)
				w.Site = "/usr/lib/python3/dist-packages"
				f.Nodes[1].Libraries.Wheels = append(f.Nodes[1].Libraries.Wheels, w)
			}},
			{name: "no GPU", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				f.Nodes[1].Libraries.Wheels = []library.Wheel{wheel("nvidia-nccl-cu11", true), wheel("nvidia-nccl-cu12", false)}
			}},
		},
		"V03": {
			{name: "NVML of another driver", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Libraries.NVML = "535.104.05" }, says: []string{"kernel module 550.54.15, libnvidia-ml 535.104.05"}},
			{name: "libcuda of another driver", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Libraries.CUDA[0].Version = "535.104.05" }},
			{name: "too old for torch", severity: preflight.Error, odd: []int{1}, says: []string{"driver 470.82.01; CUDA 12.8 of torch 2.9.0 needs 525.60.13"}, change: func(f *preflight.Fleet) { driver(&f.Nodes[1], "470.82.01") }},
			{name: "too old for NCCL", severity: preflight.Error, odd: []int{0, 1, 2, 3}, says: []string{"CUDA 13.0 of NCCL 2.27.5 needs 580"}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Libraries.NCCL.CUDA = "13.0" })
			}},
			{name: "forward compatibility", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					driver(n, "470.82.01")
					n.Libraries.CUDA[0] = library.CUDA{Path: "/usr/local/cuda/compat/libcuda.so.1", Version: "550.54.15"}
				})
			}},
			{name: "drivers differ", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) { driver(&f.Nodes[3], "550.90.07") }},
			{name: "driver not known", change: func(f *preflight.Fleet) { f.Nodes[3].Libraries.Driver = "" }},
		},
		"V05": {
			{name: "a library that was cut off", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
				f.Nodes[2].Libraries.Broken = []string{"/opt/venv/torch/lib/libtorch_cpu.so: the file is cut off after 9 bytes"}
			}, says: []string{"libtorch_cpu.so: the file is cut off"}},
			{name: "all are whole", change: func(*preflight.Fleet) {}},
		},
		"V04": {
			{name: "RAS is switched on", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, says: []string{"NCCL 2.26.2", "NCCL issues 1669 and 1718", "gorun itself never queries it"}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.26.2", 22602); preflighttest.Set(n, "NCCL_RAS_ENABLE", "1") })
			}},
			{name: "an address of RAS", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					nccl(n, "2.26.6", 22606)
					preflighttest.Set(n, "NCCL_RAS_ADDR", "localhost:28030")
				})
			}},
			{name: "ncclras on one node", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.26.5", 22605) })
				f.Nodes[1].Program.Args = []string{"--monitor", "/usr/bin/ncclras"}
			}},
			{name: "RAS is off", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					nccl(n, "2.26.5", 22605)
					preflighttest.Set(n, "NCCL_RAS_ENABLE", "0")
					preflighttest.Set(n, "NCCL_RAS_ADDR", "localhost:28030")
				})
			}},
			{name: "RAS that is on by default", severity: preflight.Note, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { nccl(n, "2.26.5", 22605) }) }, says: []string{"RAS is on by default"}},
			{name: "RAS in a release without faults", change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { nccl(n, "2.27.3", 22703) }) }},
			{name: "RAS in a release without the fault", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.26.1", 22601); preflighttest.Set(n, "NCCL_RAS_ENABLE", "1") })
			}},
			{name: "RAS in the last release with the status fault", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_RAS_ENABLE", "1") })
			}},
			{name: "NVLS is forced", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, says: []string{"silent fallback"}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_NVLS_ENABLE", "1") })
			}},
			{name: "uneven nodes", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, says: []string{"2385"}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.31.2", 23102) })
				f.Nodes[3].Node.Workers = 6
			}},
		},
	}
}

func driver(n *preflight.Facts, version string) {
	n.Libraries.Driver, n.Libraries.NVML = version, version
	n.Libraries.CUDA[0].Version = version
}

func TestVersions(t *testing.T) {
	for code, want := range map[int]string{2804: "2.8.4", 20906: "2.9.6", 23007: "2.30.7", 21701: "2.17.1"} {
		if got := versionOf(code); got != want {
			t.Errorf("versionOf(%d) = %s, want %s", code, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		less bool
	}{
		{"450.80.02", "450.80.02", false},
		{"450.80.01", "450.80.02", true},
		{"525.60", "525.60.13", true},
		{"580", "580.65.06", true},
		{"1000", "580", false},
		{"", "1", true},
		{"x", "0", false},
	} {
		if got := isOlder(c.a, c.b); got != c.less {
			t.Errorf("less(%q, %q) = %v", c.a, c.b, got)
		}
	}
}
