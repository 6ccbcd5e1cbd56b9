package gpuwatch

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/launch/device"
)

var ourWorld = World{Token: "t1", RunID: "job", Addr: "10.0.0.1", Port: "29500"}

func TestKin(t *testing.T) {
	tests := []struct {
		name      string
		env       string // entries, separated by blanks
		container bool
		want      relation
		rank      int
	}{
		{"a worker", "PATH=/bin GORUN_WORLD_TOKEN=t1 RANK=3", false, member, 3},
		{"a worker in a container", "GORUN_WORLD_TOKEN=t1 RANK=3", true, member, 3},
		{"a container that got torch's variables only", "RANK=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500", true, member, 2},
		{"another store", "RANK=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29501", false, stranger, 0},
		{"another world at that store's port", "GORUN_WORLD_TOKEN=t2 RANK=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500", false, stranger, 0},
		{"of this world, without a rank", "GORUN_WORLD_TOKEN=t1 RANK=x", false, unsure, 0},
		{"of an earlier round, or another job of that name", "GORUN_WORLD_TOKEN=t0 GORUN_RUN_ID=job RANK=3", false, unsure, 0},
		{"another job's", "GORUN_WORLD_TOKEN=t0 GORUN_RUN_ID=other RANK=3", false, stranger, 0},
		{"nobody's", "PATH=/bin", false, stranger, 0},
		{"a container that got nothing", "PATH=/bin", true, unsure, 0},
		{"names that only look alike", "XRANK=3 XGORUN_WORLD_TOKEN=t1 A=GORUN_WORLD_TOKEN=t1", false, stranger, 0},
		{"unreadable, or overwritten", "", false, unsure, 0},
		{"more than is read", "A=" + strings.Repeat("x", maxEnviron) + " GORUN_WORLD_TOKEN=t1 RANK=3", false, unsure, 0},
	}
	for _, tt := range tests {
		p := proc(true, map[int]string{7: "1 7 7"})
		root := p.FS.(fstest.MapFS)
		root["7/environ"].Data = []byte(strings.ReplaceAll(tt.env, " ", "\x00") + "\x00")
		if tt.env == "" {
			root["7/environ"].Data = nil
		}
		if tt.container {
			root["7/ns/mnt"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("mnt:[2]")}
		}
		if what, rank := newMatcher(p, ourWorld).of(7); what != tt.want || rank != tt.rank {
			t.Errorf("%s: relation %v rank %d, want %v rank %d", tt.name, what, rank, tt.want, tt.rank)
		}
	}
	if what, _ := newMatcher(proc(true, map[int]string{7: "1 7 7"}), World{}).of(7); what != stranger {
		t.Errorf("an unknown world has a member: relation %v", what)
	}
}

// TestKinAdopt checks which processes belong to this node's workers, by descent or
// by their environment, which to other agents' workers, and which to no rank.
func TestKinAdopt(t *testing.T) {
	p := proc(true, map[int]string{
		100: "1 100 100", 101: "100 101 101", 200: "1 200 200", 300: "1 300 300", 400: "1 400 400", 500: "1 500 500", 600: "1 600 600",
	})
	says := func(pid int, env string) { p.FS.(fstest.MapFS)[fmt.Sprintf("%d/environ", pid)].Data = []byte(env) }
	says(101, "GORUN_WORLD_TOKEN=t1\x00RANK=7\x00") // descent counts, whatever the environment of a worker's child says
	says(300, "GORUN_WORLD_TOKEN=t1\x00RANK=0\x00")
	says(400, "GORUN_WORLD_TOKEN=t1\x00RANK=9\x00")
	says(500, "")
	var held []device.Process
	for _, pid := range []int{101, 300, 400, 500, 600, 700, 400} {
		held = append(held, device.Process{UUID: "GPU-a", PID: pid})
	}
	all, strangers := newMatcher(p, ourWorld).assign([]Rank{{PIDs: []int{100}, Own: []string{"GPU-a"}}, {Rank: 1, PIDs: []int{200}}}, held)
	want := []Rank{
		{PIDs: []int{100, 101, 300}, Own: []string{"GPU-a"}},
		{Rank: 1, PIDs: []int{200}},
		{Rank: 9, PIDs: []int{400}, Away: true},
	}
	if !reflect.DeepEqual(all, want) || !reflect.DeepEqual(strangers, map[int]bool{600: true}) {
		t.Errorf("got %v, strangers %v", all, strangers)
	}
}

// TestKinReal checks the environment of a process that is no descendant, in the
// real /proc.
func TestKinReal(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	cmd.Env = []string{"GORUN_WORLD_TOKEN=t1", "RANK=5"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	other := exec.Command("sleep", "100")
	other.Env = []string{theirs[:len(theirs)-1]}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	k := newMatcher(Procs{os.DirFS("/proc")}, ourWorld)
	for pid, want := range map[int]relation{cmd.Process.Pid: member, other.Process.Pid: stranger} {
		what, rank := k.of(pid)
		// A process that has just begun has no environment yet.
		for end := time.Now().Add(10 * time.Second); what == unsure && time.Now().Before(end); {
			what, rank = k.of(pid)
		}
		if what != want || want == member && rank != 5 {
			t.Errorf("pid %d: relation %v, rank %d; want %v", pid, what, rank, want)
		}
	}
}

// hanging is a /proc whose environments cannot be read.
type hanging struct {
	fstest.MapFS
	asked   *atomic.Int32
	release chan struct{}
}

func (h hanging) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/environ") {
		h.asked.Add(1)
		<-h.release
	}
	return h.MapFS.Open(name)
}

// TestKinHangs checks that a process whose environment cannot be read is asked
// once, and not awaited.
func TestKinHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{proc(true, map[int]string{7: "1 7 7"}).FS.(fstest.MapFS), new(atomic.Int32), make(chan struct{})}
		defer close(h.release)
		k, start := newMatcher(Procs{h}, ourWorld), time.Now()
		for range 3 {
			if what, _ := k.of(7); what != unsure {
				t.Errorf("relation %v", what)
			}
		}
		if took := time.Since(start); h.asked.Load() != 1 || took != environTime {
			t.Errorf("asked %d times in %v", h.asked.Load(), took)
		}
	})
}
