package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// looker is an agent that can look behind a wrapper: a home with start files, and
// devices that were found already.
func looker(t *testing.T, x []string, profile string, slots ...slot) *agent {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".bash_profile"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := process.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	a := &agent{table: table, events: newQueue(), devices: &devices{slots: slots, ready: make(chan struct{})}}
	close(a.devices.ready)
	a.opts = Options{Dir: home, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, Spec: spec.Spec{Role: "default"}}
	if a.request, err = envprop.NewRequest(envprop.Options{X: x}, a.opts.Env); err != nil {
		t.Fatal(err)
	}
	return a
}

// lose looks as a job does, and is nil where nothing is told.
func (a *agent) lose(t *testing.T, argv ...string) *preflight.Lost {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Skip(err)
	}
	a.subject.Path, a.subject.Title, a.subject.Args = path, argv[0], argv[1:]
	p, doubt := a.wrapper()
	wait := a.delivery(t.Context(), p, doubt)
	if wait == nil {
		return nil
	}
	lost, unknown := wait(t.Context())
	if unknown != nil {
		t.Fatal(unknown)
	}
	return lost
}

// What -x asks for and what a worker gets by its devices has to arrive as the
// rank's own variables do.
func TestDelivery(t *testing.T) {
	const profile = "unset MYVAR ELSEWHERE\nexport CUDA_VISIBLE_DEVICES=0\n"
	x := []string{"MYVAR=1", "node=9:ELSEWHERE=1", "LACKING"}
	pinned := slot{device: "GPU-1", set: []pin.Variable{{Name: "CUDA_DEVICE_ORDER", Value: "PCI_BUS_ID"}, {Name: "CUDA_VISIBLE_DEVICES", Value: "GPU-1"}}}

	t.Run("a login shell", func(t *testing.T) {
		lost := looker(t, x, profile, pinned).lose(t, "bash", "-lc", "./train")
		slices.Sort(lost.Missing)
		if !slices.Equal(lost.Missing, []string{"ELSEWHERE", "MYVAR"}) || !slices.Equal(lost.Changed, []string{"CUDA_VISIBLE_DEVICES"}) {
			t.Errorf("%+v", lost)
		}
		if !slices.Equal(lost.Perhaps, []string{"ELSEWHERE"}) || lost.Closed {
			t.Errorf("%+v", lost)
		}
		if fix := strings.Join(lost.Fix, "\n"); !strings.Contains(fix, ".bash_profile sets or unsets MYVAR") || !strings.Contains(fix, "unsets CUDA_VISIBLE_DEVICES") {
			t.Errorf("the fix: %s", fix)
		}
	})
	t.Run("without devices", func(t *testing.T) {
		if lost := looker(t, nil, profile).lose(t, "bash", "-lc", "./train"); len(lost.Missing)+len(lost.Changed) > 0 {
			t.Errorf("%+v", lost)
		}
	})
	t.Run("what lets nothing through", func(t *testing.T) {
		lost := looker(t, x, "", pinned).lose(t, "env", "-i", "./train")
		for _, name := range []string{"RANK", "MYVAR", "LACKING", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GORUN_DEVICE"} {
			if !slices.Contains(lost.Missing, name) {
				t.Errorf("%s is not missing", name)
			}
		}
		if !lost.Closed || !slices.Equal(lost.Perhaps, []string{"ELSEWHERE", "LACKING"}) {
			t.Errorf("%+v", lost)
		}
	})
}

// A wrapper that loses nothing is read, not started.
func TestForcedRank(t *testing.T) {
	a := looker(t, nil, "")
	lost := a.lose(t, "env", "RANK=3", "LOCAL_RANK=${local_rank}", "./train")
	if lost == nil || !slices.Equal(lost.Forced, []string{"RANK"}) || lost.Wrapper != "env" || len(lost.Fix) != 1 {
		t.Errorf("%+v", lost)
	}
	if lost := a.lose(t, "env", "LOCAL_RANK=${local_rank}", "A=1", "./train"); lost != nil {
		t.Errorf("%+v", lost)
	}
}

// The probe is no worker of an earlier job for an agent that looks for one, even
// where the command line names the run.
func TestProbeIsNoLeftover(t *testing.T) {
	for name, wrapper := range map[string][]string{"alone": nil, "behind a name": {"env", "TORCHELASTIC_RUN_ID=delivery-test"}} {
		t.Run(name, func(t *testing.T) {
			a := looker(t, nil, "echo > up\nread < down\n")
			a.opts.Spec.RunID = "delivery-test"
			up, down := filepath.Join(a.opts.Dir, "up"), filepath.Join(a.opts.Dir, "down")
			if err := errors.Join(syscall.Mkfifo(up, 0o600), syscall.Mkfifo(down, 0o600)); err != nil {
				t.Fatal(err)
			}
			looked := make(chan host.Facts, 1)
			go func() {
				_, _ = os.ReadFile(up) // the probe lives
				f, _ := host.Gather(t.Context(), host.Options{RunID: a.opts.Spec.RunID})
				looked <- f
				_ = os.WriteFile(down, []byte("\n"), 0o600)
			}()
			if lost := a.lose(t, append(wrapper, "bash", "-lc", "./train")...); len(lost.Missing) > 0 {
				t.Errorf("%+v", lost)
			}
			if jobs := (<-looked).Leftover.Jobs; len(jobs) > 0 {
				t.Errorf("found %+v", jobs)
			}
		})
	}
}

// Behind an image that can print nothing, what the command line keeps back is known
// all the same, and why no more is.
func TestDeliveryToAnImageWithoutPrograms(t *testing.T) {
	a := looker(t, nil, "")
	docker := filepath.Join(a.opts.Dir, "docker")
	const fake = "#!/bin/sh\necho 'docker: Error response from daemon: exec: \"env\": not found' >&2\necho \"Run 'docker run --help' for more information\" >&2\nexit 127\n"
	if err := os.WriteFile(docker, []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	a.subject.Path, a.subject.Title, a.subject.Args = docker, docker, []string{"run", "-e", "WORLD_SIZE", "image", "prog"}
	p, doubt := a.wrapper()
	lost, unknown := a.delivery(t.Context(), p, doubt)(t.Context())
	const why = `it ended with code 127 (docker: Error response from daemon: exec: "env": not found)`
	if len(unknown) != 1 || !strings.Contains(unknown[0], why) || lost == nil || !strings.Contains(lost.Unseen, why) {
		t.Fatalf("%+v, %q", lost, unknown)
	}
	if !slices.Contains(lost.Missing, "RANK") || slices.Contains(lost.Missing, "WORLD_SIZE") || len(lost.Fix) == 0 {
		t.Errorf("%+v", lost)
	}
}

// What starts nothing starts no wrapper.
func TestDryDelivery(t *testing.T) {
	a := looker(t, nil, "touch started\n")
	a.opts.Spec.Dry = &spec.Dry{Whole: true}
	if lost := a.lose(t, "bash", "-lc", "./train"); lost != nil {
		t.Errorf("%+v", lost)
	}
	a.wg.Wait()
	if _, err := os.Stat(filepath.Join(a.opts.Dir, "started")); err == nil {
		t.Error("the login shell was started")
	}
}
