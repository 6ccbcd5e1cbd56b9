package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/worker/contract"
)

// gpus returns n GPUs in PCI order, GPU-0, GPU-1, ...
func gpus(n int) []device.GPU {
	all := make([]device.GPU, n)
	for i := range all {
		all[i] = device.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), PCI: fmt.Sprintf("0000:%02x:00.0", i+16)}
	}
	return all
}

func with(all []device.GPU, change func(i int, g *device.GPU)) []device.GPU {
	for i := range all {
		change(i, &all[i])
	}
	return all
}

// named gives the GPUs their entries of CUDA_VISIBLE_DEVICES.
func named(all []device.GPU, entries ...string) []device.GPU {
	return with(all, func(i int, g *device.GPU) { g.Entry = entries[i] })
}

func mig(i int, g *device.GPU)       { g.Index, g.UUID = -1, fmt.Sprint("MIG-", i) }
func anonymous(_ int, g *device.GPU) { g.UUID = "" }

// shown returns what one worker gets: "list own", the list as in
// CUDA_VISIBLE_DEVICES and the owned positions; "-" if nothing is set.
func shown(s Slot) string {
	list := "-"
	for _, v := range s.Devices.Pinned {
		if v.Name == visibleDevices {
			list = v.Value
		}
	}
	return list + " " + strings.ReplaceAll(fmt.Sprint(s.Positions), " ", ",")
}

func TestMake(t *testing.T) {
	list := func(s string) *string { return &s }
	const all4 = "GPU-0,GPU-1,GPU-2,GPU-3"
	for _, c := range []struct {
		name    string
		node    Node
		options Options
		want    []string // for each worker, as shown returns it
		mode    Mode
		notes   []string
	}{
		{
			name: "the default", node: Node{Workers: 4, Visibility: device.Visibility{Visible: gpus(4)}}, mode: Order,
			want: []string{all4 + " [0]", all4 + " [1]", all4 + " [2]", all4 + " [3]"},
		},
		{
			name: "as CUDA shows them", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4), Whole: true}}, mode: Order,
			want: []string{"- [0]", "- [1]"},
		},
		{
			name: "as the user's list shows them", node: Node{Workers: 2, List: list("3,1"), Visibility: device.Visibility{Visible: []device.GPU{gpus(4)[3], gpus(4)[1]}, Whole: true}}, mode: Order,
			want: []string{"- [0]", "- [1]"},
		},
		{
			name: "by UUID", node: Node{Workers: 1, List: list("0,1"), Visibility: device.Visibility{Visible: gpus(2), Whole: true}}, options: Options{ByUUID: true}, mode: Order,
			want: []string{"GPU-0,GPU-1 [0]"},
		},
		{
			name: "exclusive, by index", node: Node{Workers: 2, Visibility: device.Visibility{Visible: named(gpus(4), "0", "1", "2", "3"), Whole: true}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"0 [0]", "1 [1]"},
		},
		{
			name: "exclusive, of the user's list", node: Node{Workers: 2, List: list("3, GPU-1"), Visibility: device.Visibility{Visible: named([]device.GPU{gpus(4)[3], gpus(4)[1]}, "3", "GPU-1"), Whole: true}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"3 [0]", "GPU-1 [1]"},
		},
		{
			name: "exclusive, of a list that CUDA cuts off", node: Node{Workers: 1, List: list("3,x"), Visibility: device.Visibility{Visible: named(gpus(4)[3:], "3"), Whole: true}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"3 [0]"},
		},
		{
			name: "some of what CUDA shows", node: Node{Workers: 2, Visibility: device.Visibility{Visible: named(gpus(4)[1:3], "1", "2")}}, mode: Order,
			want: []string{"1,2 [0]", "1,2 [1]"},
		},
		{
			name: "some of what CUDA shows, which may count otherwise", node: Node{Workers: 2, Visibility: device.Visibility{Visible: named(gpus(4)[1:3], "1", "2"), Ambiguous: true}}, mode: Order,
			want: []string{"1,2 [0]", "1,2 [1]"},
		},
		{
			name: "one each of what CUDA may count otherwise", node: Node{Workers: 2, Visibility: device.Visibility{Visible: named(gpus(4)[1:3], "1", "2"), Ambiguous: true}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"GPU-1 [0]", "GPU-2 [1]"},
		},
		{
			name: "another agent's GPUs come last", node: Node{Workers: 1, Skip: 1, All: 2, Visibility: device.Visibility{Visible: named(gpus(2), "0", "1"), Whole: true}}, mode: Order,
			want: []string{"1,0 [1]"},
		},
		{
			name: "a MIG instance is named by its UUID", node: Node{Workers: 1, List: list("0"), Visibility: device.Visibility{Visible: named(with(gpus(1), mig), "0"), Whole: true}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"MIG-0 [0]"},
		},
		{
			name: "more workers than GPUs", node: Node{Workers: 3, Name: "n1", Visibility: device.Visibility{Visible: gpus(2)}}, mode: None,
			want: []string{"- [0]", "- [1]", "- []"}, notes: []string{"3 workers, but 2 GPUs are visible on node n1: no worker gets a GPU of its own, as under torchrun"},
		},
		{
			name: "more workers of all agents than GPUs", node: Node{Workers: 2, All: 4, Visibility: device.Visibility{Visible: gpus(2)}}, mode: None,
			want: []string{"- [0]", "- [1]"}, notes: []string{"4 workers, but 2 GPUs are visible"},
		},
		{
			name: "more workers than GPUs, in an order that only CUDA knows", node: Node{Workers: 3, Visibility: device.Visibility{Visible: gpus(2), OrderUnknown: "they differ"}}, mode: None,
			want: []string{"- []", "- []", "- []"}, notes: []string{"3 workers, but 2 GPUs are visible"},
		},
		{
			name: "fewer workers than GPUs", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, mode: Order,
			want: []string{all4 + " [0]", all4 + " [1]"},
		},
		{
			name: "the user's order is kept", node: Node{Workers: 2, Visibility: device.Visibility{Visible: []device.GPU{gpus(4)[3], gpus(4)[1]}}}, mode: Order,
			want: []string{"GPU-3,GPU-1 [0]", "GPU-3,GPU-1 [1]"},
		},
		{
			name: "exclusive", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"GPU-0 [0]", "GPU-1 [1]"},
		},
		{
			name: "none", node: Node{Workers: 3, Visibility: device.Visibility{Visible: gpus(2)}}, options: Options{Mode: None}, mode: None,
			want: []string{"- [0]", "- [1]", "- []"},
		},
		{
			name: "map", node: Node{Workers: 4, Visibility: device.Visibility{Visible: gpus(4)}}, options: Options{Map: []int{0, 2, 1, 3}}, mode: Order,
			want: []string{"GPU-0,GPU-2,GPU-1,GPU-3 [0]", "GPU-0,GPU-2,GPU-1,GPU-3 [2]", "GPU-0,GPU-2,GPU-1,GPU-3 [1]", "GPU-0,GPU-2,GPU-1,GPU-3 [3]"},
		},
		{
			name: "map of some, the others follow", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, options: Options{Map: []int{3, 1}}, mode: Order,
			want: []string{"GPU-3,GPU-1,GPU-0,GPU-2 [3]", "GPU-3,GPU-1,GPU-0,GPU-2 [1]"},
		},
		{
			name: "map, exclusive", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, options: Options{Mode: Exclusive, Map: []int{3, 1}}, mode: Exclusive,
			want: []string{"GPU-3 [3]", "GPU-1 [1]"},
		},
		{
			name: "two a worker", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, options: Options{PerWorker: 2}, mode: Order,
			want:  []string{all4 + " [0,1]", all4 + " [2,3]"},
			notes: []string{"owns 2 of them, local rank 1 from device 2 on; --pin=exclusive shows each its own as devices 0 to 1"},
		},
		{
			name: "two a worker, exclusive", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(5)}}, options: Options{PerWorker: 2, Mode: Exclusive, ByGPU: true}, mode: Exclusive,
			want: []string{"GPU-0,GPU-1 [0,1]", "GPU-2,GPU-3 [2,3]"},
		},
		{
			name: "two a worker, by hand", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, options: Options{PerWorker: 2, Mode: Exclusive, Map: []int{0, 2, 1, 3}}, mode: Exclusive,
			want: []string{"GPU-0,GPU-2 [0,2]", "GPU-1,GPU-3 [1,3]"},
		},
		{
			name: "shared on purpose", node: Node{Workers: 3, Visibility: device.Visibility{Visible: gpus(2)}}, options: Options{Oversubscribe: true}, mode: Order,
			want:  []string{"GPU-0,GPU-1 [0]", "GPU-0,GPU-1 [1]", "GPU-0,GPU-1 [0]"},
			notes: []string{"3 workers share 2 GPUs: take device LOCAL_RANK modulo 2, or use --pin=exclusive"},
		},
		{
			name: "shared and exclusive", node: Node{Workers: 3, Visibility: device.Visibility{Visible: gpus(2)}}, options: Options{Oversubscribe: true, Mode: Exclusive}, mode: Exclusive,
			want: []string{"GPU-0 [0]", "GPU-1 [1]", "GPU-0 [0]"},
		},
		{
			name: "shared by hand", node: Node{Workers: 3, Visibility: device.Visibility{Visible: gpus(2)}}, options: Options{Oversubscribe: true, Mode: Exclusive, Map: []int{0, 0, 1}}, mode: Exclusive,
			want: []string{"GPU-0 [0]", "GPU-0 [0]", "GPU-1 [1]"},
		},
		{
			name: "the second agent of a machine", node: Node{Workers: 2, Skip: 2, Visibility: device.Visibility{Visible: gpus(4)}}, mode: Order,
			want: []string{"GPU-2,GPU-3,GPU-0,GPU-1 [2]", "GPU-2,GPU-3,GPU-0,GPU-1 [3]"},
		},
		{
			name: "workers that compute on CPUs", node: Node{Workers: 5, Visibility: device.Visibility{Visible: gpus(4)}}, options: Options{Mode: None}, mode: None,
			want: []string{"- [0]", "- [1]", "- [2]", "- [3]", "- []"},
		},
		{name: "all hidden", node: Node{Workers: 2, List: list(""), Visibility: device.Visibility{NoneReason: "CUDA_VISIBLE_DEVICES= hides all"}}, mode: None, want: []string{"- []", "- []"}},
		{
			name: "none was given of those that CUDA shows", node: Node{Workers: 2, List: list("0,1"), Visibility: device.Visibility{NoneReason: "Slurm", Withheld: true}}, mode: None,
			want: []string{" []", " []"}, notes: []string{"they get CUDA_VISIBLE_DEVICES= (--pin=none leaves"},
		},
		{
			name: "none was given, and nothing shall be set", node: Node{Workers: 1, Visibility: device.Visibility{NoneReason: "Slurm", Withheld: true}}, options: Options{Mode: None}, mode: None,
			want: []string{"- []"},
		},
		{
			name: "virtual, none was given", node: Node{Workers: 2, List: list("0,1"), Visibility: device.Visibility{NoneReason: "Slurm", Withheld: true}}, options: Options{Virtual: true}, mode: Exclusive,
			want: []string{" []", " []"},
		},
		{
			name: "an order that only CUDA knows", node: Node{Workers: 1, List: list("0"), Visibility: device.Visibility{Visible: gpus(1), OrderUnknown: "they differ"}}, mode: None,
			want: []string{"- []"}, notes: []string{"CUDA_VISIBLE_DEVICES stays as it is: they differ"},
		},
		{
			name: "an order that only CUDA knows, counted", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(2), OrderUnknown: "they differ"}}, options: Options{ByGPU: true}, mode: None,
			want: []string{"- []", "- []"}, notes: []string{"stays as it is: they differ"},
		},
		{
			name: "an order that gorun shall decide", node: Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(2), OrderUnknown: "they differ"}}, options: Options{Mode: Order}, mode: Order,
			want: []string{"GPU-0,GPU-1 [0]"}, notes: []string{"they differ; --pin counts as nvidia-smi does"},
		},
		{
			name: "an order that only CUDA knows, nothing set", node: Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(2), OrderUnknown: "they differ"}}, options: Options{Mode: None}, mode: None,
			want: []string{"- []"},
		},
		{
			name: "an order that only CUDA knows, virtual", node: Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(2), OrderUnknown: "they differ"}}, options: Options{Virtual: true}, mode: Exclusive,
			want: []string{"0 []"},
		},
		{name: "a node without GPUs", node: Node{Workers: 2}, mode: None, want: []string{"- []", "- []"}},
		{
			name: "a node without GPUs in a job that has some", node: Node{Workers: 1, Name: "ps1"}, options: Options{Mode: Exclusive, PerWorker: 2, ByGPU: true}, mode: None,
			want: []string{"- []"}, notes: []string{"no GPU is visible on node ps1"},
		},
		{
			name: "UUIDs that are not known", node: Node{Workers: 2, Visibility: device.Visibility{Visible: with(gpus(2), anonymous)}}, mode: Order,
			want: []string{"0,1 [0]", "0,1 [1]"},
		},
		{
			name: "one that is not known", node: Node{Workers: 2, Visibility: device.Visibility{Visible: append(with(gpus(1), anonymous), gpus(2)[1])}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"0 [0]", "1 [1]"},
		},
		{
			name: "MIG, exclusive", node: Node{Workers: 2, Visibility: device.Visibility{Visible: with(gpus(2), mig)}}, options: Options{Mode: Exclusive}, mode: Exclusive,
			want: []string{"MIG-0 [0]", "MIG-1 [1]"},
		},
		{
			name: "MIG, nothing asked", node: Node{Workers: 2, Visibility: device.Visibility{Visible: with(gpus(2), mig)}}, mode: None,
			want: []string{"- []", "- []"}, notes: []string{"only local rank 0 finds device LOCAL_RANK; use --virtual-local-rank"},
		},
		{
			name: "MIG, in order", node: Node{Workers: 2, Visibility: device.Visibility{Visible: with(gpus(2), mig)}}, options: Options{Mode: Order}, mode: Order,
			want: []string{"MIG-0,MIG-1 [0]", "MIG-0,MIG-1 [1]"}, notes: []string{"--virtual-local-rank"},
		},
		{
			name: "one worker on a MIG instance", node: Node{Workers: 1, Visibility: device.Visibility{Visible: with(gpus(2), mig)}}, mode: Order,
			want: []string{"MIG-0,MIG-1 [0]"},
		},
		{
			name: "virtual, no list", node: Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(2)}}, options: Options{Virtual: true}, mode: Exclusive,
			want: []string{"0 [0]", "1 [1]"},
		},
		{
			name: "virtual, as the list writes it", node: Node{Workers: 2, List: list("5, 1"), Visibility: device.Visibility{Visible: []device.GPU{gpus(8)[5], gpus(8)[1]}}}, options: Options{Virtual: true}, mode: Exclusive,
			want: []string{"5 [0]", "1 [1]"},
		},
		{
			name: "virtual without GPUs", node: Node{Workers: 2}, options: Options{Virtual: true}, mode: Exclusive,
			want: []string{"0 []", "1 []"},
		},
		{
			name: "virtual, all hidden", node: Node{Workers: 1, List: list("")}, options: Options{Virtual: true}, mode: Exclusive,
			want: []string{" []"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Make(c.node, c.options)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range p.Slots {
				got = append(got, shown(s))
				var own []string
				for _, at := range s.Positions {
					if id := c.node.Visible[at].UUID; id != "" && p.Mode != None {
						own = append(own, id)
					}
				}
				if !slices.Equal(s.GPUs, own) {
					t.Errorf("own %q, want %q", s.GPUs, own)
				}
			}
			if !slices.Equal(got, c.want) || p.Mode != c.mode {
				t.Errorf("%s: got\n%q, want %s\n%q", p.Mode, got, c.mode, c.want)
			}
			for i, note := range c.notes {
				if i >= len(p.Notes) || !strings.Contains(p.Notes[i], note) {
					t.Errorf("notes %q, want %q", p.Notes, note)
				}
			}
			if len(p.Notes) != len(c.notes) {
				t.Errorf("%d notes, want %d: %q", len(p.Notes), len(c.notes), p.Notes)
			}
		})
	}
}

func TestMakeFails(t *testing.T) {
	list := func(s string) *string { return &s }
	for _, c := range []struct {
		name    string
		node    Node
		options Options
		want    string
	}{
		{"by GPU, two agents", Node{Workers: 4, Skip: 4, Visibility: device.Visibility{Visible: gpus(4)}}, Options{ByGPU: true}, "4 workers after the 4 of this machine's other nodes, but 4 GPUs are visible on node n1"},
		{"order in so many words", Node{Workers: 8, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Mode: Order}, "8 workers, but 4 GPUs are visible on node n1"},
		{"GPUs that are hidden", Node{Workers: 1, Visibility: device.Visibility{NoneReason: "CUDA_VISIBLE_DEVICES= hides all"}}, Options{Mode: Exclusive}, "no GPU is visible on node n1: CUDA_VISIBLE_DEVICES= hides all; make some visible, or leave out --pin=exclusive"},
		{"GPUs that were not given", Node{Workers: 1, Visibility: device.Visibility{NoneReason: "Slurm", Withheld: true}}, Options{PerWorker: 2}, "no GPU is visible on node n1: Slurm; make some visible, or leave out --gpus-per-worker"},
		{"indexes that only CUDA knows", Node{Workers: 1, List: list("0"), Visibility: device.Visibility{Visible: gpus(1), OrderUnknown: "they differ"}}, Options{Map: []int{0}}, "they differ"},
		{"exclusive", Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(1)}}, Options{Mode: Exclusive}, "2 workers, but 1 GPU is visible on node n1"},
		{"too many a worker", Node{Workers: 3, Visibility: device.Visibility{Visible: gpus(4)}}, Options{PerWorker: 2}, "3 workers with 2 GPUs each, but 4 GPUs are visible"},
		{"more a worker than there are", Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(2)}}, Options{PerWorker: 4, Oversubscribe: true}, "cannot give 4 GPUs to a worker: 2 GPUs are visible"},
		{"a short map", Node{Workers: 4, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Map: []int{0, 1}}, "4 workers on node n1, but --map names 2 GPUs"},
		{"a map beyond the GPUs", Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Map: []int{4}}, "--map names GPU 4, but 4 GPUs are visible on node n1, counted from 0"},
		{"a map twice", Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Map: []int{1, 1}, Mode: Exclusive}, "gives a GPU to two workers"},
		{"a map twice, in order", Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Map: []int{1, 1}, Oversubscribe: true}, "use --pin=exclusive"},
		{"none with a map", Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Mode: None, Map: []int{1}}, "--pin=none leaves the GPUs as they are"},
		{"virtual and pinned", Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Mode: Exclusive, Virtual: true}, "leave out --pin"},
		{"virtual beyond the list", Node{Workers: 3, List: list("0,1"), Visibility: device.Visibility{Visible: gpus(2)}}, Options{Virtual: true}, "local rank 2 on node n1 has no entry in CUDA_VISIBLE_DEVICES=0,1"},
		{"no names", Node{Workers: 1, Visibility: device.Visibility{Visible: append(with(gpus(1), anonymous), with(gpus(1), mig)...)}}, Options{Mode: Order}, "cannot be named"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.node.Name = "n1"
			if _, err := Make(c.node, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestVariables(t *testing.T) {
	for _, c := range []struct {
		options Options
		visible []device.GPU
		device  string
		pinned  []envprop.Variable
	}{
		{Options{}, gpus(2), "GPU-1", []envprop.Variable{{Name: "CUDA_DEVICE_ORDER", Value: "PCI_BUS_ID"}, {Name: "CUDA_VISIBLE_DEVICES", Value: "GPU-0,GPU-1"}}},
		{Options{}, with(gpus(2), anonymous), "", []envprop.Variable{{Name: "CUDA_DEVICE_ORDER", Value: "PCI_BUS_ID"}, {Name: "CUDA_VISIBLE_DEVICES", Value: "0,1"}}},
		{Options{Virtual: true}, gpus(2), "GPU-1", []envprop.Variable{{Name: "LOCAL_RANK", Value: "0"}, {Name: "CUDA_VISIBLE_DEVICES", Value: "1"}}},
		{Options{Mode: None}, gpus(2), "", nil},
	} {
		p, err := Make(Node{Workers: 2, Visibility: device.Visibility{Visible: c.visible}}, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Slots[1].Devices; got.Device != c.device || !slices.Equal(got.Pinned, c.pinned) {
			t.Errorf("%+v: %+v, want %s and %v", c.options, got, c.device, c.pinned)
		}
		for _, name := range Names() {
			want := name == contract.EnvDevice && c.device != "" || slices.ContainsFunc(c.pinned, func(v envprop.Variable) bool { return v.Name == name })
			if p.Sets(name) != want {
				t.Errorf("%+v: it sets %s: %v", c.options, name, !want)
			}
		}
	}
}

func TestOwned(t *testing.T) {
	for _, c := range []struct {
		node    Node
		options Options
		want    []string
	}{
		{Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, Options{}, []string{"GPU-0", "GPU-1"}},
		{Node{Workers: 1, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Mode: Exclusive, PerWorker: 2, Map: []int{3, 2}}, []string{"GPU-3", "GPU-2"}},
		{Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Mode: None}, nil},
		{Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4)}}, Options{Oversubscribe: true}, []string{"GPU-0", "GPU-1"}},
		{Node{Workers: 2, Visibility: device.Visibility{Visible: gpus(4), OrderUnknown: "they differ"}}, Options{}, nil},
		{Node{Workers: 2, Visibility: device.Visibility{Visible: with(gpus(4), anonymous)}}, Options{}, nil},
	} {
		p, err := Make(c.node, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Owned(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.options, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	if at, err := ParseMap("gpu=0,2, 1,3"); err != nil || !slices.Equal(at, []int{0, 2, 1, 3}) {
		t.Errorf("%v, %v", at, err)
	}
	for _, bad := range []string{"", "0,1", "gpu=", "gpu=0,,1", "gpu=-1", "gpu=x", "gpu=1024", "gpu=" + strings.Repeat("1,", 1024) + "1"} {
		if at, err := ParseMap(bad); err == nil {
			t.Errorf("%.20q gives %d positions", bad, len(at))
		}
	}
	if m, err := ParseMode("exclusive"); err != nil || m != Exclusive {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := ParseMode("auto"); err == nil || !strings.Contains(err.Error(), "--pin=auto") {
		t.Error(err)
	}
	if o := (Options{PerWorker: 2}); o.WorkersFor(5) != 2 || (Options{}).WorkersFor(5) != 5 {
		t.Error("5 GPUs carry 2 workers with 2 each, else 5")
	}
}
