package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// TestMain makes the test binary its own probe, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "probe" {
		_ = Answer(os.Stdout, Source(os.Args[2]), System{os.DirFS("/"), MayOpen})
		return
	}
	os.Exit(m.Run())
}

func TestWorkers(t *testing.T) {
	two := make([]GPU, 2)
	tests := []struct {
		of      string
		visible []GPU
		want    int
	}{
		{"auto", two, 2}, {"auto", nil, runtime.NumCPU()}, {"cpu", two, runtime.NumCPU()}, {"gpu", two, 2},
	}
	for _, tt := range tests {
		if got, err := Workers(tt.of, tt.visible); err != nil || got != tt.want {
			t.Errorf("%s with %d GPUs: %d, %v, want %d", tt.of, len(tt.visible), got, err, tt.want)
		}
	}
	for _, of := range []string{"gpu", "xpu", ""} {
		if n, err := Workers(of, nil); err == nil {
			t.Errorf("%q without GPUs gives %d", of, n)
		}
	}
}

func TestVisibleToCUDA(t *testing.T) {
	gpus := []GPU{{Index: 0, UUID: "GPU-aa11"}, {Index: 1, UUID: "GPU-ab22"}, {Index: 2, UUID: "GPU-cc33"}}
	tests := []struct {
		list string
		want string // indexes
		note string // part of it; "" for none
	}{
		{"0,1,2", "0 1 2", ""},
		{"2,0", "2 0", ""},
		{" 1 , 0", "1 0", ""},
		{"+1", "1", ""},
		{"1x", "1", ""}, // as strtol
		{"", "", ""},
		{"-1", "", ""},
		{"0,-1,2", "0", `"-1" is no GPU`},
		{"0,", "0", `"" is no GPU`},
		{"0,3,1", "0", "which has 3"},
		{"99999999999999999999", "", "which has 3"},
		{"0,1,0", "", "twice"},
		{"none", "", `"none" is no GPU`},
		{"--1", "", "is no GPU"},
		{"GPU-ab22,GPU-aa11", "1 0", ""},
		{"GPU-c", "2", ""},
		{"GPU-a", "", "fits several"},
		{"GPU-aa11,GPU-zz,GPU-cc33", "0", "is no GPU of this node"},
		{"GPU-aa11,GPU-aa", "", "twice"},
		{"0,GPU-ab22", "0", "mixes"},
		{"GPU-ab22,0", "1", "mixes"},
		{"MIG-1,MIG-2", "-1 -1", ""},
		{"MIG-1,MIG-1", "", "twice"},
	}
	for _, tt := range tests {
		visible, note := visibleToCUDA(gpus, tt.list)
		var got []string
		for _, g := range visible {
			got = append(got, fmt.Sprint(g.Index))
		}
		if strings.Join(got, " ") != tt.want || !strings.Contains(note, tt.note) || (note == "") != (tt.note == "") {
			t.Errorf("%q: got %q with note %q, want %q with %q", tt.list, got, note, tt.want, tt.note)
		}
	}
}

func FuzzVisibleToCUDA(f *testing.F) {
	for _, s := range []string{"0,1", "GPU-a,MIG-", "-1", ",,", "+", "9999999999999999999999"} {
		f.Add(s)
	}
	gpus := []GPU{{Index: 0, UUID: "GPU-a"}, {Index: 1}}
	f.Fuzz(func(t *testing.T, list string) {
		visible, _ := visibleToCUDA(gpus, list)
		if len(visible) > strings.Count(list, ",")+1 {
			t.Errorf("%q shows %d GPUs", list, len(visible))
		}
	})
}

// probeFiles returns what the driver's files say.
func probeFiles(sys System) (r Report) {
	Probe(Procfs, sys, func(found Report) { r = found })
	return r
}

func TestProcfs(t *testing.T) {
	const dir = "proc/driver/nvidia/gpus/"
	root := fstest.MapFS{
		dir + "0000:1a:00.0/information": {Data: []byte("Model: \t\t NVIDIA H100\nIRQ:   \t\t 5\nGPU UUID: \t GPU-1\nBus Location: \t 0000:1a:00.0\nDevice Minor: \t 0\n")},
		dir + "0000:0B:00.0/information": {Data: []byte("Model: NVIDIA H100\nGPU UUID: GPU-????????-????\n")},
		dir + "0001:00:00.0/power":       {Data: []byte("no information")},
		dir + "10000:00:00.0/power":      {Data: []byte("no information")}, // as behind Intel's VMD
		dir + "a000:00:00.0/power":       {Data: []byte("no information")},
	}
	got := probeFiles(System{root, mayOpen(root, nil)})
	want := Report{Probe: reportVersion, Unsure: "GPU 0 has not been used since the driver was loaded", GPUs: []GPU{
		{Index: 0, PCI: "0000:0b:00.0", Name: "NVIDIA H100"},
		{Index: 1, UUID: "GPU-1", PCI: "0000:1a:00.0", Name: "NVIDIA H100", Minor: new(0)},
		{Index: 2, PCI: "0001:00:00.0"},
		{Index: 3, PCI: "a000:00:00.0"},
		{Index: 4, PCI: "10000:00:00.0"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if r := probeFiles(System{Files: fstest.MapFS{}}); r.Error == "" {
		t.Error("no error without the driver's folder")
	}
}

// mayOpen returns what MayOpen would say of the files of a root, some of which have an
// error.
func mayOpen(root fstest.MapFS, errs map[string]error) func(string) error {
	return func(name string) error {
		if errs[name] != nil {
			return errs[name]
		}
		_, err := root.Stat(name)
		return err
	}
}

// information is the driver's file about a GPU.
func information(minor int, lines ...string) string {
	text := fmt.Sprintf("Model: \t\t NVIDIA H200\nIRQ:   \t\t 39\nGPU UUID: \t GPU-%d\nDevice Minor: \t %d\nGPU Excluded:\t No\n", minor, minor)
	return text + strings.Join(lines, "\n") + "\n"
}

// TestProcfsIsSure checks when the driver's files are enough to say which GPUs CUDA
// shows.
func TestProcfsIsSure(t *testing.T) {
	const gpu, caps = "proc/driver/nvidia/gpus/0000:", "proc/driver/nvidia/capabilities/"
	tests := []struct {
		name   string
		change func(root fstest.MapFS)
		errs   map[string]error
		unsure string
		open   string // the numbers of the files of the GPUs that may be used
	}{
		{"healthy", func(fstest.MapFS) {}, nil, "", "0 1 2"},
		{"no MIG instance", func(r fstest.MapFS) { r[caps+"gpu0/mig"] = &fstest.MapFile{Mode: fs.ModeDir} }, nil, "", "0 1 2"},
		{"a MIG instance", func(r fstest.MapFS) { r[caps+"gpu1/mig/gi3/access"] = &fstest.MapFile{} }, nil, "MIG", "0 1 2"},
		{"the cgroup hides one", func(fstest.MapFS) {}, map[string]error{"dev/nvidia1": syscall.EPERM}, "", "0 2"},
		{"the container has one", func(r fstest.MapFS) { delete(r, "dev/nvidia0"); delete(r, "dev/nvidia1") }, nil, "", "2"},
		{"files that are not made yet", func(r fstest.MapFS) { delete(r, "dev/nvidia0"); delete(r, "dev/nvidia1"); delete(r, "dev/nvidia2") }, nil, "no GPU has a file", ""},
		{"all are hidden", func(fstest.MapFS) {}, map[string]error{"dev/nvidia0": syscall.EPERM, "dev/nvidia1": syscall.EPERM, "dev/nvidia2": syscall.EACCES}, "no GPU has a file", ""},
		{"WSL", func(r fstest.MapFS) { delete(r, "dev/nvidiactl") }, nil, "no GPU has a file", "0 1 2"},
		{"not used yet", func(r fstest.MapFS) {
			r[gpu+"1b:00.0/information"] = &fstest.MapFile{Data: []byte("Model: NVIDIA H200\nGPU UUID: GPU-????????-????-????-????-????????????\nDevice Minor: 1\n")}
		}, nil, "GPU 1 has not been used", "0 1 2"},
		{"an unknown model", func(r fstest.MapFS) {
			r[gpu+"1b:00.0/information"] = &fstest.MapFile{Data: []byte(information(1, "Model: Unknown"))}
		}, nil, "GPU 1", "0 1 2"},
		{"excluded", func(r fstest.MapFS) {
			r[gpu+"1a:00.0/information"] = &fstest.MapFile{Data: []byte(information(0, "GPU Excluded:\t Yes"))}
		}, nil, "", "1 2"},
		{"excluded by an older driver", func(r fstest.MapFS) {
			r[gpu+"1b:00.0/information"] = &fstest.MapFile{Data: []byte(information(1, "Blacklisted:\t Yes"))}
		}, nil, "", "0 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{"dev/nvidiactl": {}}
			for i := range 3 {
				root[fmt.Sprintf("dev/nvidia%d", i)] = &fstest.MapFile{}
				root[fmt.Sprintf("%s1%c:00.0/information", gpu, 'a'+i)] = &fstest.MapFile{Data: []byte(information(i))}
			}
			tt.change(root)
			r := probeFiles(System{root, mayOpen(root, tt.errs)})
			var open []string
			for i, g := range r.GPUs {
				if g.Index != i {
					t.Errorf("GPU %d has index %d", i, g.Index)
				}
				if g.Denied == "" {
					open = append(open, fmt.Sprint(*g.Minor))
				}
			}
			if got := strings.Join(open, " "); got != tt.open || !strings.Contains(r.Unsure, tt.unsure) || (r.Unsure == "") != (tt.unsure == "") {
				t.Errorf("may open %q, unsure %q; want %q, %q", got, r.Unsure, tt.open, tt.unsure)
			}
		})
	}
}

// TestMayOpen checks the permissions of files, which need not be opened for that.
func TestMayOpen(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo") // an open would wait for a writer
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MayOpen(fifo[1:]); err != nil {
		t.Errorf("%s: %v", fifo, err)
	}
	if err := MayOpen(dir[1:] + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if os.Geteuid() == 0 {
		return // root may open everything
	}
	if err := os.Chmod(fifo, 0); err != nil {
		t.Fatal(err)
	}
	if err := MayOpen(fifo[1:]); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file without permissions: %v", err)
	}
}

func TestSysfsPCI(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:1A:00.0": "0000:1a:00.0", "0000:1a:00.0": "0000:1a:00.0", "00010000:01:00.0": "10000:01:00.0", "": "", "x": "x",
	} {
		if got := sysfsPCI(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// fakeRoot makes a root in which List finds a driver.
func fakeRoot(t *testing.T) string {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "dev/nvidiactl"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestList(t *testing.T) {
	const answer = `{"gorun_gpu_probe":2,"gpus":[{"index":0,"uuid":"GPU-1"}]}` + "\n"
	const two = `{"gorun_gpu_probe":2,"gpus":[{"index":0},{"index":1}]}` + "\n"
	const unsure = `{"gorun_gpu_probe":2,"gpus":[{"index":0,"uuid":"GPU-1"}],"unsure":"GPU 0"}` + "\n"
	one := []GPU{{Index: 0, UUID: "GPU-1"}}
	type result struct {
		output string
		exit   int
		err    error
	}
	tests := []struct {
		name         string
		nvml, procfs result
		want         []GPU
		wantErr      string
		env          []string
		calls        string
	}{
		{"the files are sure", result{exit: 127}, result{output: answer}, one, "", nil, "procfs"},
		{"MIG instances are named", result{output: answer}, result{output: two}, one, "", []string{"CUDA_VISIBLE_DEVICES=MIG-1"}, "procfs nvml"},
		{"a container's MIG instances", result{output: answer}, result{output: two}, one, "", []string{"NVIDIA_VISIBLE_DEVICES=MIG-1"}, "procfs nvml"},
		{"the files hang", result{output: answer}, result{err: errors.New("no answer within 5s")}, one, "", nil, "procfs nvml"},
		{"NVML answers", result{output: answer}, result{output: unsure}, one, "", nil, "procfs nvml"},
		{"noise around the answer", result{output: "ERROR: ld.so: object\n{not json}\n" + answer + "bye\n"}, result{output: unsure}, one, "", nil, "procfs nvml"},
		{"NVML kills the child", result{"symbol lookup error", 127, nil}, result{output: unsure}, one, "", nil, "procfs nvml"},
		{"answer, then a crash", result{answer, 1, nil}, result{output: unsure}, one, "", nil, "procfs nvml"},
		{"no library", result{output: `{"gorun_gpu_probe":2,"gpus":null,"error":"not found"}`}, result{output: unsure}, one, "", nil, "procfs nvml"},
		{"another version's answer", result{output: `{"gorun_gpu_probe":1}`}, result{output: unsure}, one, "", nil, "procfs nvml"},
		{"too many GPUs", result{output: `{"gorun_gpu_probe":2,"gpus":[` + strings.Repeat("{},", maxGPUs) + "{}]}"}, result{output: unsure}, one, "", nil, "procfs nvml"},
		{"nothing works", result{err: errors.New("cannot fork")}, result{exit: 3}, nil, "NVML: cannot fork; /proc/driver/nvidia: the probe ended with code 3", nil, "procfs nvml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			got, err := Child{
				Path: "/exe", Argv: []string{"gorun", "__gpus"}, Env: append([]string{"LD_BIND_NOW=1", "A=1"}, tt.env...), Root: fakeRoot(t),
				Run: func(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
					source := argv[len(argv)-1]
					calls = append(calls, source)
					if _, limited := ctx.Deadline(); !limited || path != "/exe" || len(argv) != 3 || !slices.Equal(env, append([]string{"A=1"}, tt.env...)) {
						t.Errorf("called as %s %q with %q, deadline %v", path, argv, env, limited)
					}
					r := map[string]result{"nvml": tt.nvml, "procfs": tt.procfs}[source]
					return []byte(r.output), r.exit, r.err
				},
			}.List(t.Context())
			if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, %v, want %v, %q", got, err, tt.want, tt.wantErr)
			}
			if c := strings.Join(calls, " "); c != tt.calls {
				t.Errorf("asked %q, want %q", c, tt.calls)
			}
		})
	}
}

// TestSurvey checks that an answer is used before the child has ended, whatever becomes of
// the child, and that the driver's files say which GPUs are usable if NVML does not.
func TestSurvey(t *testing.T) {
	const healthy, broken = `{"gorun_gpu_probe":2,"gpus":[{"index":0,"uuid":"GPU-1"}],"nvml":"12"}` + "\n", `{"gorun_gpu_probe":2,"gpus":[{"index":0,"error":"GPU is lost"}]}` + "\n"
	const files = `{"gorun_gpu_probe":2,"gpus":[{"index":0,"uuid":"GPU-file"}]}` + "\n"
	for name, tt := range map[string]struct {
		output string
		exit   int
		failed error
		usable string
		err    string
	}{
		"an answer":                    {output: healthy, usable: "GPU-1"},
		"an answer, then a crash":      {output: healthy, exit: 139, usable: "GPU-1"},
		"noise, and two answers":       {output: "ERROR: ld.so\n" + healthy + files, usable: "GPU-1"},
		"a broken GPU":                 {output: broken, usable: "GPU-file"},
		"no library":                   {output: `{"gorun_gpu_probe":2,"error":"cannot load NVML"}` + "\n", usable: "GPU-file", err: "cannot load NVML"},
		"a crash":                      {output: "symbol lookup error\n", exit: 127, usable: "GPU-file", err: "the probe ended with code 127 and gave no answer"},
		"a child that does not start":  {failed: errors.New("cannot fork"), usable: "GPU-file", err: "cannot fork"},
		"an answer that is too long":   {output: `{"gorun_gpu_probe":2,"nvml":"` + strings.Repeat("x", maxAnswer) + `"}` + "\n", usable: "GPU-file", err: "gave no answer"},
		"half an answer, then nothing": {output: healthy[:30], usable: "GPU-file", err: "gave no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			used := make(chan struct{})
			calls := 0
			Child{
				Root: fakeRoot(t), Argv: []string{"gorun", "__gpus"},
				Run: func(_ context.Context, _ string, argv, _ []string, _ string) ([]byte, int, error) {
					if argv[len(argv)-1] != string(Procfs) {
						t.Errorf("called as %q", argv)
					}
					return []byte(files), 0, nil
				},
				Stream: func(ctx context.Context, _ string, argv, _ []string, _ string, out io.Writer) (int, error) {
					if _, limited := ctx.Deadline(); !limited || argv[len(argv)-1] != string(All) {
						t.Errorf("called as %q, deadline %v", argv, limited)
					}
					_, _ = io.WriteString(out, tt.output)
					if tt.err == "" {
						<-used // the child ends after its answer was used
					}
					return tt.exit, tt.failed
				},
			}.Survey(t.Context(), func(s Survey) {
				calls++
				close(used)
				if len(s.Usable) != 1 || s.Usable[0].UUID != tt.usable || s.UsableErr != nil || !s.Driver {
					t.Errorf("usable: %+v, %v", s.Usable, s.UsableErr)
				}
				if (s.Err == nil) != (tt.err == "") || s.Err != nil && !strings.Contains(s.Err.Error(), tt.err) {
					t.Errorf("got %v, want %q", s.Err, tt.err)
				}
			})
			if calls != 1 {
				t.Errorf("%d answers", calls)
			}
		})
	}
	called := false
	Child{Root: t.TempDir()}.Survey(t.Context(), func(s Survey) { called = !s.Driver })
	if !called {
		t.Error("no answer without a driver")
	}
}

// TestListInAContainerWithoutGPUs shows that List returns no GPU in a container
// that sees the machine's GPUs in /proc but has no file to call the driver.
func TestListInAContainerWithoutGPUs(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/driver/nvidia/version"), 0o755); err != nil {
		t.Fatal(err)
	}
	gpus, err := Child{Root: root, Run: func(_ context.Context, _ string, argv, _ []string, _ string) ([]byte, int, error) {
		if argv[len(argv)-1] == string(NVML) {
			return []byte(`{"gorun_gpu_probe":2,"error":"no library"}`), 0, nil
		}
		return []byte(`{"gorun_gpu_probe":2,"gpus":[{"index":0,"uuid":"GPU-1"}],"unsure":"no file"}`), 0, nil
	}}.List(t.Context())
	if len(gpus) > 0 || err != nil {
		t.Errorf("got %v, %v", gpus, err)
	}
}

func TestListEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := Child{Root: fakeRoot(t), Run: func(ctx context.Context, _ string, _, _ []string, _ string) ([]byte, int, error) {
		cancel()
		<-ctx.Done() // a hanging driver: only the end of ctx ends the child
		return nil, -1, nil
	}}
	if gpus, err := c.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want the context's end", gpus, err)
	}
	c.Root, c.Run = t.TempDir(), nil // no driver: no child
	if gpus, err := c.List(t.Context()); gpus != nil || err != nil {
		t.Errorf("without a driver: %v, %v", gpus, err)
	}
}

// run starts a real child, with os/exec because this test has no agent.
func run(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return out, exit.ExitCode(), nil
	}
	return out, 0, err
}

// TestRealChild runs a real child on this machine. With a driver it finds the
// GPUs that /proc shows. Without one NVML reports that, and nothing crashes.
func TestRealChild(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Child{Run: run, Path: exe, Argv: []string{"gorun", "probe"}, Env: os.Environ()}
	gpus, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("GPUs: %+v", gpus)
	if !c.HasDriver() {
		c.Root = fakeRoot(t) // ask NVML although there is no driver
		if gpus, err := c.List(t.Context()); err == nil || len(gpus) > 0 || !strings.Contains(err.Error(), "NVML") {
			t.Errorf("without a driver: %v, %v", gpus, err)
		}
		t.Skip("no NVIDIA driver: the child's answer was checked, no GPU was")
	}
	for i, g := range gpus {
		if g.Index != i || !strings.HasPrefix(g.UUID, "GPU-") || g.PCI == "" || g.Name == "" {
			t.Errorf("GPU %d is incomplete: %+v", i, g)
		}
	}
}
