package wrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// newTestSource returns the source of a node that can probe a wrapper. The node has
// a home with start files, and known devices.
func newTestSource(t *testing.T, x []string, profile string, devices ...string) *Source {
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
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	s := &Source{
		Probe: Options{Dir: home, Table: table, Name: "gorun-probe-test", Say: t.Logf},
		Node: Node{
			Env: env, Base: envprop.NewBase(env), Role: "default",
			Placed:  []string{"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "GORUN_DEVICE"},
			Devices: func(context.Context) []string { return devices },
		},
		Wait: &sync.WaitGroup{},
	}
	r, err := envprop.NewRequest(envprop.Options{X: x}, env)
	if err != nil {
		t.Fatal(err)
	}
	alone := envprop.Unify([]envprop.Report{envprop.NewReport(envprop.Node{}, env, nil, r)}, envprop.Policy{}).Members[0]
	s.Node.Request, s.Node.Base = r, s.Node.Base.Apply(r.LocalAssignment()).Apply(alone)
	return s
}

// start reads the command line and starts the probe.
func (s *Source) start(t *testing.T, argv ...string) func(context.Context) (*preflight.WrapperLoss, []string) {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Skip(err)
	}
	s.Probe.Path = path
	s.Probe.Prefix, s.ParseErr = Parse(argv)
	return s.Start(t.Context())
}

// lost returns what is lost behind a command line, nil if nothing is probed.
func (s *Source) lost(t *testing.T, argv ...string) *preflight.WrapperLoss {
	t.Helper()
	wait := s.start(t, argv...)
	if wait == nil {
		return nil
	}
	lost, unknown := wait(t.Context())
	if unknown != nil {
		t.Fatal(unknown)
	}
	return lost
}

// TestSource checks that what -x asks for, and what a worker gets by its devices, has
// to arrive as the rank's own variables do.
func TestSource(t *testing.T) {
	const profile = "unset MYVAR ELSEWHERE\nexport CUDA_VISIBLE_DEVICES=0\n"
	x := []string{"MYVAR=1", "node=9:ELSEWHERE=1", "LACKING"}
	pinned := []string{"GORUN_DEVICE", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"}

	t.Run("a login shell", func(t *testing.T) {
		lost := newTestSource(t, x, profile, pinned...).lost(t, "bash", "-lc", "./train")
		slices.Sort(lost.Missing)
		if !slices.Equal(lost.Missing, []string{"ELSEWHERE", "MYVAR"}) || !slices.Equal(lost.Changed, []string{"CUDA_VISIBLE_DEVICES"}) {
			t.Errorf("%+v", lost)
		}
		if !slices.Equal(lost.Conditional, []string{"ELSEWHERE"}) || lost.BlocksUnknown {
			t.Errorf("%+v", lost)
		}
		if fix := strings.Join(lost.Fix, "\n"); !strings.Contains(fix, ".bash_profile sets or unsets MYVAR") || !strings.Contains(fix, "unsets CUDA_VISIBLE_DEVICES") {
			t.Errorf("the fix: %s", fix)
		}
	})
	t.Run("without devices", func(t *testing.T) {
		if lost := newTestSource(t, nil, profile).lost(t, "bash", "-lc", "./train"); len(lost.Missing)+len(lost.Changed) > 0 {
			t.Errorf("%+v", lost)
		}
	})
	t.Run("what lets nothing through", func(t *testing.T) {
		lost := newTestSource(t, x, "", pinned...).lost(t, "env", "-i", "./train")
		for _, name := range []string{"RANK", "MYVAR", "LACKING", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GORUN_DEVICE"} {
			if !slices.Contains(lost.Missing, name) {
				t.Errorf("%s is not missing", name)
			}
		}
		if !lost.BlocksUnknown || !slices.Equal(lost.Conditional, []string{"ELSEWHERE", "LACKING"}) {
			t.Errorf("%+v", lost)
		}
	})
}

// TestForcedRank checks that a wrapper that loses nothing is read, not started.
func TestForcedRank(t *testing.T) {
	s := newTestSource(t, nil, "")
	lost := s.lost(t, "env", "RANK=3", "LOCAL_RANK=5", "./train")
	if lost == nil || !slices.Equal(lost.Forced, []string{"RANK"}) || lost.Wrapper != "env" || len(lost.Fix) != 1 {
		t.Errorf("%+v", lost)
	}
	if lost := s.lost(t, "env", "LOCAL_RANK=5", "A=1", "./train"); lost != nil {
		t.Errorf("%+v", lost)
	}
}

// TestProbeIsNoLeftover checks that an agent that looks for workers of an earlier
// job does not find the probe, even if the command line names the run.
func TestProbeIsNoLeftover(t *testing.T) {
	for name, wrapper := range map[string][]string{"alone": nil, "behind a name": {"env", "TORCHELASTIC_RUN_ID=wrap-test"}} {
		t.Run(name, func(t *testing.T) {
			s := newTestSource(t, nil, "echo > up\nread < down\n")
			up, down := filepath.Join(s.Probe.Dir, "up"), filepath.Join(s.Probe.Dir, "down")
			if err := errors.Join(syscall.Mkfifo(up, 0o600), syscall.Mkfifo(down, 0o600)); err != nil {
				t.Fatal(err)
			}
			found := make(chan host.Facts, 1)
			go func() {
				_, _ = os.ReadFile(up) // the probe lives
				f, _ := host.Gather(t.Context(), host.Options{RunID: "wrap-test"})
				found <- f
				_ = os.WriteFile(down, []byte("\n"), 0o600)
			}()
			if lost := s.lost(t, append(wrapper, "bash", "-lc", "./train")...); len(lost.Missing) > 0 {
				t.Errorf("%+v", lost)
			}
			if jobs := (<-found).Leftover.Jobs; len(jobs) > 0 {
				t.Errorf("found %+v", jobs)
			}
		})
	}
}

// TestImageWithoutPrograms checks that for an image that can print nothing, gorun
// still knows what the command line withholds, and says why it knows no more.
func TestImageWithoutPrograms(t *testing.T) {
	s := newTestSource(t, nil, "")
	docker := filepath.Join(s.Probe.Dir, "docker")
	const fake = "#!/bin/sh\necho 'docker: Error response from daemon: exec: \"env\": not found' >&2\necho \"Run 'docker run --help' for more information\" >&2\nexit 127\n"
	if err := os.WriteFile(docker, []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	lost, unknown := s.start(t, docker, "run", "-e", "WORLD_SIZE", "image", "prog")(t.Context())
	const why = `it ended with code 127 (docker: Error response from daemon: exec: "env": not found)`
	if len(unknown) != 1 || !strings.Contains(unknown[0], why) || lost == nil || !strings.Contains(lost.NoProbeReason, why) {
		t.Fatalf("%+v, %q", lost, unknown)
	}
	if !slices.Contains(lost.Missing, "RANK") || slices.Contains(lost.Missing, "WORLD_SIZE") || len(lost.Fix) == 0 {
		t.Errorf("%+v", lost)
	}
}

// TestDryRunStartsNoWrapper checks that a job that starts nothing starts no wrapper,
// and knows what the options withhold.
func TestDryRunStartsNoWrapper(t *testing.T) {
	s := newTestSource(t, nil, "touch started\n")
	s.Dry = true
	if lost := s.lost(t, "bash", "-lc", "./train"); lost != nil {
		t.Errorf("%+v", lost)
	}
	lost := s.lost(t, "env", "-i", "bash", "-lc", "./train")
	if !slices.Contains(lost.Missing, "RANK") || !lost.Assumed || lost.NoProbeReason != "" || len(lost.Fix) == 0 {
		t.Errorf("%+v", lost)
	}
	s.Wait.Wait()
	if _, err := os.Stat(filepath.Join(s.Probe.Dir, "started")); err == nil {
		t.Error("the login shell was started")
	}
}

// TestErrorHidesCredentials checks that a wrapper's text about its arguments is
// neither printed nor kept in the facts unchanged.
func TestErrorHidesCredentials(t *testing.T) {
	s := newTestSource(t, nil, "")
	s.ParseErr = errors.New("it ended with code 127: sudo: HF_TOKEN=hidden-text: command not found")
	said := ""
	s.Probe.Say = func(format string, args ...any) { said += fmt.Sprintf(format, args...) }
	_, unknown := s.Start(t.Context())(t.Context())
	s.Wait.Wait()
	if printed := said + strings.Join(unknown, ""); strings.Contains(printed, "hidden-text") || strings.Count(printed, "sudo: HF_TOKEN=(hidden)") != 2 {
		t.Error(printed)
	}
}
