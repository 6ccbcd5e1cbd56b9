package launch

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/launch/spec"

	"github.com/gorun/gorun/internal/term"
)

// nodeWith is the devices of a node on which GPUs were seen already.
func nodeWith(workers int, want pin.Options, gpus ...string) *devices {
	d := &devices{
		want: spec.Devices{Pin: want}, env: []string{"OMP_NUM_THREADS=1"}, seen: true, alike: 1, root: fstest.MapFS{},
		node: pin.Node{Name: "here", Workers: workers},
	}
	for i, id := range gpus {
		d.node.Visible = append(d.node.Visible, device.GPU{Index: i, UUID: id})
	}
	return d
}

func TestSlots(t *testing.T) {
	d := nodeWith(2, pin.Options{Mode: pin.Exclusive}, "GPU-a", "GPU-b")
	d.find(t.Context())
	if d.err != nil || len(d.slots) != 2 || !slices.Equal(d.owned(), []string{"GPU-a", "GPU-b"}) || d.slots[1].device != "GPU-b" {
		t.Fatalf("%v, %+v", d.err, d.slots)
	}
	env := overlay([]string{"A=1", "CUDA_VISIBLE_DEVICES=0,1", "B=2"}, d.slots[1].set)
	if want := []string{"A=1", "CUDA_VISIBLE_DEVICES=GPU-b", "B=2", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}; !slices.Equal(env, want) {
		t.Errorf("got %q, want %q", env, want)
	}
	d = nodeWith(2, pin.Options{Mode: pin.None}, "GPU-a", "GPU-b")
	if d.find(t.Context()); len(d.owned()) != 0 || len(d.slots[0].set) != 0 {
		t.Errorf("--pin=none: %+v", d.slots)
	}
	for _, asked := range []pin.Options{{}, {ByGPU: true}} {
		d = nodeWith(3, asked, "GPU-a")
		if d.find(t.Context()); d.err == nil {
			t.Errorf("%+v: too few GPUs are no error", asked)
		}
	}
	var p plan // what another node says of this one's workers must not end the agent
	if s := p.slot(7); s.around != nil || s.own != nil {
		t.Errorf("a worker that nobody knows has %+v", s)
	}
}

// GPUs that CUDA would show, but that Slurm gave to others, are kept from the workers.
func TestWithheld(t *testing.T) {
	d := nodeWith(2, pin.Options{})
	d.env = append(d.env, "CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=1")
	d.see([]device.GPU{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}})
	if d.find(t.Context()); d.err != nil || !slices.Equal(overlay([]string{"CUDA_VISIBLE_DEVICES=0"}, d.slots[1].set), []string{"CUDA_VISIBLE_DEVICES="}) {
		t.Errorf("%v, %+v", d.err, d.slots)
	}
}

// A CPU quota bounds the threads, whatever the mask has.
func TestThreadsWithinQuota(t *testing.T) {
	half := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/cpu.max": {Data: []byte("50000 100000\n")}}
	d := nodeWith(2, pin.Options{Mode: pin.None})
	d.env, d.root = nil, half
	want := envprop.Threads{Cores: 1, Workers: 2, Quota: true}
	if d.find(t.Context()); d.err != nil || d.slots[1].threads != want {
		t.Errorf("%v, %+v, want %+v", d.err, d.slots, want)
	}
	sixteen := envprop.Threads{Cores: 16, Workers: 8, Quota: true}
	for _, tt := range []struct {
		quota     float64
		workers   int
		has, want envprop.Threads
	}{
		{0, 8, envprop.Threads{Cores: 128, Workers: 8}, envprop.Threads{Cores: 128, Workers: 8}},
		{16, 8, envprop.Threads{Cores: 128, Workers: 8}, sixteen},
		{16.9, 8, envprop.Threads{Cores: 16, Workers: 1}, sixteen}, // bound to 16 cores each
		{16, 8, envprop.Threads{Cores: 2, Workers: 1}, envprop.Threads{Cores: 2, Workers: 1}},
		{0.5, 2, envprop.Threads{Cores: 2, Workers: 2}, want},
	} {
		if got := within(tt.quota, tt.workers, tt.has); got != tt.want {
			t.Errorf("%v CPUs for %d workers with %+v: %+v, want %+v", tt.quota, tt.workers, tt.has, got, tt.want)
		}
	}
}

// What concerns the machine is said by the first of its agents, what concerns
// its own workers by each.
func TestSayNotes(t *testing.T) {
	cpus, _, err := numa.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	one := fstest.MapFS{"sys/devices/system/cpu/online": {Data: []byte(cpus[:1].String())}}
	for index, want := range []int{2, 1} {
		var out strings.Builder
		d := nodeWith(1, pin.Options{})
		d.want.Binding, d.root, d.notes = numa.ByNode, one, []string{"the GPUs differ"}
		a := &agent{opts: Options{Local: &LocalNode{Index: index}}, devices: d, console: &console{Console: term.NewConsole(&out, "gorun", nil)}}
		d.find(t.Context())
		a.sayNotes()
		a.sayNotes() // not twice
		go a.console.Run()
		a.console.Close()
		if text := out.String(); d.err != nil || strings.Count(text, "\n") != want || !strings.Contains(text, "fewer than 4 CPUs") {
			t.Errorf("agent %d says %q, %v, want %d lines", index, text, d.err, want)
		}
	}
}
