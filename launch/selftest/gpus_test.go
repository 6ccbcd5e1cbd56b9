package selftest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gpuOf returns what a healthy rank finds at the rung load.
func gpuOf(r Rank, visible int) *GPU {
	return &GPU{Model: "NVIDIA H100 80GB HBM3", UUID: fmt.Sprintf("GPU-%d", r.Rank), Visible: visible, Driver: 13000, NCCL: 22809, Library: "/usr/lib/libnccl.so.2"}
}

// playGPUs plays the ladder of GPUs, each call as fast as rate says in GB/s; change changes
// what a rank finds at the rung load.
func playGPUs(t *testing.T, ranks []Rank, rate func(p Plan, group []int) float64, change func(r Rank, g *GPU)) (*Report, []Plan) {
	t.Helper()
	return playOn(t, NewLadder(ranks, ScopeFull, ComputeGPU), func(p Plan, group []int, rank int) *Result {
		r := &Result{Rank: rank, End: EndPassed}
		if p.Compute != ComputeGPU {
			t.Errorf("%s computes on %q", p.Rung, p.Compute)
		}
		if p.Kind == KindLoad {
			on := 0
			for _, of := range ranks {
				if of.Node == ranks[rank].Node {
					on++
				}
			}
			r.GPU = gpuOf(ranks[rank], on)
			if change != nil {
				change(ranks[rank], r.GPU)
			}
		}
		for _, size := range p.Sizes {
			seconds := busBandwidth(p.Kind, len(group), size, 1) / 2000
			if rate != nil {
				seconds = busBandwidth(p.Kind, len(group), size, 1) / rate(p, group)
			}
			r.Timing = append(r.Timing, Timing{size, seconds})
		}
		return r
	})
}

func TestLadderOfGPUs(t *testing.T) {
	for _, c := range []struct {
		ranks []Rank
		want  string
	}{
		{fleet(1), "load, alone"},
		{fleet(4), "load, alone, pairs in a node, node, ring, all-reduce, all-to-all"},
		{fleet(1, 1), "load, alone, pairs of nodes, ring, all-reduce, all-to-all"},
		{fleet(2, 2), "load, alone, pairs in a node, node, pairs of nodes, rails, pairs of nodes, all ranks, ring, all-reduce, all-to-all"},
	} {
		r, plans := playGPUs(t, c.ranks, nil, nil)
		if got := names(plans); got != c.want || !r.OK || len(r.Warnings) > 0 {
			t.Errorf("%d ranks: %s: %+v", len(c.ranks), got, r)
		}
		for i, p := range plans {
			if last := len(c.ranks) > 1 && i == len(plans)-1; p.Last != last {
				t.Errorf("%d ranks, step %d of %d: last %v", len(c.ranks), i, len(plans), p.Last)
			}
		}
	}
}

// TestRailsPairRanksOfTheSamePlace checks who tests together on a rail, and that the rank
// of a bad rail is named.
func TestRailsPairRanksOfTheSamePlace(t *testing.T) {
	ranks := fleet(4, 4, 4, 4, 4, 4)
	late := &Result{End: EndLate}
	r, plans := playOn(t, NewLadder(ranks, ScopeFull, ComputeGPU), func(p Plan, group []int, rank int) *Result {
		if p.Kind == KindLoad {
			return &Result{End: EndPassed, GPU: gpuOf(ranks[rank], 4)}
		}
		if p.Rung == "rails" && slices.Contains(group, 13) {
			return late
		}
		return nil
	})
	for _, p := range plans {
		for _, g := range p.Groups {
			if p.Rung == "rails" && (ranks[g.Ranks[0]].Local != ranks[g.Ranks[1]].Local || g.Nodes[0] == g.Nodes[1]) {
				t.Errorf("ranks %v on one rail", g.Ranks)
			}
		}
	}
	if r.Failure == nil || r.Failure.Rung != "rails" || !slices.Equal(r.Failure.Ranks, []int{13}) || !slices.Equal(r.Failure.Nodes, []int{3}) {
		t.Errorf("%+v", r.Failure)
	}
}

// TestLoadComparesGPUs checks what the GPUs of the ranks must have in common.
func TestLoadComparesGPUs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r Rank, g *GPU)
		text   string
		nodes  []int
		ranks  []int
	}{
		{"one GPU for two ranks", func(r Rank, g *GPU) {
			if r.Rank == 3 {
				g.UUID = "GPU-2"
			}
		}, "rank 2 and rank 3 on node1 have the same GPU, GPU-2", nil, []int{2, 3}},
		{"another NCCL", func(r Rank, g *GPU) {
			if r.Rank == 4 {
				g.NCCL, g.Library = 22703, "/opt/libnccl.so.2"
			}
		}, "rank 4 (local rank 0) on node2 has NCCL 2.27.3 (/opt/libnccl.so.2), others 2.28.9 (/usr/lib/libnccl.so.2)", []int{2}, []int{4}},
		{"another NCCL on most nodes", func(r Rank, g *GPU) {
			if r.Local == 0 {
				g.NCCL = 22703
			}
		}, "rank 0 (local rank 0) on node0 has NCCL 2.27.3", nil, []int{0, 2, 4}},
		{"a GPU is hidden", func(r Rank, g *GPU) {
			g.Visible = 4
			if r.Node == 1 {
				g.Visible = 3
			}
		}, "node 1 (node1) has 3 GPUs, others 4", []int{1}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, plans := playGPUs(t, fleet(2, 2, 2), nil, c.change)
			if r.Failure == nil || r.Failure.Rung != "load" || len(plans) != 1 {
				t.Fatalf("%s: %+v", names(plans), r.Failure)
			}
			if f := r.Failure; !strings.Contains(f.Text, c.text) || !slices.Equal(f.Nodes, c.nodes) || !slices.Equal(f.Ranks, c.ranks) || f.Fix == "" {
				t.Errorf("%+v", f)
			}
		})
	}
	r, _ := playGPUs(t, fleet(2, 2, 2), nil, func(r Rank, g *GPU) {
		if r.Rank == 1 {
			g.UUID, g.Host = "GPU-0", "other"
		}
		if r.Node == 2 {
			g.Model, g.Driver = "NVIDIA A100-SXM4-80GB", 12080
		}
	})
	if !r.OK || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "node 2 (node2) has GPUs of the model NVIDIA A100-SXM4-80GB, others NVIDIA H100 80GB HBM3") ||
		!strings.Contains(r.Warnings[1], "node 2 (node2) has a driver for CUDA 12.8, others 13.0") {
		t.Errorf("%q, %+v", r.Warnings, r.Failure)
	}
}

// TestSlowGPUsAreMarked checks that what is slower than its model is marked, and says so.
func TestSlowGPUsAreMarked(t *testing.T) {
	for _, c := range []struct {
		rung  string
		ranks []int
		why   string
		text  string
	}{
		{"alone", []int{3}, "900 of 1005 GB/s expected (alone)", "rank 3 on node1 is slow: 900 of 1005 GB/s expected of NVIDIA H100 80GB HBM3"},
		{"node", []int{2, 3}, "80 of 90 GB/s expected (node)", "the 2 ranks of node 1 (node1) are slow: 80 of 90 GB/s expected"},
	} {
		r, _ := playGPUs(t, fleet(2, 2, 2), func(p Plan, group []int) float64 {
			if p.Rung == c.rung && slices.Equal(group, c.ranks) {
				return map[string]float64{"alone": 900, "node": 80}[p.Rung]
			}
			return 1100
		}, nil)
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			t.Error(err)
		}
		if first, _, _ := strings.Cut(table.String(), "\n"); first != "computed on 6 GPUs (NVIDIA H100 80GB HBM3) with NCCL 2.28.9" {
			t.Error(first)
		}
		if !r.OK || r.Nodes[1].State != StateSlow || r.Nodes[1].Slow != c.why || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], c.text) || !strings.Contains(table.String(), c.why) {
			t.Errorf("%+v, %q\n%s", r.Nodes, r.Warnings, &table)
		}
	}
	r, _ := playGPUs(t, fleet(2), func(Plan, []int) float64 { return 1 }, func(_ Rank, g *GPU) { g.Model = "NVIDIA Unheard-of" })
	if len(r.Warnings) > 0 {
		t.Errorf("a GPU that no table has: %q", r.Warnings)
	}
}

// TestGPUsWithoutSwitch checks that two of four GPUs, which have a third of their links to
// each other, are not called slow; of eight a switch gives them all links.
func TestGPUsWithoutSwitch(t *testing.T) {
	for _, c := range []struct {
		gpus, visible int
		pair, node    float64 // GB/s of 450
		slow          string
	}{
		{4, 4, 130, 330, ""},
		{4, 1, 130, 330, ""}, // each process sees its own only
		{3, 3, 130, 260, ""},
		{4, 4, 80, 330, "80 of 90 GB/s expected (pairs in a node)"},
		{4, 4, 130, 260, "260 of 270 GB/s expected (node)"},
		{8, 8, 130, 330, "130 of 270 GB/s expected (pairs in a node)"},
		{8, 1, 130, 330, "130 of 270 GB/s expected (pairs in a node)"},
		{2, 8, 130, 330, "130 of 270 GB/s expected (pairs in a node)"},
	} {
		r, _ := playGPUs(t, fleet(c.gpus), func(p Plan, _ []int) float64 {
			switch p.Rung {
			case "pairs in a node":
				return c.pair
			case "alone":
				return 1100
			}
			return c.node
		}, func(_ Rank, g *GPU) { g.Visible = c.visible })
		if got := r.Nodes[0].Slow; !r.OK || got != c.slow {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestSlowPortsAreMarked checks what is expected of the network.
func TestSlowPortsAreMarked(t *testing.T) {
	slow := func(nodes ...int) func(p Plan, group []int) float64 {
		return func(p Plan, group []int) float64 {
			if p.Rung == "pairs of nodes" && slices.ContainsFunc(group, func(rank int) bool { return slices.Contains(nodes, rank/2) }) {
				return 12
			}
			return 1100
		}
	}
	port := func(_ Rank, g *GPU) { g.Port = 50 }
	r, _ := playGPUs(t, fleet(2, 2, 2, 2), slow(2), port)
	if want := "12.0 of 25.0 GB/s expected (pairs of nodes)"; !r.OK || r.Nodes[2].State != StateSlow || r.Nodes[2].Slow != want || !strings.Contains(r.Warnings[0], "node 2 (node2) is slow: 12.0 of 25.0 GB/s expected of a port with 400 Gb/s") {
		t.Errorf("%+v, %q", r.Nodes, r.Warnings)
	}
	r, _ = playGPUs(t, fleet(2, 2, 2, 2), slow(0, 1, 2, 3), port)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "the network is slow: nodes reach 12.0 of 25.0 GB/s expected of ports with 400 Gb/s") || r.Nodes[0].State != StateGood {
		t.Errorf("%+v, %q", r.Nodes, r.Warnings)
	}
	r, _ = playGPUs(t, fleet(2, 2, 2, 2), nil, func(r Rank, g *GPU) {
		if g.Port = 50; r.Node == 3 {
			g.Port = 25
		}
	})
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "not all nodes have the same network: node 3 (node3) has ports with 200 Gb/s, others 400 Gb/s") {
		t.Errorf("%q", r.Warnings)
	}
}

// TestFastestPort checks which port counts.
func TestFastestPort(t *testing.T) {
	root := t.TempDir()
	for name, files := range map[string]map[string]string{
		"mlx5_0": {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"},
		"mlx5_1": {"state": "1: DOWN", "rate": "800 Gb/sec (4X XDR)", "link_layer": "InfiniBand"},
		"mlx5_2": {"state": "4: ACTIVE", "rate": "100 Gb/sec (4X EDR)", "link_layer": "Ethernet"},
	} {
		dir := filepath.Join(root, "sys/class/infiniband", name, "ports/1")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for env, want := range map[string]float64{"": 50, "NCCL_IB_HCA=mlx5_2": 12.5, "NCCL_IB_DISABLE=1": 0, "NCCL_NET=Socket": 0, "NCCL_NET=ib": 50} {
		got := fastestPort(t.Context(), root, func(name string) (string, bool) {
			if n, v, _ := strings.Cut(env, "="); n == name {
				return v, true
			}
			return "", false
		})
		if got != want {
			t.Errorf("%s: %v GB/s", env, got)
		}
	}
	if got := fastestPort(t.Context(), t.TempDir(), os.LookupEnv); got != 0 {
		t.Errorf("%v GB/s without a port", got)
	}
}

// TestEveryModelIsFound checks that no name of the table hides another one.
func TestEveryModelIsFound(t *testing.T) {
	for _, m := range models() {
		g := GPU{Model: "NVIDIA " + m.name}
		if got := g.expected(KindCopy, 1, 1, 256*mib); got != m.memory*copyShare {
			t.Errorf("%s: %v GB/s of a copy", m.name, got)
		}
		if got := g.expected(KindAllReduce, 8, 8, 256*mib); got != m.link*linkShare {
			t.Errorf("%s: %v GB/s of an all-reduce", m.name, got)
		}
	}
	g := GPU{Model: "NVIDIA H100 80GB HBM3"}
	if small, mig := g.expected(KindCopy, 1, 1, mib), (&GPU{Model: "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}).expected(KindCopy, 1, 1, 256*mib); small != 0 || mig != 0 {
		t.Errorf("%v GB/s of a small copy, %v of a part of a GPU", small, mig)
	}
}

// TestHealthyGPUsAreNotSlow checks that what healthy GPUs were seen to reach, by the
// documents that docs/selftest.md names, is not below what is expected.
func TestHealthyGPUsAreNotSlow(t *testing.T) {
	for _, c := range []struct {
		model  string
		kind   Kind
		ranks  int
		bytes  int
		seen   float64 // GB/s
		expect bool    // that the table has a number
	}{
		{"NVIDIA H100 80GB HBM3", KindCopy, 1, 256 * mib, 2475 / 2, true},
		{"NVIDIA A100-SXM4-40GB", KindCopy, 1, 256 * mib, 1157.5 / 2, true},
		{"NVIDIA A100-SXM4-80GB", KindCopy, 1, 256 * mib, 1610 / 2, true},
		{"NVIDIA H200", KindCopy, 1, 256 * mib, 4010 / 2, true},
		{"NVIDIA GB200", KindCopy, 1, 256 * mib, 13094.41 / 4, true},
		{"NVIDIA A100-SXM4-80GB", KindAllReduce, 8, 64 * mib, 166.63, false},
		{"NVIDIA A100-SXM4-80GB", KindAllReduce, 8, 128 * mib, 174.18, false},
		{"NVIDIA A100-SXM4-80GB", KindAllReduce, 8, 256 * mib, 213.87, true},
		{"NVIDIA H200", KindAllReduce, 8, 256 * mib, 432.24, true},
		{"NVIDIA GB200", KindAllReduce, 4, 256 * mib, 593.53, true},
		{"NVIDIA H20-3e", KindCopy, 1, 256 * mib, 1116, false},
	} {
		got := (&GPU{Model: c.model, Visible: c.ranks}).expected(c.kind, c.ranks, c.ranks, c.bytes)
		if got > c.seen || (got > 0) != c.expect {
			t.Errorf("%s, %s of %d MiB by %d: %v GB/s expected, healthy ones reach %v", c.model, c.kind, c.bytes/mib, c.ranks, got, c.seen)
		}
	}
	for _, r := range ladder(ComputeGPU) {
		if all := r.sizes.of(ScopeFull, ComputeGPU); (r.name == "alone" || r.name == "pairs in a node" || r.name == "node") && all[len(all)-1] < largeEnough {
			t.Errorf("%s compares nothing: its largest call has %d bytes", r.name, all[len(all)-1])
		}
	}
}

// TestWhatComputes checks when the ranks compute on GPUs.
func TestWhatComputes(t *testing.T) {
	with := func(ranks []Rank, of ...int) []Rank {
		for _, r := range of {
			ranks[r].Device = fmt.Sprintf("GPU-%d", r)
		}
		return ranks
	}
	old := with(fleet(1, 1), 0, 1)
	old[1].OnlyCPU = true
	for _, c := range []struct {
		name    string
		ranks   []Rank
		asked   Compute
		want    Compute
		warning string
		failure string
		err     string
	}{
		{"none has one", fleet(2, 2), ComputeAuto, ComputeCPU, "", "", ""},
		{"each has one", with(fleet(2, 2), 0, 1, 2, 3), ComputeAuto, ComputeGPU, "", "", ""},
		{"not asked for", with(fleet(2, 2), 0, 1, 2, 3), ComputeCPU, ComputeCPU, "", "", ""},
		{"pinned by none", fleet(2, 2), ComputeGPU, ComputeGPU, "", "", ""},
		{"more ranks than GPUs", with(fleet(2, 2), 0, 2), ComputeAuto, ComputeCPU, "2 of 4 ranks have no GPU of their own", "", ""},
		{"a node with fewer", with(fleet(2, 1, 2), 0, 1, 2, 3, 4), ComputeAuto, ComputeGPU, "", "node 1 (node1) has 1 GPU, others 2", ""},
		{"a node with none", with(fleet(2, 2, 2), 0, 1, 4, 5), ComputeAuto, ComputeGPU, "", "node 1 (node1) has 0 GPUs, others 2", ""},
		{"a static gorun", old, ComputeAuto, ComputeCPU, "the gorun of node1 is built without C", "", ""},
		{"a static gorun that must", old, ComputeGPU, "", "", "", "the gorun of node1 is built without C"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := (&Tester{Compute: c.asked}).ladder(c.ranks, ScopeFull)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Error(err)
				}
				return
			}
			r := l.Report()
			failure := ""
			if r.Failure != nil {
				failure = r.Failure.Text
			}
			if err != nil || r.Compute != c.want || !strings.Contains(strings.Join(r.Warnings, ""), c.warning) || (c.warning == "") != (r.Warnings == nil) || failure != c.failure {
				t.Errorf("%v, %+v", err, r)
			}
		})
	}
}

// TestJobWithoutNCCL checks that a job whose nodes have no NCCL is tested on CPUs, unless
// GPUs are asked for or a rank has it.
func TestJobWithoutNCCL(t *testing.T) {
	missing := &Result{End: EndFailed, Text: "cannot open NCCL", NoNCCL: true}
	for _, c := range []struct {
		asked   Compute
		without int // ranks
		want    string
	}{
		{ComputeAuto, 4, "load, node, ring, all-reduce"},
		{ComputeGPU, 4, "load"},
		{ComputeAuto, 1, "load"},
	} {
		ranks := fleet(2, 2)
		for i := range ranks {
			ranks[i].Device = fmt.Sprintf("GPU-%d", i)
		}
		l, err := (&Tester{Compute: c.asked}).ladder(ranks, ScopeQuick)
		if err != nil {
			t.Fatal(err)
		}
		r, plans := playOn(t, l, func(p Plan, _ []int, rank int) *Result {
			if p.Compute == ComputeGPU && rank < c.without {
				return missing
			}
			return nil
		})
		passes := c.want != "load"
		if got := names(plans); got != c.want || r.OK != passes || (len(r.Warnings) == 1) != passes || passes && (r.Compute != ComputeCPU || r.Nodes[0].State != StateGood) {
			t.Errorf("%s, %d ranks without NCCL: %s: %+v", c.asked, c.without, got, r)
		}
		for i, p := range plans {
			if p.Step != i {
				t.Errorf("step %d is numbered %d", i, p.Step)
			}
		}
	}
}

// TestEndOfAnUnknownError checks that what may come from a partner is no rank's own doing.
func TestEndOfAnUnknownError(t *testing.T) {
	if EndBroken.isOwn() || EndLost.isOwn() || !EndFailed.isOwn() || EndBroken.severity() < 0 {
		t.Error("the ends of GPUs")
	}
	if end := endOf(errors.New("a library is missing")); end != EndFailed {
		t.Error(end)
	}
}

// TestModelsAreDocumented checks the numbers of docs/selftest.md.
func TestModelsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/selftest.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); len(cells) == 6 {
			rows[strings.TrimSpace(cells[0])] = cells
		}
	}
	number := func(x float64) string {
		if x == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f", x)
	}
	for _, m := range models() {
		found := false
		for name, cells := range rows {
			name, _, _ = strings.Cut(name, " (")
			name, _, _ = strings.Cut(name, ",")
			if name != m.name {
				continue
			}
			found = true
			if strings.TrimSpace(cells[5]) == "" {
				t.Errorf("%s has no source", m.name)
			}
			for i, want := range []float64{m.memory, m.memory * copyShare, m.link, m.link * linkShare} {
				if got := strings.TrimSpace(cells[i+1]); got != number(want) {
					t.Errorf("%s has %q in column %d, not %q", m.name, got, i+2, number(want))
				}
			}
		}
		if !found {
			t.Errorf("%s is not in the table", m.name)
		}
	}
}
