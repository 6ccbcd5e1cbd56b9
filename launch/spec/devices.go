package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/launch/pin"
)

// OnGPUError says what becomes of a round when the driver reports a critical
// error of a GPU that one of its workers has.
type OnGPUError string

// The values of --on-gpu-error.
const (
	AbortOnGPUError OnGPUError = "abort" // it ends the round (the default)
	WarnOnGPUError  OnGPUError = "warn"  // it is printed
)

// DefaultGPURelease is how long a stop waits for the workers' GPUs to be free.
const DefaultGPURelease = 50 * time.Second

// Devices is what the user asked for about GPUs and CPUs of the workers.
type Devices struct {
	Pin     pin.Options
	Binding numa.Mode // "": workers are not bound to CPUs
	OnError OnGPUError
	Release time.Duration // --gpu-release-timeout; 0: GPUs are not waited for
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
		d.Pin.Mode, err = pin.ParseMode(text)
		return err
	})
	read("map", func(text string) (err error) {
		d.Pin.Map, err = pin.ParseMap(text)
		return err
	})
	read("numa_binding", func(text string) (err error) {
		d.Binding, err = numa.ParseMode(strings.TrimSpace(text))
		return err
	})
	d.Pin.PerWorker, _ = in.number("gpus_per_worker", 0, 1)
	d.Pin.Virtual = in.on("virtual_local_rank")
	d.Pin.Oversubscribe = in.on("oversubscribe_gpus")
	d.Pin.ByGPU = s.Nproc.Of == "gpu"
	in.check(d.Pin.Check())
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
