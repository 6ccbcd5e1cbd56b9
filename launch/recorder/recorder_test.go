package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/flight"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// TestVariables checks the names by torch's version, and that what the user set stays and
// counts.
func TestVariables(t *testing.T) {
	at := Folders{Pipes: "/s/rank_", Dumps: "/l/flight_rank_"}
	for _, tt := range []struct {
		name, version string
		at            Folders
		env           []string
		want          string
	}{
		{"new", "2.11.0+cu130", at, nil, "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=/l/flight_rank_ TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/s/rank_"},
		{"the first with the new names", "2.9.0.dev20250801", at, nil, "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=/l/flight_rank_ TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/s/rank_"},
		{"old", "2.6.0a0+git", at, nil, "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/l/flight_rank_ TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/s/rank_"},
		{"later", "3.0.1", Folders{}, nil, "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"},
		{"before the recorder", "2.1.2+cu121", at, nil, ""},
		{"1.13", "1.13.1", at, nil, ""},
		{"unknown", "", at, nil, ""},
		{"strange", "v2", at, nil, ""},
		{"the user's size by its old name", "2.11.0", at, []string{"TORCH_NCCL_TRACE_BUFFER_SIZE=50"}, "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=/l/flight_rank_ TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/s/rank_"},
		{"off by the user", "2.11.0", at, []string{"TORCH_NCCL_TRACE_BUFFER_SIZE=0"}, ""},
		{"the user's file", "2.5.1", at, []string{"TORCH_FR_DUMP_TEMP_FILE=/mine_", "TORCH_NCCL_DUMP_ON_TIMEOUT=0"}, "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/s/rank_"},
	} {
		var got []string
		for _, v := range Variables(tt.version, tt.at, tt.env) {
			got = append(got, v.Name+"="+v.Value)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

// TestTarget checks that a rank's recorder is found by what its environment says.
func TestTarget(t *testing.T) {
	base := envprop.NewBase([]string{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=pipes/p", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/old_", "TORCH_FR_DUMP_TEMP_FILE=/new_"})
	got := NewTarget(3, base.Worker(envprop.Vars{}), "/job")
	if got != (Target{Rank: 3, pipe: "/job/pipes/p3.pipe", dump: "/new_3"}) || !got.Named() {
		t.Errorf("%+v", got)
	}
	if NewTarget(3, nil, "/job").Named() {
		t.Error("a rank without names has a recorder")
	}
}

// rank is a stand-in for a rank of torch: it makes a pipe, and does something for every
// byte.
type rank struct {
	Target
	fd int
}

func newRank(t *testing.T, n int) *rank {
	t.Helper()
	dir := t.TempDir()
	env := []string{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + dir + "/rank_", "TORCH_FR_DUMP_TEMP_FILE=" + dir + "/flight_rank_"}
	r := &rank{NewTarget(n, env, "/"), -1}
	if err := unix.Mkfifo(r.pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(r.pipe, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.fd = fd
	t.Cleanup(func() { unix.Close(fd) })
	return r
}

// onByte runs a function beside the test when a byte has come.
func (r *rank) onByte(t *testing.T, do func()) {
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			if n, _ := unix.Read(r.fd, make([]byte, 1)); n == 1 {
				do()
				return
			}
			time.Sleep(time.Millisecond) // sleep: the heartbeat thread looks now and then, too
		}
	}()
}

// realDump returns a dump that torch wrote.
func realDump(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("../flight/testdata/grid-skip/dump_2")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *rank) write(t *testing.T, b []byte) {
	if err := os.WriteFile(r.dump, b, 0o600); err != nil {
		t.Error(err)
	}
}

// TestCollect checks that ranks are asked beside each other, that a dump that is only half
// there is waited for, and that one from before is not taken for the answer.
func TestCollect(t *testing.T) {
	whole := realDump(t)
	good, stale := newRank(t, 2), newRank(t, 5)
	good.onByte(t, func() {
		good.write(t, whole[:len(whole)/2])
		time.Sleep(3 * pollInterval) // sleep: the reader must see the half
		good.write(t, whole)
	})
	stale.write(t, whole)
	stale.seen = stale.stamp()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	a := Collect(ctx, []Target{good.Target, stale.Target, {Rank: 7}})
	if len(a.Dumps) != 1 || a.Dumps[0].Rank != 2 || len(a.Dumps[0].Calls) == 0 {
		t.Errorf("dumps: %+v", a.Dumps)
	}
	if len(a.Missing) != 2 || a.Missing[0].Rank != 5 || a.Missing[1].Rank != 7 || !strings.Contains(a.Missing[0].Why, "wrote no dump in time") || !strings.Contains(a.Missing[1].Why, "names no pipe") {
		t.Errorf("missing: %+v", a.Missing)
	}
}

// TestOwnDump checks that a dump that torch wrote by itself before it stopped to answer
// counts, once.
func TestOwnDump(t *testing.T) {
	r, ended := newRank(t, 2), newRank(t, 3)
	r.write(t, realDump(t))
	ended.write(t, realDump(t))
	os.Remove(ended.pipe)
	var n Node
	n.Set([]Target{r.Target, ended.Target})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if a := n.Collect(ctx); len(a.Dumps) != 2 || ctx.Err() != nil {
		t.Errorf("%+v, %v", a, ctx.Err())
	}
	ctx, cancel = context.WithTimeout(t.Context(), 5*pollInterval)
	defer cancel()
	if a := n.Collect(ctx); len(a.Dumps) != 0 || len(a.Missing) != 2 {
		t.Errorf("again: %+v", a)
	}
}

// TestStoppedRank checks that nothing is waited for where the process is stopped.
func TestStoppedRank(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r := newRank(t, 2)
	r.PID = cmd.Process.Pid
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !r.isStopped() && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // sleep: the kernel stops it soon
	}
	a := Collect(ctx, []Target{r.Target})
	if ctx.Err() != nil || len(a.Missing) != 1 || !strings.Contains(a.Missing[0].Why, "stopped, by SIGSTOP") {
		t.Errorf("%+v, %v", a, ctx.Err())
	}
}

// TestHostileFiles checks what stands in the place of a pipe or of a dump: it gets no byte,
// is not followed, and never makes the agent wait.
func TestHostileFiles(t *testing.T) {
	elsewhere := newRank(t, 1)
	for name, tt := range map[string]struct {
		make func(r *rank)
		why  string
	}{
		"no pipe":                 {func(r *rank) { os.Remove(r.pipe) }, "has made no pipe"},
		"a pipe without a reader": {func(r *rank) { os.Remove(r.pipe); _ = unix.Mkfifo(r.pipe, 0o600) }, "nothing reads its pipe"},
		"a file for a pipe":       {func(r *rank) { os.Remove(r.pipe); _ = os.WriteFile(r.pipe, []byte("keep"), 0o600) }, "is no pipe"},
		"a link for a pipe":       {func(r *rank) { os.Remove(r.pipe); _ = os.Symlink(elsewhere.pipe, r.pipe) }, "too many levels of symbolic links"},
		"a folder for a pipe":     {func(r *rank) { os.Remove(r.pipe); _ = os.Mkdir(r.pipe, 0o700) }, "is a directory"},
		"a link for a dump":       {func(r *rank) { r.onByte(t, func() { _ = os.Symlink("/etc/passwd", r.dump) }) }, "too many levels of symbolic links"},
		"a pipe for a dump":       {func(r *rank) { r.onByte(t, func() { _ = unix.Mkfifo(r.dump, 0o600) }) }, "no regular file"},
		"no pickle":               {func(r *rank) { r.onByte(t, func() { r.write(t, []byte("garbage")) }) }, "cannot be read"},
		"a pickle that calls": {func(r *rank) {
			r.onByte(t, func() { r.write(t, []byte("\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.")) })
		}, "cannot be read"},
		"a pipe full of questions": {func(r *rank) { fill(t, r.pipe); r.write(t, realDump(t)); r.seen = r.stamp() }, "wrote no dump in time"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRank(t, 4)
			tt.make(r)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			began := time.Now()
			a := Collect(ctx, []Target{r.Target})
			if len(a.Dumps) != 0 || len(a.Missing) != 1 || !strings.Contains(a.Missing[0].Why, tt.why) {
				t.Errorf("%+v", a)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("after %v", took)
			}
		})
	}
	if n, _ := unix.Read(elsewhere.fd, make([]byte, 1)); n > 0 {
		t.Error("a byte went through a link")
	}
}

// fill writes to a pipe until it takes no more.
func fill(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 4096))
	}
	for err = nil; err == nil; {
		_, err = unix.Write(fd, make([]byte, 1))
	}
}

// TestMakePipeFolder checks that a folder in which no pipe can be made is refused.
func TestMakePipeFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipes")
	for range 2 { // the second round finds it
		if err := MakePipeFolder(path); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := os.ReadDir(path); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if MakePipeFolder(filepath.Join(path, "no", "such")) == nil || MakePipeFolder("/proc/self/fdinfo") == nil {
		t.Error("a folder that takes no pipe is right")
	}
}

// TestNode checks that a node asks the ranks of its last round.
func TestNode(t *testing.T) {
	var n Node
	if a := n.Collect(t.Context()); len(a.Dumps)+len(a.Missing) > 0 {
		t.Errorf("%+v", a)
	}
	n.Set([]Target{{Rank: 8}, {Rank: 9}})
	got := n.Collect(t.Context()).Missing
	if !slices.EqualFunc(got, []int{8, 9}, func(m flight.Missing, rank int) bool { return m.Rank == rank }) {
		t.Errorf("%+v", got)
	}
}

// TestWaitForDumps checks that the wait ends with the last new dump, or with its time.
func TestWaitForDumps(t *testing.T) {
	var n Node
	r := newRank(t, 2)
	r.write(t, []byte("old"))
	n.Set([]Target{r.Target, {Rank: 3}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*pollInterval)
	defer cancel()
	n.WaitForDumps(ctx)
	if ctx.Err() == nil {
		t.Error("an old dump ends the wait")
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := poke(r.pipe); err != nil {
		t.Fatal(err)
	}
	r.onByte(t, func() {
		time.Sleep(3 * pollInterval) // sleep: the wait begins first
		r.write(t, []byte("a new dump"))
	})
	n.WaitForDumps(ctx)
	if ctx.Err() != nil {
		t.Error("a new dump does not end the wait")
	}
	if got := DumpValue(258); !slices.Equal(got, []byte{2, 1, 0, 0}) {
		t.Errorf("%v", got)
	}
}

// view returns the view of a job in which nodes answered.
func view(t *testing.T, answers ...any) []byte {
	t.Helper()
	v := rendezvous.View{RunID: "run"}
	for i, a := range answers {
		n := rendezvous.NodeView{Host: fmt.Sprint("node", i), GroupRank: i, Participation: "member"}
		if a != nil {
			body, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			n.Report, err = json.Marshal(status.Answer{Topic: status.TopicCollectives, Body: body})
			if err != nil {
				t.Fatal(err)
			}
		}
		v.Nodes = append(v.Nodes, n)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestJob checks that the answers of two nodes are compared together, and that a node
// without an answer, or with one that is not right, is named.
func TestJob(t *testing.T) {
	nodes := make([]flight.Answer, 2)
	for rank := range 4 {
		name := fmt.Sprint("../flight/testdata/grid-skip/dump_", rank)
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := flight.Read(name, f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Calls {
			d.Calls[i].For = 0
		}
		nodes[rank/2].Dumps = append(nodes[rank/2].Dumps, d.Tail(4))
	}
	nodes[1].Missing = []flight.Missing{{Rank: 7, Why: "no pipe"}, {Rank: 6, Why: "no pipe"}}
	j, err := DecodeJob(view(t, nodes[0], nodes[1], nil, "garbage"))
	if err != nil {
		t.Fatal(err)
	}
	if len(j.Causes) != 2 || !slices.Equal(j.Causes[0].Ranks, []int{2}) || j.Causes[0].Collective != "all_reduce number 7 of mesh_data" || len(j.Followers) != 1 || len(j.Silent) != 2 {
		t.Errorf("%+v", j)
	}
	var b strings.Builder
	if err := j.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `What ranks wait for now:
  rank 2 did not call all_reduce [1048576] Float, number 7 of mesh_data, in which rank 0 waits (backward (programs.py:145)); its last call there was all_reduce [1048576] Float, number 6 (backward (programs.py:145))
  rank 2 did not call all_reduce [1048576] Float, number 7 of mesh_tensor, in which rank 3 waits (forward (programs.py:141)); its last call there was all_reduce [1048576] Float, number 6 (forward (programs.py:141))
What follows from that:
  ranks 1 and 3 are both in all_reduce [1048576] Float, number 7 of mesh_data (backward (programs.py:145)), and it does not end
Where the ranks are:
  mesh_data: rank 2 ended all_reduce [1048576] Float, number 6 (backward (programs.py:145))
  mesh_data: rank 0 waits in all_reduce [1048576] Float, number 7 (backward (programs.py:145))
  mesh_data: ranks 1 and 3 wait in all_reduce [1048576] Float, number 7 (backward (programs.py:145))
  mesh_tensor: ranks 0 and 1 ended all_reduce [1048576] Float, number 7 (forward (programs.py:141))
  mesh_tensor: rank 2 ended all_reduce [1048576] Float, number 6 (forward (programs.py:141))
  mesh_tensor: rank 3 waits in all_reduce [1048576] Float, number 7 (forward (programs.py:141))
Without an answer:
  ranks 6 and 7: no pipe
`
	if got := b.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNoRecorder checks the text for a job whose ranks record nothing.
func TestNoRecorder(t *testing.T) {
	j, err := DecodeJob(view(t, flight.Answer{}))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := j.Write(&b); err != nil || b.String() != "no process group has been made yet\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
