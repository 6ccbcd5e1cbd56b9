package launch

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/launch/spec"
)

// nodeWith is the devices of a node on which GPUs were seen already.
func nodeWith(workers int, want pin.Options, gpus ...string) *devices {
	d := &devices{
		want: spec.Devices{Pin: want}, env: []string{"OMP_NUM_THREADS=1"}, seen: true, alike: 1,
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
	d = nodeWith(3, pin.Options{}, "GPU-a")
	if d.find(t.Context()); d.err != nil || len(d.notes) != 1 || len(d.owned()) != 0 {
		t.Errorf("nobody asked: %v, %q, %+v", d.err, d.notes, d.slots)
	}
	d = nodeWith(3, pin.Options{ByGPU: true}, "GPU-a")
	if d.find(t.Context()); d.err == nil {
		t.Error("too few GPUs are no error")
	}
	var w workers // what another node says of this one's workers must not end the agent
	if s := w.slot(7); s.around != nil || s.own != nil {
		t.Errorf("a worker that nobody knows has %+v", s)
	}
}
