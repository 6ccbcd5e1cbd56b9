package gpuwatch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/device"
)

func gpus() []device.GPU {
	all := []device.GPU{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}, {Index: 2, UUID: "GPU-c"}, {Index: 3, UUID: "GPU-d"}}
	all[2].Instances = []device.Instance{{UUID: "MIG-1", GI: new(1), CI: new(0)}, {UUID: "MIG-2", GI: new(2), CI: new(0)}}
	return all
}

func rank(n, pid int, gpus ...string) Rank {
	return Rank{Rank: n, PIDs: []int{pid, pid + 1}, GPUs: gpus}
}

// otherNodeRank returns a rank of another agent on this machine.
func otherNodeRank(n, pid int) Rank { return Rank{Rank: n, PIDs: []int{pid}, OtherNode: true} }

func TestCompare(t *testing.T) {
	const fix = ": call torch.cuda.set_device(LOCAL_RANK) or use --pin=exclusive"
	planned := []Rank{rank(2, 4700, "GPU-a"), rank(3, 4710, "GPU-d")}
	tests := []struct {
		name        string
		ranks       []Rank
		processes   string // uuid=pid, separated by blanks
		here        string // pids that exist here, besides the ranks' pids
		inContainer bool   // the test is in its own pid namespace
		want        []string
	}{
		{name: "as planned", ranks: planned, processes: "GPU-a=4700 GPU-d=4710"},
		{name: "no process yet", ranks: planned},
		{name: "a rank on another's GPU", ranks: planned, processes: "GPU-a=4700 GPU-a=4710", want: []string{
			"D01 rank 3 (pid 4710) runs on GPU 0, its own is GPU 3" + fix,
		}},
		{name: "a rank's child on another's GPU", ranks: planned, processes: "GPU-a=4711", want: []string{
			"D01 rank 3 (pid 4711) runs on GPU 0, its own is GPU 3" + fix,
		}},
		{name: "a rank on its own and another's GPU", ranks: planned, processes: "GPU-a=4710 GPU-d=4710", want: []string{
			"D01 rank 3 (pid 4710) also runs on GPU 0, its own is GPU 3" + fix,
		}},
		{name: "all on GPU 1, which belongs to no rank", ranks: planned, processes: "GPU-b=4700 GPU-b=4710", want: []string{
			"D01 rank 2 (pid 4700) runs on GPU 1, its own is GPU 0" + fix,
			"D01 rank 3 (pid 4710) runs on GPU 1, its own is GPU 3" + fix,
		}},
		{name: "nothing planned, one each", ranks: []Rank{rank(0, 10), rank(1, 20)}, processes: "GPU-b=10 GPU-a=20"},
		{name: "nothing planned, two on one", ranks: []Rank{rank(0, 10), rank(1, 20), rank(2, 30)}, processes: "GPU-b=10 GPU-b=11 GPU-b=20 GPU-b=30", want: []string{
			"D01 rank 0 (pid 10), rank 1 (pid 20) and rank 2 (pid 30) run on the same GPU 1" + fix,
		}},
		{name: "two on one, as planned", ranks: []Rank{rank(0, 10, "GPU-a"), rank(1, 20, "GPU-a")}, processes: "GPU-a=10 GPU-a=20"},
		{name: "two GPUs each", ranks: []Rank{rank(0, 10, "GPU-a", "GPU-b")}, processes: "GPU-a=10 GPU-b=10 GPU-d=10", want: []string{
			"D01 rank 0 (pid 10) also runs on GPU 3, its own is GPU 0, GPU 1" + fix,
		}},
		{name: "a MIG instance", ranks: []Rank{rank(0, 10, "MIG-1")}, processes: "MIG-1=10 GPU-c=10"},
		{name: "the other MIG instance", ranks: []Rank{rank(0, 10, "MIG-1")}, processes: "MIG-2=10", want: []string{
			"D01 rank 0 (pid 10) runs on MIG-2 of GPU 2, its own is MIG-1 of GPU 2" + fix,
		}},
		{name: "an unrelated process on a rank's GPU", ranks: planned, processes: "GPU-a=4700 GPU-d=99", here: "99", want: []string{
			"S01 pid 99 (p99), which does not belong to this job, runs on GPU 3, the GPU of rank 3, with 64 MiB of its memory: end it, or do not use that GPU",
		}},
		{name: "an unrelated process before any worker computes", ranks: planned, processes: "GPU-d=99", here: "99", want: []string{
			"S01 pid 99 (p99), which does not belong to this job, runs on GPU 3, the GPU of rank 3, with 64 MiB of its memory: end it, or do not use that GPU",
		}},
		{name: "a process of unknown relation", ranks: planned, processes: "GPU-d=98", here: "98", want: []string{
			"S01 pid 98 (p98) runs on GPU 3, the GPU of rank 3, with 64 MiB of its memory; gorun does not know whether it belongs to this job",
		}},
		{name: "ranks of another node on a rank's GPU, which their agent reports", ranks: append(planned[:2:2], otherNodeRank(4, 50), otherNodeRank(5, 60)), processes: "GPU-a=4700 GPU-a=50 GPU-a=60", here: "50 60"},
		{name: "nothing planned, a rank of another node on the same", ranks: []Rank{rank(0, 10), rank(1, 20), otherNodeRank(2, 50)}, processes: "GPU-b=10 GPU-b=50 GPU-a=20", here: "50", want: []string{
			"D01 rank 0 (pid 10) and rank 2 (pid 50) run on the same GPU 1" + fix,
		}},
		{name: "nothing planned, only ranks of another node", ranks: []Rank{rank(0, 10), otherNodeRank(2, 50), otherNodeRank(3, 60)}, processes: "GPU-b=50 GPU-b=60 GPU-a=10", here: "50 60"},
		{name: "an unrelated process on no rank's GPU", ranks: planned, processes: "GPU-b=99", here: "99"},
		{name: "an unrelated process that has ended", ranks: planned, processes: "GPU-a=4700 GPU-d=99"},
		{name: "the MPS server", ranks: planned, processes: "GPU-a=7", here: "7"},
		{name: "a container", ranks: planned, processes: "GPU-a=70001 GPU-d=99", here: "99", inContainer: true, want: []string{
			" gorun cannot check which worker runs on which GPU: the driver lists the pids of the machine, and this container has its own pids; start it with --pid=host",
		}},
		{name: "a container whose driver translates", ranks: planned, processes: "GPU-a=4710 GPU-d=70001", inContainer: true, want: []string{
			"D01 rank 3 (pid 4710) runs on GPU 0, its own is GPU 3" + fix,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := view{GPUs: gpus(), Ranks: tt.ranks, HostPIDs: !tt.inContainer, Unrelated: map[int]bool{99: true}, Name: func(pid int) string {
				if pid == 7 {
					return "nvidia-cuda-mps"
				}
				if strings.Contains(" "+tt.here+" ", fmt.Sprintf(" %d ", pid)) {
					return fmt.Sprintf("p%d", pid)
				}
				return ""
			}}
			for _, h := range strings.Fields(tt.processes) {
				uuid, pid, _ := strings.Cut(h, "=")
				n := 0
				fmt.Sscan(pid, &n)
				v.Processes = append(v.Processes, device.Process{UUID: uuid, PID: n, MemMiB: 64})
			}
			var c comparer
			var got []string
			for _, f := range c.compare(v) {
				got = append(got, f.ID+" "+f.Text)
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if again := c.compare(v); len(again) > 0 {
				t.Errorf("reported again: %+v", again)
			}
		})
	}
}

func TestExplainEvent(t *testing.T) {
	ranks := []Rank{rank(4, 10, "GPU-a"), rank(5, 20, "MIG-1"), rank(6, 30, "MIG-2"), rank(7, 40, "GPU-d"), rank(8, 50, "GPU-d")}
	tests := []struct {
		name     string
		event    device.Event
		ranks    []Rank
		text     string // "": the event means nothing to the job
		critical bool
	}{
		{"off the bus", device.Event{Kind: device.Xid, UUID: "GPU-a", Code: 79}, ranks, "GPU 0 (GPU-a) of rank 4: Xid 79: the GPU has fallen off the bus", true},
		{"shared", device.Event{Kind: device.DoubleBit, UUID: "GPU-d"}, ranks, "GPU 3 (GPU-d) of ranks 7 8: double-bit ECC error of the memory: data is lost", true},
		{"lost", device.Event{Kind: device.Lost, UUID: "GPU-a", Text: "GPU is lost"}, ranks, "GPU 0 (GPU-a) of rank 4: the driver no longer reaches it (GPU is lost)", true},
		{"a program's error", device.Event{Kind: device.Xid, UUID: "GPU-a", Code: 31}, ranks, "GPU 0 (GPU-a) of rank 4: Xid 31: GPU memory page fault: an access to an address that is not mapped", false},
		{"an Xid that is not known", device.Event{Kind: device.Xid, UUID: "GPU-a", Code: 9999}, ranks, "GPU 0 (GPU-a) of rank 4: Xid 9999: an error that gorun does not know", false},
		{"one MIG instance", device.Event{Kind: device.Xid, UUID: "GPU-c", Code: 94, GI: new(2), CI: new(0)}, ranks, "GPU 2 (GPU-c) of rank 6: Xid 94: memory error, contained: only the program that used that memory is affected", true},
		{"a GPU with MIG instances", device.Event{Kind: device.Xid, UUID: "GPU-c", Code: 95}, ranks, "GPU 2 (GPU-c) of ranks 5 6: Xid 95: memory error, uncontained: every program on the GPU is affected", true},
		{"a GPU of no rank", device.Event{Kind: device.Xid, UUID: "GPU-b", Code: 79}, ranks, "", false},
		{"nothing planned", device.Event{Kind: device.Xid, UUID: "GPU-b", Code: 79}, []Rank{rank(0, 10)}, "GPU 1 (GPU-b): Xid 79: the GPU has fallen off the bus", true},
		{"which one is not known", device.Event{Kind: device.Xid, Code: 79}, ranks, "a GPU of this node: Xid 79: the GPU has fallen off the bus", true},
		{"no error", device.Event{Kind: device.Heartbeat}, ranks, "", false},
	}
	for _, tt := range tests {
		f, ok := explainEvent(tt.event, gpus(), tt.ranks)
		if ok != (tt.text != "") || ok && (f.Text != tt.text || f.Fix == "") || f.Critical != tt.critical {
			t.Errorf("%s: %+v, %v; want %q, critical %v", tt.name, f, ok, tt.text, tt.critical)
		}
	}
}

func TestCriticalXids(t *testing.T) {
	for _, code := range []uint64{48, 64, 74, 79, 94, 95, 119, 120, 140, 144, 149} {
		if x := explainXid(code); !x.critical {
			t.Errorf("Xid %d is not critical: %+v", code, x)
		}
	}
	for _, code := range []uint64{13, 31, 43, 45, 63, 68, 92, 109, 154, 0, 1 << 40} { // errors of programs, or only advice
		if x := explainXid(code); x.critical || x.text == "" || x.fix == "" {
			t.Errorf("Xid %d is critical or empty: %+v", code, x)
		}
	}
}
