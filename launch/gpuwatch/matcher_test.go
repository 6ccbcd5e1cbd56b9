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

var testWorld = World{Token: "t1", RunID: "job", Addr: "10.0.0.1", Port: "29500"}

func TestRelationOf(t *testing.T) {
	tests := []struct {
		name      string
		env       string // entries, separated by blanks
		container bool
		want      relation
		rank      int
	}{
		{"a worker", "PATH=/bin GORUN_WORLD_TOKEN=t1 RANK=3", false, relationRank, 3},
		{"a worker in a container", "GORUN_WORLD_TOKEN=t1 RANK=3", true, relationRank, 3},
		{"a container that got torch's variables only", "RANK=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500", true, relationRank, 2},
		{"another store", "RANK=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29501", false, relationOther, 0},
		{"another world at that store's port", "GORUN_WORLD_TOKEN=t2 RANK=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500", false, relationOther, 0},
		{"of this world, without a rank", "GORUN_WORLD_TOKEN=t1 RANK=x", false, relationUnknown, 0},
		{"of an earlier round, or another job of that name", "GORUN_WORLD_TOKEN=t0 GORUN_RUN_ID=job RANK=3", false, relationUnknown, 0},
		{"another job's", "GORUN_WORLD_TOKEN=t0 GORUN_RUN_ID=other RANK=3", false, relationOther, 0},
		{"no job's", "PATH=/bin", false, relationOther, 0},
		{"a container that got nothing", "PATH=/bin", true, relationUnknown, 0},
		{"variables with similar names", "XRANK=3 XGORUN_WORLD_TOKEN=t1 A=GORUN_WORLD_TOKEN=t1", false, relationOther, 0},
		{"unreadable, or overwritten", "", false, relationUnknown, 0},
		{"more than is read", "A=" + strings.Repeat("x", maxEnviron) + " GORUN_WORLD_TOKEN=t1 RANK=3", false, relationUnknown, 0},
	}
	for _, tt := range tests {
		p := procFS(true, map[int]string{7: "1 7 7"})
		root := p.FS.(fstest.MapFS)
		root["7/environ"].Data = []byte(strings.ReplaceAll(tt.env, " ", "\x00") + "\x00")
		if tt.env == "" {
			root["7/environ"].Data = nil
		}
		if tt.container {
			root["7/ns/mnt"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("mnt:[2]")}
		}
		if what, rank := newMatcher(p, testWorld).relationOf(7); what != tt.want || rank != tt.rank {
			t.Errorf("%s: relation %v rank %d, want %v rank %d", tt.name, what, rank, tt.want, tt.rank)
		}
	}
	if what, _ := newMatcher(procFS(true, map[int]string{7: "1 7 7"}), World{}).relationOf(7); what != relationOther {
		t.Errorf("an unknown world has a member: relation %v", what)
	}
}

// TestAssignFindsOtherNodesAndUnrelated checks which processes belong to this node's
// workers, which belong to workers of other agents, and which belong to no rank.
func TestAssignFindsOtherNodesAndUnrelated(t *testing.T) {
	p := procFS(true, map[int]string{
		100: "1 100 100", 101: "100 101 101", 200: "1 200 200", 300: "1 300 300", 400: "1 400 400", 500: "1 500 500", 600: "1 600 600",
	})
	setEnviron := func(pid int, env string) { p.FS.(fstest.MapFS)[fmt.Sprintf("%d/environ", pid)].Data = []byte(env) }
	setEnviron(101, "GORUN_WORLD_TOKEN=t1\x00RANK=7\x00") // descent counts, whatever the environment of a worker's child says
	setEnviron(300, "GORUN_WORLD_TOKEN=t1\x00RANK=0\x00")
	setEnviron(400, "GORUN_WORLD_TOKEN=t1\x00RANK=9\x00")
	setEnviron(500, "")
	var processes []device.Process
	for _, pid := range []int{101, 300, 400, 500, 600, 700, 400} {
		processes = append(processes, device.Process{UUID: "GPU-a", PID: pid})
	}
	all, unrelated := newMatcher(p, testWorld).assign([]Rank{{PIDs: []int{100}, GPUs: []string{"GPU-a"}}, {Rank: 1, PIDs: []int{200}}}, processes)
	want := []Rank{
		{PIDs: []int{100, 101, 300}, GPUs: []string{"GPU-a"}},
		{Rank: 1, PIDs: []int{200}},
		{Rank: 9, PIDs: []int{400}, OtherNode: true},
	}
	if !reflect.DeepEqual(all, want) || !reflect.DeepEqual(unrelated, map[int]bool{600: true}) {
		t.Errorf("got %v, unrelated %v", all, unrelated)
	}
}

// TestRelationInRealProc checks processes that this test did not start as workers, in
// the real /proc.
func TestRelationInRealProc(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	cmd.Env = []string{"GORUN_WORLD_TOKEN=t1", "RANK=5"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	other := exec.Command("sleep", "100")
	other.Env = []string{unrelatedEnviron[:len(unrelatedEnviron)-1]}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	k := newMatcher(Procs{os.DirFS("/proc")}, testWorld)
	for pid, want := range map[int]relation{cmd.Process.Pid: relationRank, other.Process.Pid: relationOther} {
		what, rank := k.relationOf(pid)
		// A process that has just started has no environment yet.
		for end := time.Now().Add(10 * time.Second); what == relationUnknown && time.Now().Before(end); {
			what, rank = k.relationOf(pid)
		}
		if what != want || want == relationRank && rank != 5 {
			t.Errorf("pid %d: relation %v, rank %d; want %v", pid, what, rank, want)
		}
	}
}

// hangingFS is a /proc whose environments cannot be read.
type hangingFS struct {
	fstest.MapFS
	asked   *atomic.Int32
	release chan struct{}
}

func (h hangingFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/environ") {
		h.asked.Add(1)
		<-h.release
	}
	return h.MapFS.Open(name)
}

// TestHangingEnvironIsReadOnce checks that the matcher reads the environment of a
// process that hangs once, and does not wait for it.
func TestHangingEnvironIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hangingFS{procFS(true, map[int]string{7: "1 7 7"}).FS.(fstest.MapFS), new(atomic.Int32), make(chan struct{})}
		defer close(h.release)
		k, start := newMatcher(Procs{h}, testWorld), time.Now()
		for range 3 {
			if what, _ := k.relationOf(7); what != relationUnknown {
				t.Errorf("relation %v", what)
			}
		}
		if took := time.Since(start); h.asked.Load() != 1 || took != environTimeout {
			t.Errorf("asked %d times in %v", h.asked.Load(), took)
		}
	})
}
