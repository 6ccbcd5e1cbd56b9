package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// gpusWithMinors makes GPUs "GPU-a0", "GPU-b1", ... with the given numbers of
// /dev/nvidiaN.
func gpusWithMinors(minors ...int) []GPU {
	var gpus []GPU
	for i, m := range minors {
		gpus = append(gpus, GPU{
			Index: i, UUID: fmt.Sprintf("GPU-%c%d", 'a'+i, i), PCI: fmt.Sprintf("0000:%02x:00.0", 16+i),
			Name: "NVIDIA H100", Minor: &m, MIG: new(false),
		})
	}
	return gpus
}

// splitGPU puts a GPU into MIG mode, with n instances.
func splitGPU(gpus []GPU, at, n int) []GPU {
	g := &gpus[at]
	g.MIG = new(true)
	for i := range n {
		g.Instances = append(g.Instances, Instance{UUID: fmt.Sprintf("MIG-%c%d%d", 'a'+at, at, i), Name: "MIG 1g.10gb", GI: new(7 + i), CI: new(0)})
	}
	return gpus
}

func deny(gpus []GPU, at ...int) []GPU {
	for _, i := range at {
		gpus[i].Denied = "the cgroup does not allow it"
	}
	return gpus
}

func mixModels(gpus []GPU) []GPU {
	gpus[0].Name = "NVIDIA T4"
	return gpus
}

func dropDetails(gpus []GPU) []GPU {
	for i := range gpus {
		gpus[i].Minor, gpus[i].MIG = nil, nil
	}
	return gpus
}

func TestFindVisible(t *testing.T) {
	const all = "GPU-a0 GPU-b1 GPU-c2 GPU-d3"
	four := func() []GPU { return gpusWithMinors(0, 1, 2, 3) }
	tests := []struct {
		name string
		gpus []GPU
		env  string // entries, separated by blanks
		want string // UUIDs
		note string // part of them; "" for none
	}{
		{"no grant", four(), "", all, ""},
		{"no GPU", nil, "CUDA_VISIBLE_DEVICES=0", "", "which has 0"},

		{"CUDA by index, reversed", four(), "CUDA_VISIBLE_DEVICES=3,1", "GPU-d3 GPU-b1", ""},
		{"CUDA by a UUID's beginning", four(), "CUDA_VISIBLE_DEVICES=GPU-c,GPU-a0", "GPU-c2 GPU-a0", ""},
		{"CUDA, an invalid entry", four(), "CUDA_VISIBLE_DEVICES=0,9,1", "GPU-a0", "ignores it and what follows"},
		{"CUDA, an empty list", four(), "CUDA_VISIBLE_DEVICES=", "", ""},
		{"CUDA, -1", four(), "CUDA_VISIBLE_DEVICES=-1", "", ""},
		{"CUDA, the word of Slurm for no GPU", four(), "CUDA_VISIBLE_DEVICES=NoDevFiles", "", ""},
		{"CUDA, the last entry counts", four(), "CUDA_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=2", "GPU-c2", ""},
		{"CUDA, twice", four(), "CUDA_VISIBLE_DEVICES=1,GPU-b1", "GPU-b1", "mixes"},

		{"a cgroup that hides some renumbers the rest", deny(four(), 0, 2), "CUDA_VISIBLE_DEVICES=0", "GPU-b1", ""},
		{"a cgroup that hides some", deny(four(), 0, 2), "", "GPU-b1 GPU-d3", ""},
		{"a cgroup that hides all", deny(four(), 0, 1, 2, 3), "", "", "may use none of the node's 4 GPUs"},

		{"container, all", four(), "NVIDIA_VISIBLE_DEVICES=all", all, ""},
		{"container, void, as with CDI", four(), "NVIDIA_VISIBLE_DEVICES=void", all, ""},
		{"container, empty", four(), "NVIDIA_VISIBLE_DEVICES=", all, ""},
		{"container, none", four(), "NVIDIA_VISIBLE_DEVICES=none", "", "does not give 4 of the 4"},
		{"container by the machine's numbers, already applied", gpusWithMinors(4, 6), "NVIDIA_VISIBLE_DEVICES=4,6", "GPU-a0 GPU-b1", ""},
		{"container by numbers, privileged", gpusWithMinors(3, 2, 1, 0), "NVIDIA_VISIBLE_DEVICES=0,1", "GPU-c2 GPU-d3", ""},
		{"container by UUID, privileged", four(), "NVIDIA_VISIBLE_DEVICES=GPU-b1,GPU-d3", "GPU-b1 GPU-d3", ""},
		{"container by a CDI name", four(), "NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=1", "GPU-b1", ""},
		{"container, names of another machine", four(), "NVIDIA_VISIBLE_DEVICES=GPU-zz", all, "gorun ignores it"},
		{"container and CUDA", four(), "NVIDIA_VISIBLE_DEVICES=GPU-b1,GPU-d3 CUDA_VISIBLE_DEVICES=3,0", "GPU-d3", "does not give 1 of the 2"},
		{"container, files unknown", dropDetails(four()), "NVIDIA_VISIBLE_DEVICES=1", "GPU-b1", ""},
		{"container, files unknown and numbers too high", dropDetails(four()), "NVIDIA_VISIBLE_DEVICES=6", all, "gorun ignores it"},

		{"Slurm with a cgroup", deny(four(), 0, 1), "SLURM_STEP_GPUS=2,3 CUDA_VISIBLE_DEVICES=0,1", "GPU-c2 GPU-d3", ""},
		{"Slurm without a cgroup", four(), "SLURM_STEP_GPUS=2,3 CUDA_VISIBLE_DEVICES=2,3", "GPU-c2 GPU-d3", ""},
		{"Slurm without a cgroup, CUDA's list lost", four(), "SLURM_STEP_GPUS=2,3", "GPU-c2 GPU-d3", ""},
		{"Slurm, CUDA's list overwritten", four(), "SLURM_STEP_GPUS=2,3 CUDA_VISIBLE_DEVICES=0", "", "SLURM_STEP_GPUS=2,3 does not give 1 of the 1"},
		{"Slurm counts files, not PCI addresses", gpusWithMinors(2, 3, 0, 1), "SLURM_STEP_GPUS=0,1", "GPU-c2 GPU-d3", ""},
		{"Slurm, the step counts, not the job", four(), "SLURM_JOB_GPUS=0,1,2,3 SLURM_STEP_GPUS=1", "GPU-b1", ""},
		{"Slurm, a job's range", four(), "SLURM_JOB_GPUS=1-2", "GPU-b1 GPU-c2", ""},
		{"Slurm, no numbers", four(), "SLURM_JOB_GPUS=gpu:4", all, "is not a list of numbers"},
		{"Slurm, a range without end", four(), "SLURM_JOB_GPUS=0-999999999", all, "is not a list of numbers"},
		{"Slurm, container and CUDA", four(), "SLURM_STEP_GPUS=0,1,2 NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-c,GPU-d CUDA_VISIBLE_DEVICES=2,1,0", "GPU-c2 GPU-b1", "NVIDIA_VISIBLE_DEVICES"},

		{"MIG, all of a machine", splitGPU(splitGPU(gpusWithMinors(0, 1), 0, 2), 1, 1), "", "MIG-a00 MIG-a01 MIG-b10", ""},
		{"MIG by UUID", splitGPU(four(), 1, 2), "CUDA_VISIBLE_DEVICES=MIG-b11,MIG-b10", "MIG-b11 MIG-b10", ""},
		{"MIG by its GPU and numbers", splitGPU(four(), 1, 2), "CUDA_VISIBLE_DEVICES=MIG-GPU-b1/8/0", "MIG-b11", ""},
		{"MIG, no such instance", splitGPU(four(), 1, 2), "CUDA_VISIBLE_DEVICES=MIG-GPU-b1/9/0", "", "is no MIG instance"},
		{"MIG, an ambiguous beginning", splitGPU(four(), 1, 2), "CUDA_VISIBLE_DEVICES=MIG-b1", "", "fits several MIG"},
		{"MIG, instances unknown", dropDetails(four()), "CUDA_VISIBLE_DEVICES=MIG-x,MIG-y", "MIG-x MIG-y", ""},
		{"MIG and whole GPUs", splitGPU(four(), 1, 2), "", "MIG-b10 MIG-b11", "1 of the node's 4 GPUs are divided"},
		{"MIG and whole GPUs, one of these by UUID", splitGPU(four(), 1, 2), "CUDA_VISIBLE_DEVICES=GPU-c2", "GPU-c2", ""},
		{"MIG and whole GPUs in one list", splitGPU(four(), 1, 2), "CUDA_VISIBLE_DEVICES=GPU-c2,MIG-b10", "GPU-c2", "mixes"},
		{"MIG mode without an instance", splitGPU(four(), 1, 0), "", "GPU-a0 GPU-c2 GPU-d3", "have no instance"},
		{"MIG mode without an instance, named", splitGPU(four(), 1, 0), "CUDA_VISIBLE_DEVICES=0,1", "GPU-a0", "has no instance"},
		{"MIG, its GPU named", splitGPU(four(), 1, 2), "CUDA_VISIBLE_DEVICES=GPU-b1", "MIG-b10", ""},
		{"MIG from a container's list", splitGPU(gpusWithMinors(0), 0, 3), "NVIDIA_VISIBLE_DEVICES=MIG-a01", "MIG-a01", ""},
		{"MIG from a container's numbers", splitGPU(gpusWithMinors(0), 0, 3), "NVIDIA_VISIBLE_DEVICES=0:2,0:0", "MIG-a00 MIG-a02", ""},
		{"MIG, the container has all of its GPU", splitGPU(gpusWithMinors(0, 1), 0, 2), "NVIDIA_VISIBLE_DEVICES=GPU-a", "MIG-a00 MIG-a01", "divided"},
		{"MIG under Slurm, which counts instances", splitGPU(gpusWithMinors(0), 0, 3), "SLURM_STEP_GPUS=1 CUDA_VISIBLE_DEVICES=MIG-a01", "MIG-a01", ""},

		{"mixed models", mixModels(four()), "", all, "CUDA numbers the fastest first"},
		{"mixed models by index", mixModels(four()), "CUDA_VISIBLE_DEVICES=0", "GPU-a0", "gorun does not know which GPUs CUDA_VISIBLE_DEVICES=0 means"},
		{"mixed models by UUID", mixModels(four()), "CUDA_VISIBLE_DEVICES=GPU-a0", "GPU-a0", ""},
		{"mixed models in PCI order", mixModels(four()), "CUDA_VISIBLE_DEVICES=0 CUDA_DEVICE_ORDER=PCI_BUS_ID", "GPU-a0", ""},
		{"mixed models, of which Slurm gave some", mixModels(four()), "SLURM_STEP_GPUS=0,1", "GPU-a0 GPU-b1", "CUDA numbers the fastest first"},
		{"mixed models, the odd one hidden", deny(mixModels(four()), 0), "", "GPU-b1 GPU-c2 GPU-d3", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", tt.gpus)
			s := FindVisible(tt.gpus, ReadGrants(strings.Fields(tt.env)))
			var got []string
			for _, g := range s.Visible {
				got = append(got, g.UUID)
			}
			note := strings.Join(append(s.Notes, s.OrderUnknown), "\n")
			note = strings.TrimSpace(note)
			if none := len(got) == 0 && len(tt.gpus) > 0; none != (s.NoneReason != "") || s.Withheld && !none {
				t.Errorf("%+v: want none visible: %v", s, none)
			}
			if strings.Join(got, " ") != tt.want || !strings.Contains(note, tt.note) || (note == "") != (tt.note == "") {
				t.Errorf("got %q with note %q, want %q with %q", got, note, tt.want, tt.note)
			}
			if after := fmt.Sprintf("%+v", tt.gpus); after != before {
				t.Errorf("it changed its input:\n%s\n%s", before, after)
			}
		})
	}
}

// TestNoneReason checks why no GPU is visible, and whether CUDA must be made to
// show none.
func TestNoneReason(t *testing.T) {
	four := func() []GPU { return gpusWithMinors(0, 1, 2, 3) }
	for _, tt := range []struct {
		name, env, reason string
		gpus              []GPU
		withheld          bool
	}{
		{"a GPU is visible", "CUDA_VISIBLE_DEVICES=3 SLURM_STEP_GPUS=2,3", "", four(), false},
		{"the node has none", "CUDA_VISIBLE_DEVICES=0", "", nil, false},
		{"CUDA shows none", "CUDA_VISIBLE_DEVICES=-1,0", "CUDA_VISIBLE_DEVICES=-1,0 shows none", four(), false},
		{"CUDA's list is no list", "CUDA_VISIBLE_DEVICES=9", "has 4, so CUDA ignores it", four(), false},
		{"none may be opened", "SLURM_STEP_GPUS=2,3", "GPU 0: the cgroup does not allow it", deny(four(), 0, 1, 2, 3), false},
		{"others than Slurm gave", "SLURM_STEP_GPUS=2,3 CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=2,3 does not give 2 of the 2 GPUs that CUDA shows", four(), true},
		{"a container that got none", "NVIDIA_VISIBLE_DEVICES=none", "NVIDIA_VISIBLE_DEVICES=none does not give 4 of the 4", four(), true},
	} {
		s := FindVisible(tt.gpus, ReadGrants(strings.Fields(tt.env)))
		if s.Withheld != tt.withheld || !strings.Contains(s.NoneReason, tt.reason) || (s.NoneReason == "") != (tt.reason == "") {
			t.Errorf("%s: %+v, want %q, %v", tt.name, s, tt.reason, tt.withheld)
		}
	}
}

// TestOrderUnknown checks when only CUDA knows which GPUs an index means.
func TestOrderUnknown(t *testing.T) {
	for env, want := range map[string]bool{
		"": true, "CUDA_VISIBLE_DEVICES=1,0": true, "CUDA_DEVICE_ORDER=FASTEST_FIRST": true, "CUDA_DEVICE_ORDER=PCI_BUS_ID": false,
		"CUDA_VISIBLE_DEVICES=GPU-b1,GPU-a0": false, "SLURM_STEP_GPUS=0,1": false, "SLURM_STEP_GPUS=0,1 CUDA_VISIBLE_DEVICES=0,1,2": true,
	} {
		if s := FindVisible(mixModels(gpusWithMinors(0, 1, 2, 3)), ReadGrants(strings.Fields(env))); (s.OrderUnknown != "") != want {
			t.Errorf("%s: order unknown: %q, want %v", env, s.OrderUnknown, want)
		}
	}
}

// TestInstanceHasValuesOfItsGPU checks the values that binding and pinning need.
func TestInstanceHasValuesOfItsGPU(t *testing.T) {
	gpus := splitGPU(gpusWithMinors(5), 0, 1)
	gpus[0].NUMA = new(1)
	visible := FindVisible(gpus, Grants{}).Visible
	if len(visible) != 1 || visible[0].Parent != "GPU-a0" || visible[0].PCI != gpus[0].PCI || *visible[0].NUMA != 1 || visible[0].Index != -1 {
		t.Errorf("got %+v", visible)
	}
}

func FuzzFindVisible(f *testing.F) {
	f.Add("0,1", "all", "0-3")
	f.Add("MIG-GPU-b1/8/0", "0:1,MIG-", "1,2")
	f.Add("GPU-", "nvidia.com/gpu=0,none", "99999999999-")
	gpus := splitGPU(gpusWithMinors(0, 1, 2, 3), 1, 2)
	f.Fuzz(func(t *testing.T, cuda, nvidia, slurm string) {
		visible := FindVisible(gpus, Grants{CUDA: &cuda, NVIDIA: &nvidia, Slurm: &slurm, SlurmName: "SLURM_JOB_GPUS"}).Visible
		uuids := map[string]bool{}
		for _, g := range visible {
			uuids[g.UUID] = true
		}
		if len(uuids) != len(visible) {
			t.Errorf("%q, %q, %q: a GPU is visible twice: %+v", cuda, nvidia, slurm, visible)
		}
		whole := FindVisible(gpusWithMinors(0, 1), Grants{NVIDIA: &nvidia, Slurm: &slurm}).Visible
		if !slices.IsSortedFunc(whole, func(a, b GPU) int { return a.Index - b.Index }) {
			t.Errorf("%q, %q: out of order: %+v", nvidia, slurm, whole)
		}
	})
}

// TestEntries checks how CUDA_VISIBLE_DEVICES names what is visible in the user's form,
// and whether CUDA may count otherwise than nvidia-smi.
func TestEntries(t *testing.T) {
	four := func() []GPU { return gpusWithMinors(0, 1, 2, 3) }
	for _, c := range []struct {
		gpus      []GPU
		env       string // entries, separated by blanks
		want      string
		ambiguous bool
	}{
		{four(), "", "0 1 2 3", false},
		{deny(four(), 0, 2), "", "0 1", false},
		{four(), "CUDA_VISIBLE_DEVICES=3,01,x", "3 01", false},
		{four(), "CUDA_VISIBLE_DEVICES=GPU-c,GPU-a0", "GPU-c GPU-a0", false},
		{four(), "NVIDIA_VISIBLE_DEVICES=1,GPU-d3", "1 3", false},
		{four(), "CUDA_VISIBLE_DEVICES=3,1,0 SLURM_STEP_GPUS=1,3", "3 1", false},
		{mixModels(four()), "NVIDIA_VISIBLE_DEVICES=1,2", "1 2", true},
		{mixModels(four()), "CUDA_DEVICE_ORDER=PCI_BUS_ID", "0 1 2 3", false},
	} {
		s := FindVisible(c.gpus, ReadGrants(strings.Fields(c.env)))
		var got []string
		for _, g := range s.Visible {
			got = append(got, g.Entry)
		}
		if strings.Join(got, " ") != c.want || s.Ambiguous != c.ambiguous {
			t.Errorf("%s: %q, ambiguous %v", c.env, got, s.Ambiguous)
		}
	}
}
