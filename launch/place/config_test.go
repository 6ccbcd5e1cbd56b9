package place

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/numa"
)

// driver is a GPU driver for tests.
type driver struct {
	gpus    []device.GPU
	err     error
	files   []device.GPU // what the driver's files show, if not the same
	absent  bool
	inProc  bool // the driver is only in /proc
	lists   *int // how often it was asked
	surveys *int
}

func (d driver) HasDriver() bool     { return !d.absent }
func (d driver) HasDeviceFile() bool { return !d.absent && !d.inProc }

func (d driver) List(context.Context) ([]device.GPU, error) {
	if d.lists != nil {
		*d.lists++
	}
	if d.files != nil {
		return d.files, nil
	}
	return d.gpus, d.err
}

func (d driver) Survey(_ context.Context, use func(device.Survey)) {
	if d.surveys != nil {
		*d.surveys++
	}
	use(device.Survey{Driver: true, GPUs: d.gpus, Err: d.err, Usable: d.gpus, UsableErr: d.err})
}

func config(d driver, o Options, env ...string) Config {
	return Config{Options: o, Host: "here", Env: env, Driver: d, Root: fstest.MapFS{}}
}

func TestPlanAsksTheDriver(t *testing.T) {
	sick := errors.New("it hangs")
	for _, c := range []struct {
		name    string
		driver  driver
		options Options
		env     []string
		workers Workers
		owned   []string
		known   bool
		err     string
		notes   int
		asked   [2]int // calls of List and Survey
	}{
		{name: "a GPU each", driver: driver{gpus: gpus(2)}, owned: []string{"GPU-0", "GPU-1"}, known: true, asked: [2]int{1, 0}},
		{name: "everything", driver: driver{gpus: gpus(2)}, workers: Workers{Facts: true}, owned: []string{"GPU-0", "GPU-1"}, known: true, asked: [2]int{0, 1}},
		{name: "no driver", driver: driver{absent: true}},
		{name: "nothing asked", driver: driver{gpus: gpus(2)}, options: Options{Mode: None}},
		{name: "none, but everything", driver: driver{gpus: gpus(2)}, options: Options{Mode: None}, workers: Workers{Facts: true}, known: true, asked: [2]int{0, 1}},
		{name: "hidden", driver: driver{gpus: gpus(2)}, env: []string{"CUDA_VISIBLE_DEVICES="}},
		{name: "hidden, and named", driver: driver{gpus: gpus(2)}, options: Options{Mode: Exclusive}, env: []string{"CUDA_VISIBLE_DEVICES=-1"}, err: "CUDA_VISIBLE_DEVICES=-1 hides all"},
		{name: "sick", driver: driver{err: sick}, notes: 1, asked: [2]int{1, 0}},
		{name: "sick, and named", driver: driver{err: sick}, options: Options{Mode: Order}, err: "it hangs", asked: [2]int{1, 0}},
		{name: "sick, and bound", driver: driver{err: sick}, options: Options{Binding: numa.ByNode}, err: "it hangs", asked: [2]int{1, 0}},
		{name: "a container without GPUs", driver: driver{err: sick, inProc: true}, known: true, asked: [2]int{1, 0}},
		{name: "a job that was given none", driver: driver{}, options: Options{ByGPU: true}, known: true, err: "its driver shows this process none", asked: [2]int{1, 0}},
		{name: "too few", driver: driver{gpus: gpus(1)}, options: Options{Mode: Order}, known: true, err: "2 workers, but 1 GPU is visible", asked: [2]int{1, 0}},
		{name: "the notes of an error", driver: driver{gpus: gpus(2)}, options: Options{Mode: Order}, env: []string{"CUDA_VISIBLE_DEVICES=0,9"}, known: true, err: "1 GPU is visible", notes: 1, asked: [2]int{1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked [2]int
			c.driver.lists, c.driver.surveys, c.workers.Count = &asked[0], &asked[1], 2
			p, err := config(c.driver, c.options, c.env...).makePlan(t.Context(), Inventory{}, c.workers)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if !slices.Equal(p.Owned(), c.owned) || p.Inventory.Known != c.known || len(p.Notes) != c.notes || asked != c.asked {
				t.Errorf("own %q, known %v, notes %q, asked %v", p.Owned(), p.Inventory.Known, p.Notes, asked)
			}
			if got := p.Inventory.Survey.Driver; got != (c.asked[1] > 0) {
				t.Errorf("everything is known: %v", got)
			}
		})
	}
}

// TestWithheld checks that the workers do not get GPUs that CUDA would show but
// that Slurm gave to others.
func TestWithheld(t *testing.T) {
	p, err := config(driver{gpus: gpus(2)}, Options{}, "CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=1").makePlan(t.Context(), Inventory{}, Workers{Count: 2})
	want := []envprop.Variable{{Name: "CUDA_VISIBLE_DEVICES"}}
	if got := p.Slot(1).Devices.Pinned; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestUnknownSlot checks that a number of workers from another node that does not fit
// the plan does not end the agent.
func TestUnknownSlot(t *testing.T) {
	var p Plan
	if s := p.Slot(7); s.GPUs != nil || s.Binding.Bound || s.Devices.Pinned != nil {
		t.Errorf("a worker outside the plan has %+v", s)
	}
}

// TestThreadsWithinQuota checks that a CPU quota bounds the threads, whatever the
// mask has.
func TestThreadsWithinQuota(t *testing.T) {
	want := envprop.Threads{Cores: 1, Workers: 2, Quota: true}
	cfg := config(driver{absent: true}, Options{})
	cfg.Root = fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/cpu.max": {Data: []byte("50000 100000\n")}}
	for _, c := range []struct {
		threads bool // set with --omp=cores, unless OMP_NUM_THREADS is set
		workers int
		want    envprop.Threads
	}{{true, 2, want}, {false, 2, envprop.Threads{}}, {true, 1, envprop.Threads{}}} {
		cfg.Threads = c.threads
		p, err := cfg.makePlan(t.Context(), Inventory{}, Workers{Count: c.workers})
		if got := p.Slot(c.workers - 1).Devices.Threads; err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	sixteen := envprop.Threads{Cores: 16, Workers: 8, Quota: true}
	for _, tt := range []struct {
		quota     float64
		workers   int
		has, want envprop.Threads
	}{
		{0, 8, envprop.Threads{Cores: 128, Workers: 8}, envprop.Threads{Cores: 128, Workers: 8}},
		{16, 8, envprop.Threads{Cores: 128, Workers: 8}, sixteen},
		{16.9, 8, envprop.Threads{Cores: 16, Workers: 1}, sixteen}, // each bound to 16 cores
		{16, 8, envprop.Threads{Cores: 2, Workers: 1}, envprop.Threads{Cores: 2, Workers: 1}},
		{0.5, 2, envprop.Threads{Cores: 2, Workers: 2}, want},
	} {
		if got := limitThreads(tt.quota, tt.workers, tt.has); got != tt.want {
			t.Errorf("%v CPUs for %d workers with %+v: %+v, want %+v", tt.quota, tt.workers, tt.has, got, tt.want)
		}
	}
}

// TestWarnings checks that what concerns a binding is a warning about these
// workers, and what the driver says a note about the machine.
func TestWarnings(t *testing.T) {
	cpus, _, err := numa.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(driver{gpus: gpus(1)}, Options{Binding: numa.ByNode}, "CUDA_VISIBLE_DEVICES=0,9")
	cfg.Root = fstest.MapFS{"sys/devices/system/cpu/online": {Data: []byte(cpus[:1].String())}}
	p, err := cfg.makePlan(t.Context(), Inventory{}, Workers{Count: 1})
	if err != nil || len(p.Notes) != 1 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "fewer than 4 CPUs") {
		t.Errorf("%q, %q, %v", p.Notes, p.Warnings, err)
	}
	if b := p.Slot(0).Binding; !slices.Equal(b.CPUs, cpus[:1]) {
		t.Errorf("bound to %v", b.CPUs)
	}
}

// TestHasGPUs checks the three ways in which CUDA_VISIBLE_DEVICES hides all GPUs.
// Of two values the later counts.
func TestHasGPUs(t *testing.T) {
	for _, c := range []struct {
		env  string
		want bool
	}{{"", true}, {"=0", true}, {"=", false}, {"=-1", false}, {"=NoDevFiles", false}, {"= CUDA_VISIBLE_DEVICES=0", true}} {
		var env []string
		if c.env != "" {
			env = strings.Fields("CUDA_VISIBLE_DEVICES" + c.env)
		}
		if got := config(driver{gpus: gpus(1)}, Options{}, env...).HasGPUs(); got != c.want {
			t.Errorf("%q: %v", env, got)
		}
	}
	if config(driver{absent: true}, Options{}).HasGPUs() {
		t.Error("a node without a driver has GPUs")
	}
}
