package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// unrelatedEnviron is the environment of a process that belongs to no job.
const unrelatedEnviron = "PATH=/bin\x00"

// procFS returns a /proc with processes, by "parent group session"; the processes
// are unrelated to a job.
func procFS(machine bool, all map[int]string) Procs {
	link := "pid:[4026532999]"
	if machine {
		link = machineNamespace
	}
	mnt := &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("mnt:[1]")}
	root := fstest.MapFS{"self/ns/pid": {Mode: fs.ModeSymlink, Data: []byte(link)}, "self/ns/mnt": mnt, "uptime": {}}
	for pid, above := range all {
		root[fmt.Sprintf("%d/comm", pid)] = &fstest.MapFile{Data: []byte("python\n")}
		root[fmt.Sprintf("%d/environ", pid)] = &fstest.MapFile{Data: []byte(unrelatedEnviron)}
		root[fmt.Sprintf("%d/ns/mnt", pid)] = mnt
		root[fmt.Sprintf("%d/stat", pid)] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d (a) b) 7 (c) S %s 0 -1", pid, above)}
	}
	return Procs{root}
}

func TestAssign(t *testing.T) {
	p := procFS(true, map[int]string{
		1: "0 1 1", 100: "1 100 100", 101: "100 101 100", 102: "101 102 102", 103: "1 103 100", 200: "1 200 200", 300: "1 300 300", 400: "400 400 400",
	})
	processes := []device.Process{{PID: 102}, {PID: 103}, {PID: 200}, {PID: 300}, {PID: 400}, {PID: 999}, {PID: 0}, {PID: -1}}
	got := p.assign([]Rank{{PIDs: []int{100}}, {Rank: 1, PIDs: []int{200}}}, processes)
	if want := []Rank{{PIDs: []int{100, 102, 103}}, {Rank: 1, PIDs: []int{200}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if p.Name(100) != "python" || p.Name(999) != "" || p.Name(-1) != "" || !p.HasHostPIDs() || procFS(false, nil).HasHostPIDs() {
		t.Error("names or namespaces are wrong")
	}
}

// TestAssignReal checks in the real /proc that this process descends from its
// parent.
func TestAssignReal(t *testing.T) {
	p := Procs{os.DirFS("/proc")}
	got := p.assign([]Rank{{PIDs: []int{os.Getppid()}}}, []device.Process{{PID: os.Getpid()}})
	if len(got[0].PIDs) != 2 || p.Name(os.Getpid()) == "" {
		t.Errorf("got %v, %q", got, p.Name(os.Getpid()))
	}
}

// driver is a GPU driver for tests.
type driver struct {
	gpus      []device.GPU
	processes func(context.Context) ([]device.Process, error)
	listen    func(ctx context.Context, got func(device.Event)) error
}

func (d driver) List(context.Context) ([]device.GPU, error) { return d.gpus, nil }

func (d driver) Processes(ctx context.Context) ([]device.Process, error) { return d.processes(ctx) }

func (d driver) Listen(ctx context.Context, got func(device.Event)) error { return d.listen(ctx, got) }

// TestWatcherPollsWithinItsRound checks that a Watcher does not read the process list before the
// workers have set up their first collective, nor after the end of their round. It
// listens for events all the time.
func TestWatcherPollsWithinItsRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		var reads, listens []time.Duration
		var found []string
		d := driver{
			gpus: gpus(),
			processes: func(context.Context) ([]device.Process, error) {
				reads = append(reads, time.Since(start))
				return []device.Process{{UUID: "GPU-a", PID: 10}}, nil
			},
			listen: func(ctx context.Context, _ func(device.Event)) error {
				listens = append(listens, time.Since(start))
				<-ctx.Done()
				return ctx.Err()
			},
		}
		w := New(Options{
			Driver: d, Procs: procFS(true, map[int]string{10: "1 10 10"}), Wait: &wait,
			OnFinding: func(f preflight.Finding) { found = append(found, f.ID+" "+f.Title) },
		})
		r := Round{
			Ranks:   func() []Rank { return []Rank{{Rank: 3, PIDs: []int{10}, GPUs: []string{"GPU-d"}}} },
			Settled: func(context.Context) (bool, error) { return time.Since(start) >= 40*time.Second, nil },
		}
		w.StartRound(ctx, r)
		time.Sleep(75 * time.Second) // sleep: in the bubble's time
		w.EndRound()
		synctest.Wait()
		time.Sleep(time.Hour)
		w.StartRound(ctx, r)
		time.Sleep(45 * time.Second)
		cancel()
		wait.Wait()
		s := time.Second
		if want := []time.Duration{40 * s, 70 * s, time.Hour + 105*s}; !reflect.DeepEqual(reads, want) {
			t.Errorf("the process list was read after %v, want %v", reads, want)
		}
		if want := []time.Duration{followDelay}; !reflect.DeepEqual(listens, want) {
			t.Errorf("it listened after %v, want %v", listens, want)
		}
		if want := []string{"D01 distinct-gpu", "D01 distinct-gpu"}; !reflect.DeepEqual(found, want) {
			t.Errorf("found %q, want %q: once a round", found, want)
		}
	})
}

// TestWatcherHandlesEvents checks that a critical error of a rank's GPU ends the round,
// and that any other error becomes a finding once.
func TestWatcherHandlesEvents(t *testing.T) {
	off := device.Event{Kind: device.Xid, UUID: "GPU-a", Code: 79}
	page := device.Event{Kind: device.Xid, UUID: "GPU-a", Code: 31}
	for name, c := range map[string]struct {
		o      Options
		gpus   []string
		event  device.Event
		ended  bool // the round is being stopped already
		failed int  // the rank because of which the round ends; -2: it does not end
		found  int
	}{
		"critical":                         {Options{AbortOnError: true, RankGPUs: []string{"GPU-a"}}, []string{"GPU-a"}, off, false, 3, 0},
		"critical, of no rank":             {Options{AbortOnError: true, AbortWithoutPlan: true}, nil, off, false, -1, 0},
		"critical, and nothing is planned": {Options{AbortOnError: true}, nil, off, false, -2, 1},
		"critical, and the user says warn": {Options{RankGPUs: []string{"GPU-a"}}, []string{"GPU-a"}, off, false, -2, 1},
		"critical, while the round ends":   {Options{AbortOnError: true, RankGPUs: []string{"GPU-a"}}, []string{"GPU-a"}, off, true, 3, 1},
		"the program's":                    {Options{AbortOnError: true, RankGPUs: []string{"GPU-a"}}, []string{"GPU-a"}, page, false, -2, 1},
		"of another job's GPU":             {Options{AbortOnError: true, RankGPUs: []string{"GPU-d"}}, []string{"GPU-d"}, off, false, -2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			failed, message := -2, ""
			var found []preflight.Finding
			c.o.GPUs, c.o.GPUsKnown, c.o.Wait = gpus(), true, &wait
			c.o.OnFinding = func(f preflight.Finding) { found = append(found, f) }
			c.o.Driver = driver{listen: func(ctx context.Context, got func(device.Event)) error {
				got(c.event)
				got(c.event)
				<-ctx.Done()
				return ctx.Err()
			}}
			w := New(c.o)
			w.StartRound(ctx, Round{
				Ranks: func() []Rank { return []Rank{{Rank: 3, PIDs: []int{10}, GPUs: c.gpus}} },
				Fail: func(rank int, text string) bool {
					failed, message = rank, text
					return !c.ended
				},
			})
			time.Sleep(2 * followDelay) // sleep: in the bubble's time
			cancel()
			wait.Wait()
			if failed != c.failed || len(found) != c.found {
				t.Errorf("%s: fails rank %d, want %d; found %+v, want %d", name, failed, c.failed, found, c.found)
			}
			if failed != -2 && !strings.Contains(message, "Xid 79") {
				t.Errorf("%s: it fails with %q", name, message)
			}
			if len(found) > 0 && (found[0].ID != IDHealth || found[0].Title != "gpu-health") {
				t.Errorf("%s: found %+v", name, found)
			}
		})
	}
}

func TestPollProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var reads []time.Duration
		var found []string
		ctx, cancel := context.WithCancel(t.Context())
		d := driver{processes: func(context.Context) ([]device.Process, error) {
			switch reads = append(reads, time.Since(start)); len(reads) {
			case 1, 2:
				return nil, errors.New("the driver is busy")
			case 5:
				cancel()
			}
			return []device.Process{{UUID: "GPU-a", PID: 12}}, nil
		}}
		w := New(Options{
			Driver: d, GPUsKnown: true, GPUs: gpus(), Procs: procFS(true, map[int]string{10: "1 10 10", 12: "10 10 10"}),
			OnFinding: func(f preflight.Finding) { found = append(found, f.Text) },
		})
		w.pollProcesses(ctx, Round{Ranks: func() []Rank { return []Rank{{Rank: 3, PIDs: []int{10}, GPUs: []string{"GPU-d"}}} }})
		if want := []time.Duration{0, pollInterval, 2 * pollInterval, 3 * pollInterval, 4 * pollInterval}; !reflect.DeepEqual(reads, want) {
			t.Errorf("read after %v, want %v", reads, want)
		}
		if len(found) != 2 || !strings.Contains(found[0], "the driver is busy") || !strings.HasPrefix(found[1], "rank 3 (pid 12) runs on GPU 0, its own is GPU 3") {
			t.Errorf("found %q", found)
		}
	})
}

func TestFollowEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var starts []time.Duration
		var got []device.EventKind
		var printed []string
		listen := func(_ context.Context, handle func(device.Event)) error {
			starts = append(starts, time.Since(start))
			handle(device.Event{Kind: device.Watching})
			switch len(starts) {
			case 2:
				handle(device.Event{Kind: device.Xid, UUID: "GPU-a", Code: 79}) // a simulated Xid
			case 9: // this child lives
				time.Sleep(time.Hour) // sleep: in the bubble's time
				handle(device.Event{Kind: device.Heartbeat})
			case 11:
				return fmt.Errorf("%w: no library", device.ErrNoEvents)
			}
			return errors.New("the probe ended with code 139")
		}
		followEvents(t.Context(), listen, func(e device.Event) { got = append(got, e.Kind) }, func(s string) { printed = append(printed, s) })
		s := time.Second
		want := []time.Duration{0, s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s, 183*s + time.Hour + s, 183*s + time.Hour + 3*s}
		if !reflect.DeepEqual(starts, want) {
			t.Errorf("started after %v, want %v", starts, want)
		}
		if !reflect.DeepEqual(got, []device.EventKind{device.Xid}) || len(printed) != 2 || !strings.Contains(printed[0], "code 139") || !strings.Contains(printed[1], "no library") {
			t.Errorf("got %v, printed %q", got, printed)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	followEvents(ctx, func(ctx context.Context, _ func(device.Event)) error {
		cancel()
		return ctx.Err()
	}, nil, func(s string) { t.Errorf("printed %q", s) })
}

func TestWaitReleased(t *testing.T) {
	const never = time.Hour
	worker := []device.Process{{UUID: "GPU-a", PID: 10}}
	tests := []struct {
		name        string
		until       time.Duration // how long the GPU is in use
		processes   []device.Process
		before      []device.Process
		inContainer bool
		printed     string
		err         string
		within      time.Duration // when the wait returns
	}{
		{name: "free", within: 0},
		{name: "free soon", until: time.Second, processes: worker, within: 2 * time.Second},
		{name: "free late", until: 10 * time.Second, processes: worker, printed: "GPU 0: pid 10 (python)", within: 12 * time.Second},
		{name: "never free", until: never, processes: worker, printed: "GPU 0: pid 10 (python)", err: "not free after 50s: GPU 0: pid 10 (python); end", within: 51 * time.Second},
		{name: "a process that has ended", until: never, processes: []device.Process{{UUID: "GPU-b", PID: 77, MemMiB: 9}}, printed: "GPU 1: pid 77 (ended, or in another container), with 9 MiB", err: "pid 77", within: 51 * time.Second},
		{name: "an unrelated process", until: never, processes: []device.Process{{UUID: "GPU-a", PID: 99}}},
		{name: "a container that outlives its worker", until: 4 * time.Second, processes: []device.Process{{UUID: "GPU-a", PID: 50}}, printed: "GPU 0: pid 50 (python)", within: 6 * time.Second},
		{name: "a process whose environment is empty", until: never, processes: []device.Process{{UUID: "GPU-a", PID: 60}}, printed: "pid 60 (python)", err: "pid 60", within: 51 * time.Second},
		{name: "a process whose environment is empty, on another GPU", until: never, processes: []device.Process{{UUID: "GPU-d", PID: 60}}},
		{name: "the MPS server", until: never, processes: []device.Process{{UUID: "GPU-a", PID: 70}}},
		{name: "another GPU", until: never, processes: []device.Process{{UUID: "GPU-d", PID: 10}}},
		{name: "a process that was there before the job", until: never, processes: []device.Process{{UUID: "GPU-a", PID: 77}}, before: []device.Process{{UUID: "GPU-a", PID: 77}}},
		{name: "in a container", until: 4 * time.Second, processes: []device.Process{{UUID: "GPU-a", PID: 99}}, inContainer: true, printed: "pid 99", within: 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var printed []string
				var first time.Duration
				p := procFS(!tt.inContainer, map[int]string{10: "1 1 1", 50: "40 1 1", 60: "40 1 1", 70: "1 1 1", 99: "1 1 1"})
				p.FS.(fstest.MapFS)["50/environ"].Data = []byte("GORUN_WORLD_TOKEN=t\x00RANK=0\x00")
				p.FS.(fstest.MapFS)["60/environ"].Data = nil // as the environment of a process that hangs while it ends
				p.FS.(fstest.MapFS)["70/comm"].Data = []byte("nvidia-cuda-mps-server\n")
				err := waitReleased(t.Context(), releaseWait{
					GPUs: gpus(), UUIDs: []string{"GPU-a", "GPU-b"}, PIDs: []int{10}, Earlier: tt.before, Timeout: 50 * time.Second,
					Procs: p, World: World{Token: "t"},
					List: func(context.Context) ([]device.Process, error) {
						if time.Since(start) < tt.until {
							return tt.processes, nil
						}
						return nil, nil
					},
					Say: func(s string) {
						if printed = append(printed, s); len(printed) == 1 {
							first = time.Since(start)
						}
					},
				})
				if took := time.Since(start); took > tt.within {
					t.Errorf("it took %v", took)
				}
				if (err == nil) != (tt.err == "") || err != nil && (!errors.Is(err, errNotReleased) || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				if (tt.printed == "") != (len(printed) == 0) || len(printed) > 1 || tt.printed != "" && (!strings.Contains(printed[0], tt.printed) || first > 5*time.Second) {
					t.Errorf("printed %q after %v, want %q", printed, first, tt.printed)
				}
			})
		})
	}
}

func TestWaitReleasedWithAFailingDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no NVML")
		r := releaseWait{Timeout: 50 * time.Second, List: func(context.Context) ([]device.Process, error) { return nil, broken }, Procs: procFS(true, nil)}
		if err := waitReleased(t.Context(), r); !errors.Is(err, broken) || errors.Is(err, errNotReleased) {
			t.Errorf("got %v", err)
		}
		start := time.Now()
		var printed time.Duration
		r.Say = func(s string) { printed = time.Since(start) }
		r.List = func(ctx context.Context) ([]device.Process, error) { // a driver that hangs
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if err := waitReleased(t.Context(), r); !errors.Is(err, errNotReleased) || printed != reportDelay {
			t.Errorf("got %v, printed after %v", err, printed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := waitReleased(ctx, r); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's end", err)
		}
	})
}
