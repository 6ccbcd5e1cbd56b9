package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fake makes a root of files. A name that ends with "/" is a folder, a text
// that begins with "-> " a link.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(full, 0o755)
		case link:
			err = os.Symlink(target, full)
		default:
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestGatherFaked(t *testing.T) {
	root := fake(t, map[string]string{
		"proc/sys/kernel/random/boot_id":               "11111111-2222-3333-4444-555555555555\n",
		"proc/sys/kernel/threads-max":                  "1000\n",
		"proc/sys/kernel/pid_max":                      "4194304\n",
		"proc/sys/net/core/somaxconn":                  "4096\n",
		"proc/sys/net/ipv4/neigh/default/gc_thresh3":   "1024\n",
		"proc/sys/net/netfilter/nf_conntrack_max":      "262144\n",
		"proc/sys/net/netfilter/nf_conntrack_count":    "17\n",
		"proc/sys/fs/file-max":                         "9223372036854775807\n",
		"proc/self/ns/net":                             "-> net:[1]",
		"proc/self/ns/ipc":                             "-> ipc:[2]",
		"proc/self/ns/pid":                             "-> pid:[3]",
		"proc/self/ns/mnt":                             "-> mnt:[4]",
		"proc/self/ns/user":                            "-> user:[5]",
		"proc/self/cgroup":                             "0::/kubepods/pod1/c\n",
		"proc/cpuinfo":                                 "processor\t: 0\nvendor_id\t: GenuineIntel\n",
		"proc/driver/nvidia/":                          "",
		"etc/machine-id":                               "abc\n",
		"sys/class/pci_bus/":                           "",
		"sys/fs/cgroup/cgroup.controllers":             "cpu memory pids\n",
		"sys/fs/cgroup/kubepods/pod1/pids.max":         "100\n",
		"sys/fs/cgroup/kubepods/pod1/pids.current":     "40\n",
		"sys/fs/cgroup/kubepods/pod1/c/pids.max":       "max\n",
		"sys/fs/cgroup/kubepods/pod1/c/pids.current":   "5\n",
		"sys/fs/cgroup/kubepods/pod1/c/memory.max":     "1073741824\n",
		"sys/fs/cgroup/kubepods/pod1/c/memory.current": "1048576\n",
		"dev/shm/":           "",
		"dev/nvidia0":        "",
		"dev/nvidia7":        "",
		"dev/nvidia-modeset": "",
		"dev/nvidiactl":      "",
		"logs/":              "",
	})
	f, unknown := Gather(context.Background(), Options{Root: root, Driver: true, Env: []string{"NCCL_DEBUG_FILE=/logs/nccl.%h.%p"}})
	for _, why := range unknown {
		if !strings.Contains(why, "files a worker may open") {
			t.Errorf("unknown: %s", why)
		}
	}
	if f.BootID != "11111111-2222-3333-4444-555555555555" || f.MachineID != "abc" || f.CPUVendor != "GenuineIntel" || !f.SysPCI || !f.ProcGPU || f.Container != "kubernetes" {
		t.Errorf("identity: %+v", f)
	}
	if want := (NS{Net: "net:[1]", IPC: "ipc:[2]", PID: "pid:[3]", Mnt: "mnt:[4]", User: "user:[5]"}); f.NS != want {
		t.Errorf("namespaces: %+v", f.NS)
	}
	if want := (Sysctl{SomaxConn: 4096, GCThresh3: 1024, ConntrackMax: 262144, ConntrackUsed: 17, FileMax: Unlimited}); f.Sysctl != want {
		t.Errorf("sysctl: %+v", f.Sysctl)
	}
	if l := f.Limits; l.PidsMax != 100 || l.PidsCurrent != 40 || l.MemMax != 1<<30 || l.MemCurrent != 1<<20 || l.ThreadsMax != 1000 || l.PIDMax != 4194304 {
		t.Errorf("limits: %+v", l)
	}
	got := map[string]string{}
	for _, n := range f.DevNodes {
		got[n.Path] = n.Error
	}
	if want := map[string]string{"/dev/nvidiactl": "", "/dev/nvidia-uvm": "missing", "/dev/nvidia0": "", "/dev/nvidia7": ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("devices: %v", got)
	}
	if log := f.Leftover.Log; len(log) != 1 || log[0].Path != "/logs" || !log[0].Writable || log[0].Free <= 0 {
		t.Errorf("log: %+v", log)
	}
}

// TestDevicesUnderWSL checks that under WSL the driver has one device file.
func TestDevicesUnderWSL(t *testing.T) {
	o := Options{Root: fake(t, map[string]string{"dev/dxg": ""}), Driver: true}
	if got, why := o.devices(); why != "" || !reflect.DeepEqual(got, []Node{{Path: WSL}}) {
		t.Errorf("%+v, %s", got, why)
	}
}

func TestGatherWithoutProc(t *testing.T) {
	f, unknown := Gather(context.Background(), Options{Root: fake(t, nil), Driver: true, RunID: "r"})
	if len(unknown) < 2 {
		t.Errorf("unknown %q, want /proc and /dev/shm", unknown)
	}
	if f.SHM.Free != -1 || f.SHM.Error != "no such file or directory" || f.Limits.PidsMax != Unknown || f.Limits.MemMax != Unknown || f.Sysctl.SomaxConn != Unknown {
		t.Errorf("%+v", f)
	}
	for _, n := range f.DevNodes {
		if n.Error != "missing" {
			t.Errorf("%+v", n)
		}
	}
}

func TestGatherHere(t *testing.T) {
	before := time.Now().UnixNano()
	f, unknown := Gather(context.Background(), Options{})
	t.Logf("%+v, unknown %q", f, unknown)
	host, err := os.Hostname()
	if err != nil || f.Hostname != host {
		t.Errorf("host name %q, want %q (%v)", f.Hostname, host, err)
	}
	if f.BootID == "" || !strings.HasPrefix(f.NS.Net, "net:[") || f.Kernel == "" || f.Arch == "" || f.UnixNano < before {
		t.Errorf("identity: %+v", f)
	}
	if f.CPUs < 1 || f.CPUs > runtime.NumCPU() || f.MemKiB < 1<<10 {
		t.Errorf("%d CPUs, %d KiB", f.CPUs, f.MemKiB)
	}
	if f.SHM.Size < f.SHM.Free || f.SHM.Dev == 0 || f.SHM.Error != "" {
		t.Errorf("shm %+v", f.SHM)
	}
	if f.DevNodes != nil || f.Leftover.Jobs != nil || f.Leftover.SHMFiles != 0 {
		t.Errorf("read what was not requested: %+v", f)
	}
}

// TestLimitsAreThoseOfAChild compares Gather's limits with those that a child
// reports.
func TestLimitsAreThoseOfAChild(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	child := func(flag string, unit int64) int64 {
		text, err := exec.Command(sh, "-c", "ulimit "+flag).Output()
		if err != nil {
			t.Skipf("ulimit %s: %v", flag, err)
		}
		word := strings.TrimSpace(string(text))
		if word == "unlimited" {
			return Unlimited
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n * unit
	}
	var l Limits
	Options{}.limits(&l)
	if l.NoFileSoft != Unknown && l.NoFileSoft != child("-Sn", 1) {
		t.Errorf("soft limit of files %d, a child has %d", l.NoFileSoft, child("-Sn", 1))
	}
	for _, c := range []struct {
		name string
		got  int64
		want int64
	}{
		{"hard limit of files", l.NoFileHard, child("-Hn", 1)},
		{"stack", l.Stack, child("-Ss", 1024)},
		{"address space", l.AS, child("-Sv", 1024)},
	} {
		if c.got != c.want {
			t.Errorf("%s %d, a child has %d", c.name, c.got, c.want)
		}
	}
}

func TestChildFiles(t *testing.T) {
	for _, c := range []struct{ soft, hard, want int64 }{
		{1048575, 1048576, Unknown}, // raised by the runtime
		{1048576, 1048576, 1048576}, // the user's own, or set by gorun
		{1024, 4096, 1024},
		{Unlimited, Unlimited, Unlimited},
		{Unknown, Unknown, Unknown},
	} {
		if got := childFiles(c.soft, c.hard); got != c.want {
			t.Errorf("childFiles(%d, %d) = %d, want %d", c.soft, c.hard, got, c.want)
		}
	}
}

func TestGatherEndsWithItsContext(t *testing.T) {
	// A pipe without a writer does not block an open with O_NONBLOCK, so this
	// tests the wait itself instead of a device whose open blocks.
	stuck := make(chan struct{})
	defer close(stuck)
	b := startBackground("opening a device", func() (int, string) { <-stuck; return 1, "" })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n, why := b.wait(ctx); n != 0 || why != "opening a device took too long" {
		t.Errorf("%d, %q", n, why)
	}
}

func TestDeviceThatIsAPipeDoesNotBlock(t *testing.T) {
	root := fake(t, map[string]string{"dev/": ""})
	if err := syscall.Mkfifo(filepath.Join(root, "dev/nvidiactl"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes, _ := Options{Root: root, Driver: true}.devices()
	if len(nodes) != 2 || nodes[0].Error != "" {
		t.Errorf("%+v", nodes)
	}
}

func TestLogFolder(t *testing.T) {
	root := fake(t, map[string]string{"logs/": "", "job/out/": ""})
	host, _ := os.Hostname()
	for _, c := range []struct {
		name, path string
		writable   bool
	}{
		{"/logs/nccl.%h.%p", "/logs", true},
		{"/none/nccl.log", "/none", false},
		{"/logs/%h/nccl.log", "/logs/" + host, false},
		{"out/nccl.log", "/job/out", true},
	} {
		files, _ := Options{Root: root, Dir: "/job", Log: c.name}.logs()
		if len(files) != 1 || files[0].Path != c.path || files[0].Writable != c.writable || (files[0].Error == "") != c.writable {
			t.Errorf("%s: %+v", c.name, files)
		}
	}
	for _, name := range []string{"", "/dev/stderr"} {
		if files, _ := (Options{Root: root, Log: name}).logs(); files != nil {
			t.Errorf("%q: %+v", name, files)
		}
	}
}

func BenchmarkGather(b *testing.B) {
	env := os.Environ()
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			Gather(context.Background(), Options{Env: env})
		}
	})
	b.Run("driver", func(b *testing.B) {
		for b.Loop() {
			Gather(context.Background(), Options{Env: env, Driver: true})
		}
	})
	b.Run("run", func(b *testing.B) {
		for b.Loop() {
			Gather(context.Background(), Options{Env: env, RunID: "no such run"})
		}
	})
}
