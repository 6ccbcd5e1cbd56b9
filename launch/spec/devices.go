package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/place"
)

// OnGPUError says what happens to a round when the driver reports a critical error
// of a GPU that one of its workers has.
type OnGPUError string

// The values of --on-gpu-error.
const (
	AbortOnGPUError OnGPUError = "abort" // the error ends the round (the default)
	WarnOnGPUError  OnGPUError = "warn"  // the error is printed
)

// DefaultGPURelease is how long a stop waits until the workers' GPUs are free.
const DefaultGPURelease = 50 * time.Second

// Devices holds what the user asked for about GPUs and CPUs of the workers.
type Devices struct {
	Place   place.Options
	OnError OnGPUError
	Release time.Duration // --gpu-release-timeout; 0: a stop does not wait for GPUs
}

func (in *input) devices(s *Spec) {
	d := &s.Devices
	read := func(name string, parse func(string) error) {
		v := in.get(name)
		if !v.given || v.env && v.text == "" {
			return
		}
		if err := parse(v.text); err != nil {
			if v.env {
				err = fmt.Errorf("%s: %w", v.from, err)
			}
			in.check(err)
		}
	}
	read("pin", func(text string) (err error) {
		d.Place.Mode, err = place.ParseMode(text)
		return err
	})
	read("map", func(text string) (err error) {
		d.Place.Map, err = place.ParseMap(text)
		return err
	})
	read("numa_binding", func(text string) (err error) {
		if text = strings.TrimSpace(text); text == "none" {
			d.Place.Unbound = true
			return nil
		}
		if d.Place.Binding, err = numa.ParseMode(text); err != nil {
			in.failChoice(in.get("numa_binding"), string(numa.ByNode), string(numa.BySocket), string(numa.Exclusive), string(numa.CoreComplex), "none")
		}
		return nil
	})
	d.Place.PerWorker, _ = in.number("gpus_per_worker", 0, 1)
	switch v := in.text("pin_by", "auto"); v.text {
	case "auto", "uuid":
		d.Place.ByUUID = v.text == "uuid"
	default:
		in.fail("cannot use %s: %q is neither auto nor uuid", v.from, v.text)
	}
	d.Place.Virtual = in.isOn("virtual_local_rank")
	d.Place.Oversubscribe = in.isOn("oversubscribe_gpus")
	d.Place.ByGPU = s.Nproc.Of == "gpu"
	if s.Surroundings.TaskWorkers {
		d.Place.Mode = place.None
	}
	in.check(d.Place.Check())
	v := in.text("on_gpu_error", string(AbortOnGPUError))
	if d.OnError = OnGPUError(v.text); d.OnError != AbortOnGPUError && d.OnError != WarnOnGPUError {
		in.fail("cannot use %s: %q is neither abort nor warn", v.from, v.text)
	}
	d.Release = DefaultGPURelease
	if v := in.get("gpu_release_timeout"); v.given {
		var err error
		if d.Release, err = ParseSeconds(v.text); err != nil {
			in.fail("cannot use %s: %w", v.from, err)
		}
	}
}
