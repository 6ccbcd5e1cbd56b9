package check

import (
	"errors"
	"reflect"
	"testing"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// TestUnusedGPUsHaveNoFacts checks that the state of the machine's driver has no effect on a job
// without GPUs.
func TestUnusedGPUsHaveNoFacts(t *testing.T) {
	gpus := device.Survey{Driver: true, GPUs: []device.GPU{{UUID: "GPU-1"}}}
	silent := device.Survey{Driver: true, Err: errors.New("no libnvidia-ml")}
	for name, c := range map[string]struct {
		s     device.Survey
		given bool
		want  bool
	}{
		"GPUs":                            {gpus, true, false},
		"a Slurm job that asked for none": {device.Survey{Driver: true}, true, true},
		"a container without GPUs":        {silent, false, true},
		"a driver that does not answer":   {silent, true, false},
	} {
		p := place.Plan{Inventory: place.Inventory{Survey: c.s}}
		if got := reflect.DeepEqual(gpuFacts(&p, nil, c.given), preflight.GPU{}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestGPUFacts(t *testing.T) {
	state := preflight.DeviceState{Capability: "9.0", NICs: []string{"mlx5_0"}}
	all := []device.GPU{
		{Index: 0, UUID: "GPU-0", State: &state, Instances: []device.Instance{{UUID: "MIG-1"}}},
		{Index: 1, UUID: "GPU-1", Error: "lost"},
	}
	slots := []place.Slot{{GPUs: []string{"GPU-0"}}}
	devices := []preflight.Device{
		{Index: 0, UUID: "GPU-0", Instances: []string{"MIG-1"}, DeviceState: state},
		{Index: 1, UUID: "GPU-1", Error: "lost"},
	}
	survey := device.Survey{Driver: true, GPUs: all, NVML: "12"}
	for name, c := range map[string]struct {
		plan place.Plan
		want preflight.GPU
	}{
		"a plan": {
			place.Plan{Slots: slots, Inventory: place.Inventory{Known: true, Visibility: device.Visibility{Visible: all[:1]}, Survey: survey}},
			preflight.GPU{Driver: true, NVML: "12", Devices: devices, Visible: []string{"GPU-0"}, Owned: []string{"GPU-0"}},
		},
		"shared GPUs belong to no rank": {
			place.Plan{Slots: slots, Shared: true, Inventory: place.Inventory{Known: true, Visibility: device.Visibility{Visible: all[:1]}, Survey: survey}},
			preflight.GPU{Driver: true, NVML: "12", Devices: devices, Visible: []string{"GPU-0"}, Shared: true},
		},
		"a failing GPU, so that none is known": {
			place.Plan{Inventory: place.Inventory{Survey: survey}},
			preflight.GPU{Driver: true, NVML: "12", Devices: devices, Visible: []string{"GPU-1"}},
		},
	} {
		if got := gpuFacts(&c.plan, []string{"CUDA_VISIBLE_DEVICES=1"}, true); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
