package numa

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// each returns n workers with one GPU each.
func each(n int) [][]int {
	own := make([][]int, n)
	for i := range own {
		own[i] = []int{i}
	}
	return own
}

func set(t *testing.T, text string) Set {
	t.Helper()
	s, err := ParseSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The machines: xeon has 2 sockets of one node with 16 cores of 2 threads; CPUs
// 0-15 and 32-47 are on node 0. epyc has 2 sockets of 2 nodes with 8 cores, 4
// to an L3 cache.
var (
	xeon = tree{nodes: 2, sockets: 2, cores: 16, smt: 2, perL3: 16, gpus: on(0, 0, 1, 1)}
	epyc = tree{nodes: 4, sockets: 2, cores: 8, smt: 1, perL3: 4, gpus: on(0, 1, 2, 3)}
	desk = tree{nodes: 1, sockets: 1, cores: 8, smt: 2, perL3: 8, gpus: on(-1, -1)}
	vm   = tree{nodes: 2, sockets: 2, cores: 8, smt: 1, gpus: on(-1, -1, -1, -1)}
	flat = tree{sockets: 1, cores: 8, smt: 1, gpus: on(-1)}
)

func TestMakeBindsNearGPUs(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine tree
		mode    Mode
		allowed string // "": all
		memory  string // nodes that may be used; "": all
		workers [][]int
		want    []string // "CPUs memory threads"
		warns   []string
	}{
		{name: "node", machine: xeon, mode: ByNode, workers: each(4), want: []string{"0-15,32-47 0 8", "0-15,32-47 0 8", "16-31,48-63 1 8", "16-31,48-63 1 8"}},
		{name: "node, in another order", machine: xeon, mode: ByNode, workers: [][]int{{3}, {0}}, want: []string{"16-31,48-63 1 16", "0-15,32-47 0 16"}},
		{name: "node, GPUs on both", machine: xeon, mode: ByNode, workers: [][]int{{0, 2}}, want: []string{"0-63 0-1 32"}},
		{name: "socket", machine: epyc, mode: BySocket, workers: each(4), want: []string{"0-15 0-1 8", "0-15 0-1 8", "16-31 2-3 8", "16-31 2-3 8"}},
		{name: "socket that is a node", machine: xeon, mode: BySocket, workers: [][]int{{2}}, want: []string{"16-31,48-63 1 16"}},
		{name: "socket, half of it allowed", machine: epyc, mode: BySocket, allowed: "0-7,16-31", workers: each(1), want: []string{"0-7 0 8"}},
		{name: "exclusive", machine: xeon, mode: Exclusive, workers: each(4), want: []string{"0-7,32-39 0 8", "8-15,40-47 0 8", "16-23,48-55 1 8", "24-31,56-63 1 8"}},
		{name: "exclusive leaves idle GPUs their part", machine: xeon, mode: Exclusive, workers: [][]int{{1}}, want: []string{"8-15,40-47 0 8"}},
		{name: "exclusive, two a worker", machine: xeon, mode: Exclusive, workers: [][]int{{0, 1}, {2, 3}}, want: []string{"0-15,32-47 0 16", "16-31,48-63 1 16"}},
		{name: "exclusive, two workers a GPU", machine: xeon, mode: Exclusive, workers: [][]int{{2}, {3}, {2}}, want: []string{"16-21,48-53 1 6", "27-31,59-63 1 5", "22-26,54-58 1 5"}},
		{
			name: "exclusive, uneven, offline CPUs", machine: tree{nodes: 1, sockets: 1, cores: 8, smt: 2, offline: Set{3, 11, 12}, gpus: on(0, 0, 0)}, mode: Exclusive, workers: each(3),
			want: []string{"0-2,8-10 0 3", "4-5,13 0 2", "6-7,14-15 0 2"}, warns: []string{"fewer than 4 CPUs to local rank 1 (CPUs 4-5,13); NCCL"},
		},
		{name: "core complexes", machine: epyc, mode: CoreComplex, workers: each(4), want: []string{"0-3 0 4", "8-11 1 4", "16-19 2 4", "24-27 3 4"}},
		{
			name: "more workers than core complexes", machine: tree{nodes: 1, sockets: 1, cores: 8, smt: 2, perL3: 4, gpus: on(0, 0, 0)}, mode: CoreComplex, workers: each(3),
			want: []string{"0-3,8-11 0 2", "4-7,12-15 0 4", "0-3,8-11 0 2"},
		},
		{
			name: "the fullest core complex first", machine: tree{nodes: 1, sockets: 1, cores: 12, smt: 1, perL3: 4, gpus: on(0, 0)}, mode: CoreComplex, allowed: "2-11", workers: each(2),
			want: []string{"4-7 0 4", "8-11 0 4"},
		},
		{name: "no caches listed", machine: vm, mode: CoreComplex, workers: [][]int{{}, {}}, want: []string{"0-7 0 8", "8-15 1 8"}},
		{name: "an inherited mask", machine: xeon, mode: ByNode, allowed: "4-11,16-63", workers: each(3), want: []string{"4-11,32-47 0 8", "4-11,32-47 0 8", "16-31,48-63 1 16"}},
		{name: "an inherited mask, exclusive", machine: xeon, mode: Exclusive, allowed: "4-11,36-43", workers: [][]int{{0}, {1}}, want: []string{"4-7,36-39 0 4", "8-11,40-43 0 4"}},
		{name: "memory that may not be used", machine: xeon, mode: ByNode, memory: "1", workers: [][]int{{0}, {2}}, want: []string{"0-15,32-47  16", "16-31,48-63 1 16"}},
		{name: "one node that GPUs do not name", machine: desk, mode: ByNode, workers: each(2), want: []string{"0-15 0 4", "0-15 0 4"}},
		{name: "one node that GPUs do not name, exclusive", machine: desk, mode: Exclusive, workers: each(2), want: []string{"0-3,8-11 0 4", "4-7,12-15 0 4"}},
		{
			name: "a virtual machine", machine: vm, mode: ByNode, workers: each(4), want: []string{"0-15  4", "0-15  4", "0-15  4", "0-15  4"},
			warns: []string{"does not say on which NUMA node GPU 0000:10:00.0 is"},
		},
		{
			name: "a virtual machine, exclusive", machine: vm, mode: Exclusive, workers: each(4), want: []string{"0-3  4", "4-7  4", "8-11  4", "12-15  4"},
			warns: []string{"workers are not brought near their GPUs"},
		},
		{
			name: "one GPU in doubt", machine: tree{nodes: 2, sockets: 2, cores: 8, smt: 1, gpus: on(1, firstEmptyNode)}, mode: Exclusive, workers: each(2), want: []string{"0-7  8", "8-15  8"},
			warns: []string{"GPU 0000:11:00.0"},
		},
		{name: "a kernel without NUMA", machine: flat, mode: ByNode, workers: each(1), want: []string{"0-7  8"}},
		{name: "CPU workers", machine: xeon, mode: ByNode, workers: make([][]int, 4), want: []string{"0-15,32-47 0 8", "0-15,32-47 0 8", "16-31,48-63 1 8", "16-31,48-63 1 8"}},
		{name: "CPU workers, exclusive", machine: xeon, mode: Exclusive, workers: make([][]int, 3), want: []string{"0-7,32-39 0 8", "8-15,40-47 0 8", "16-31,48-63 1 16"}},
		{name: "CPU workers, fewer than nodes", machine: epyc, mode: ByNode, workers: make([][]int, 2), want: []string{"0-7 0 8", "16-23 2 8"}},
		{name: "CPU workers keep to allowed nodes", machine: xeon, mode: ByNode, allowed: "16-31", workers: make([][]int, 2), want: []string{"16-31 1 8", "16-31 1 8"}},
		{name: "a GPU for some only", machine: xeon, mode: ByNode, workers: [][]int{{2}, {}}, want: []string{"0-15,32-47 0 16", "16-31,48-63 1 16"}},
		{
			name: "few CPUs", machine: tree{nodes: 1, sockets: 1, cores: 6, smt: 1, gpus: on(0, 0, 0, 0, 0, 0)}, mode: Exclusive, workers: each(6), want: []string{"0 0 1", "1 0 1", "2 0 1", "3 0 1", "4 0 1", "5 0 1"},
			warns: []string{"--numa-binding exclusive leaves fewer than 4 CPUs to local rank 0 (CPUs 0), 1 (CPUs 1), 2 (CPUs 2), 3 (CPUs 3), and 2 more;"},
		},
		{name: "unbound", machine: xeon, workers: each(4), want: []string{"0-63  8", "0-63  8", "0-63  8", "0-63  8"}},
		{name: "unbound, few CPUs", machine: xeon, allowed: "0,32", workers: make([][]int, 3), want: []string{"0,32  1", "0,32  1", "0,32  1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, c.machine)
			r.Mode, r.Workers = c.mode, c.workers
			inherited := c.allowed != ""
			if inherited {
				r.CPUs = set(t, c.allowed)
			}
			if c.memory != "" {
				r.Memory = set(t, c.memory)
			}
			p, err := Make(r)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range p.Workers {
				got = append(got, fmt.Sprint(w.CPUs, " ", w.Memory, " ", w.Threads))
				if c.mode == "" && (w.Bound || w.Around() != nil) {
					t.Errorf("bound without a mode: %+v", w)
				}
				if changes := len(w.Memory) > 0 || !slices.Equal(w.CPUs, r.CPUs); w.Bound != changes || (w.Around() != nil) != changes {
					t.Errorf("%+v: bound, and changes: %v", w, changes)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
			said := p.Warnings
			if p.Doubt != "" {
				said = append([]string{p.Doubt}, said...)
			}
			if len(said) != len(c.warns) {
				t.Fatalf("warnings %q, want %q", said, c.warns)
			}
			for i, w := range c.warns {
				if !strings.Contains(said[i], w) {
					t.Errorf("warning %q does not say %q", said[i], w)
				}
			}
		})
	}
}

// request asks for all CPUs and all memory of a machine.
func request(t *testing.T, machine tree) Request {
	t.Helper()
	var gpus []string
	for range machine.gpus {
		gpus = append(gpus, gpu(len(gpus)))
	}
	root := machine.fs()
	topology, err := Read(root, gpus)
	if err != nil {
		t.Fatal(err)
	}
	online, err := readSet(root, cpuDir+"/online")
	if err != nil {
		t.Fatal(err)
	}
	return Request{Topology: topology, CPUs: online, Memory: topology.Memory, GPUs: gpus}
}

func TestMakeFails(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine tree
		mode    Mode
		allowed string
		workers [][]int
		want    string
	}{
		{"CPUs of the other node", xeon, ByNode, "0-15", [][]int{{0}, {2}}, "GPU 0000:12:00.0 of local rank 1 is on NUMA node 1 (CPUs 16-31,48-63), and this process may use CPUs 0-15 only"},
		{"the same, by socket", xeon, BySocket, "0-15", [][]int{{3}}, "is on NUMA node 1"},
		{"too few cores", xeon, Exclusive, "0,32", each(2), "1 physical core of NUMA node 0 cannot be divided among 2 GPUs"},
		{"too few cores, no place", vm, Exclusive, "0-2", each(4), "3 physical cores cannot be divided among 4 GPUs"},
		{"a GPU that is not there", xeon, ByNode, "0-63", [][]int{{9}}, "local rank 0 has no CPU"},
		{"CPUs that are on no node", xeon, ByNode, "100", make([][]int, 1), "none of them is on a NUMA node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, c.machine)
			r.Mode, r.Workers, r.CPUs = c.mode, c.workers, set(t, c.allowed)
			if p, err := Make(r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v, want %q", p, err, c.want)
			}
		})
	}
}

// TestAgentsOfAMachine shows that the agents of one machine bind workers
// without a GPU as one agent would bind all.
func TestAgentsOfAMachine(t *testing.T) {
	for _, mode := range []Mode{ByNode, BySocket, Exclusive, CoreComplex} {
		for agents := 1; agents <= 4; agents++ {
			const each = 3
			r := request(t, xeon)
			r.Mode, r.Workers = mode, make([][]int, agents*each)
			whole, err := Make(r)
			if err != nil {
				t.Fatal(err)
			}
			for a := range agents {
				r.Workers, r.Skip, r.Machine = make([][]int, each), a*each, agents*each
				part, err := Make(r)
				if want := whole.Workers[a*each:][:each]; err != nil || !reflect.DeepEqual(part.Workers, want) {
					t.Errorf("%s, agent %d of %d: %+v, %v, want %+v", mode, a, agents, part.Workers, err, want)
				}
			}
		}
	}
	r := request(t, xeon) // its GPUs already show what belongs to another agent
	r.Mode, r.Workers, r.Skip, r.Machine = Exclusive, [][]int{{2}, {3}}, 2, 4
	p, err := Make(r)
	if err != nil || len(p.Workers) != 2 || p.Workers[1].CPUs.String() != "24-31,56-63" {
		t.Errorf("%+v, %v", p, err)
	}
	r = request(t, tree{nodes: 1, sockets: 1, cores: 2, smt: 1})
	r.Mode, r.Workers, r.Skip, r.Machine = Exclusive, make([][]int, 2), 2, 4
	if p, err := Make(r); err == nil || !strings.Contains(err.Error(), "2 physical cores of NUMA node 0 cannot be divided among 4") {
		t.Errorf("two cores for four workers: %+v, %v", p, err)
	}
}

// TestExclusiveIsExclusive shows, for any mask and GPUs, that no worker gets a
// CPU that is not allowed, none gets no CPU, and exclusive workers share no
// core.
func TestExclusiveIsExclusive(t *testing.T) {
	for gpus := 1; gpus <= 8; gpus++ {
		for _, allowed := range []string{"0-63", "0-40", "3-20,35-60", "1,3,5,7,9,16-31"} {
			for _, nodes := range []map[string]string{on(0, 0, 1, 1, 0, 1, 0, 1), on(-1, 0, 1, 0, 0, 0, 0, 0)} {
				r := request(t, tree{nodes: 2, sockets: 2, cores: 16, smt: 2, gpus: nodes})
				r.Mode, r.CPUs, r.Workers = Exclusive, set(t, allowed), each(gpus)
				p, err := Make(r)
				if err != nil {
					continue // too few cores for the GPUs, which another test covers
				}
				for i, w := range p.Workers {
					if len(w.CPUs) == 0 || len(w.CPUs.And(r.CPUs)) != len(w.CPUs) {
						t.Errorf("%d GPUs, CPUs %s: worker %d has %v", gpus, allowed, i, w.CPUs)
					}
					for _, core := range r.Topology.Cores {
						if slices.ContainsFunc(p.Workers[:i], func(o Binding) bool { return len(o.CPUs.And(core)) > 0 }) && len(w.CPUs.And(core)) > 0 {
							t.Errorf("%d GPUs, CPUs %s: worker %d shares core %v", gpus, allowed, i, core)
						}
					}
				}
			}
		}
	}
}

func TestReadTopology(t *testing.T) {
	top, err := Read(epyc.fs(), []string{gpu(2), "", "0000:ff:00.0"})
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Nodes) != 4 || len(top.Cores) != 32 || len(top.Complexes) != 8 || top.Memory.String() != "0-3,1000" {
		t.Errorf("%d nodes, %d cores, %d complexes, memory %v", len(top.Nodes), len(top.Cores), len(top.Complexes), top.Memory)
	}
	if top.Nodes[2].Package != 1 || len(top.GPUs) != 2 || top.GPUs[gpu(2)] != 2 || top.GPUs["0000:ff:00.0"] != Unknown {
		t.Errorf("%+v", top)
	}

	broken := xeon.fs()
	broken[nodeDir+"/node1/cpulist"] = &fstest.MapFile{Data: []byte("0-99999999\n")}
	if _, err := Read(broken, nil); err == nil || !strings.Contains(err.Error(), "NUMA node 1") {
		t.Errorf("a list without end: %v", err)
	}
	if _, err := Read(fstest.MapFS{}, nil); err == nil {
		t.Error("an empty /sys is no error")
	}
}

// TestReadThisMachine reads the machine that runs the tests.
func TestReadThisMachine(t *testing.T) {
	top, err := Read(os.DirFS("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cpus, _, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{"", ByNode, BySocket, Exclusive, CoreComplex} {
		p, err := Make(Request{Mode: mode, Topology: top, CPUs: cpus, Workers: make([][]int, 1)})
		if err != nil || len(p.Workers[0].CPUs) == 0 || p.Workers[0].Threads < 1 {
			t.Errorf("%s: %+v, %v", mode, p, err)
		}
	}
}

func TestParseSetAndMode(t *testing.T) {
	for text, want := range map[string]string{"": "", "\n": "", "3\n": "3", "0-3,8,10-11": "0-3,8,10-11", "5,4,4,3": "3-5", "0-1,1-2": "0-2"} {
		if s, err := ParseSet(text); err != nil || s.String() != want {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	for _, bad := range []string{"x", "3-", "-3", "3-1", "0-8192", "1 2", "99999999999999999999"} {
		if s, err := ParseSet(bad); err == nil {
			t.Errorf("%q: %v", bad, s)
		}
	}
	if m, err := ParseMode("core-complex"); err != nil || m != CoreComplex {
		t.Error(m, err)
	}
	if _, err := ParseMode("cores"); err == nil || !strings.Contains(err.Error(), "--numa-binding cores") {
		t.Error(err)
	}
}

// FuzzParseSet shows that a text which is no list of the kernel gives an error,
// never a crash or much memory, and that a set is read as it was written.
func FuzzParseSet(f *testing.F) {
	for _, s := range []string{"0-3,8,10-11", "", ",", "1-", "0-8191," + strings.Repeat("0-8191,", 9)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSet(text)
		if err != nil {
			return
		}
		again, err := ParseSet(s.String())
		if err != nil || !slices.Equal(s, again) || !slices.IsSorted(s) {
			t.Errorf("%q gives %v, %q gives %v, %v", text, s, s.String(), again, err)
		}
	})
}
