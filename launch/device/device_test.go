package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// TestMain makes the test binary its own probe, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "probe" {
		_ = Answer(os.Stdout, Source(os.Args[2]), os.DirFS("/"))
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

func TestProcfs(t *testing.T) {
	const dir = "proc/driver/nvidia/gpus/"
	root := fstest.MapFS{
		dir + "0000:1a:00.0/information": {Data: []byte("Model: \t\t NVIDIA H100\nIRQ:   \t\t 5\nGPU UUID: \t GPU-1\nBus Location: \t 0000:1a:00.0\nDevice Minor: \t 0\n")},
		dir + "0000:0B:00.0/information": {Data: []byte("Model: NVIDIA H100\nGPU UUID: GPU-????????-????\n")},
		dir + "0001:00:00.0/power":       {Data: []byte("no information")},
	}
	got := Probe(Procfs, root)
	want := Report{Probe: reportVersion, GPUs: []GPU{
		{Index: 0, PCI: "0000:0b:00.0", Name: "NVIDIA H100"},
		{Index: 1, UUID: "GPU-1", PCI: "0000:1a:00.0", Name: "NVIDIA H100", Minor: new(0)},
		{Index: 2, PCI: "0001:00:00.0"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if r := Probe(Procfs, fstest.MapFS{}); r.Error == "" {
		t.Error("no error without the driver's folder")
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
		calls        string
	}{
		{"NVML answers", result{output: answer}, result{}, one, "", "nvml"},
		{"noise around the answer", result{output: "ERROR: ld.so: object\n{not json}\n" + answer + "bye\n"}, result{}, one, "", "nvml"},
		{"NVML kills the child", result{"symbol lookup error", 127, nil}, result{output: answer}, one, "", "nvml procfs"},
		{"answer, then a crash", result{answer, 1, nil}, result{output: answer}, one, "", "nvml procfs"},
		{"no library", result{output: `{"gorun_gpu_probe":2,"gpus":null,"error":"not found"}`}, result{output: answer}, one, "", "nvml procfs"},
		{"another version's answer", result{output: `{"gorun_gpu_probe":1}`}, result{output: answer}, one, "", "nvml procfs"},
		{"too many GPUs", result{output: `{"gorun_gpu_probe":2,"gpus":[` + strings.Repeat("{},", maxGPUs) + "{}]}"}, result{output: answer}, one, "", "nvml procfs"},
		{"nothing works", result{err: errors.New("cannot fork")}, result{exit: 3}, nil, "NVML: cannot fork; /proc/driver/nvidia: the probe ended with code 3", "nvml procfs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			got, err := Child{
				Path: "/exe", Argv: []string{"gorun", "__gpus"}, Env: []string{"LD_BIND_NOW=1", "A=1"}, Root: fakeRoot(t),
				Run: func(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
					source := argv[len(argv)-1]
					calls = append(calls, source)
					if _, limited := ctx.Deadline(); !limited || path != "/exe" || len(argv) != 3 || !reflect.DeepEqual(env, []string{"A=1"}) {
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
		return []byte(`{"gorun_gpu_probe":2,"gpus":[{"index":0,"uuid":"GPU-1"}]}`), 0, nil
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
