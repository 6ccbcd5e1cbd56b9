package spec

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/place"
)

func devicesOf(flags map[string]string, env map[string]string) (Devices, error) {
	s, err := Raw{Flags: flags, Command: []string{"x"}}.Resolve(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	return s.Devices, err
}

func TestDevices(t *testing.T) {
	plain := func(change func(*Devices)) Devices {
		d := Devices{OnError: AbortOnGPUError, Release: 50 * time.Second}
		if change != nil {
			change(&d)
		}
		return d
	}
	for name, c := range map[string]struct {
		flags, env map[string]string
		want       Devices
	}{
		"nothing":   {nil, nil, plain(nil)},
		"exclusive": {map[string]string{"pin": "exclusive", "gpus_per_worker": "2"}, nil, plain(func(d *Devices) { d.Place = place.Options{Mode: place.Exclusive, PerWorker: 2} })},
		"a map": {map[string]string{"map": "gpu=1,0", "oversubscribe_gpus": "1"}, nil, plain(func(d *Devices) {
			d.Place = place.Options{Map: []int{1, 0}, Oversubscribe: true}
		})},
		"all GPUs": {map[string]string{"nproc_per_node": "gpu"}, nil, plain(func(d *Devices) { d.Place.ByGPU = true })},
		"torchrun's variables": {nil, map[string]string{"PET_VIRTUAL_LOCAL_RANK": "1", "PET_NUMA_BINDING": "core-complex"}, plain(func(d *Devices) {
			d.Place.Virtual, d.Place.Binding = true, numa.CoreComplex
		})},
		"a variable that is empty":    {nil, map[string]string{"PET_NUMA_BINDING": ""}, plain(nil)},
		"no variables of gorun's own": {nil, map[string]string{"PET_PIN": "none", "PET_ON_GPU_ERROR": "warn"}, plain(nil)},
		"the flag wins":               {map[string]string{"numa_binding": "node"}, map[string]string{"PET_NUMA_BINDING": "socket"}, plain(func(d *Devices) { d.Place.Binding = numa.ByNode })},
		"no CPUs of their own":        {map[string]string{"numa_binding": " none"}, nil, plain(func(d *Devices) { d.Place.Unbound = true })},
		"a stop does not wait, and errors are printed": {map[string]string{"gpu_release_timeout": "0", "on_gpu_error": "warn"}, nil, plain(func(d *Devices) {
			d.OnError, d.Release = WarnOnGPUError, 0
		})},
	} {
		if got, err := devicesOf(c.flags, c.env); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestDevicesRefuses(t *testing.T) {
	for flags, says := range map[string]string{
		"pin=all":                       "cannot use --pin=all",
		"map=0,1":                       "cannot use --map 0,1",
		"map=gpu=0,0":                   "gives a GPU to two workers",
		"gpus_per_worker=0":             "--gpus-per-worker is 0: it must be at least 1",
		"numa_binding=numa":             "error: argument --numa-binding/--numa_binding: invalid choice: 'numa' (choose from 'node', 'socket', 'exclusive', 'core-complex', 'none')",
		"on_gpu_error=ignore":           `cannot use --on-gpu-error: "ignore"`,
		"gpu_release_timeout=-1":        "cannot use --gpu-release-timeout: -1 is negative",
		"virtual_local_rank=1 pin=none": "--virtual-local-rank decides",
		"pin=none map=gpu=0,1":          "--pin=none leaves the GPUs as they are",
		"pin=none pin_by=uuid":          "leave out --map, --gpus-per-worker and --pin-by=uuid, or --pin=none",
	} {
		given := map[string]string{}
		for f := range strings.FieldsSeq(flags) {
			name, value, _ := strings.Cut(f, "=")
			given[name] = value
		}
		if _, err := devicesOf(given, nil); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", flags, err, says)
		}
	}
	if _, err := devicesOf(nil, map[string]string{"PET_NUMA_BINDING": "near"}); err == nil || !strings.Contains(err.Error(), "PET_NUMA_BINDING") {
		t.Errorf("a variable: %v", err)
	}
}
