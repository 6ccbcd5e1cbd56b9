package stacks

import (
	"slices"
	"testing"
)

func waiting(rank int) Stack {
	return Stack{Rank: rank, Frames: []Frame{
		{Func: "all_reduce", File: "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", Line: 1534},
		{Func: "step", File: "/home/u/train.py", Line: 88, Own: true},
		{Func: "<module>", File: "/home/u/train.py", Line: 99, Own: true},
	}}
}

func TestGroupStacks(t *testing.T) {
	var all []Stack
	for rank := range 32 {
		if rank != 5 {
			all = append(all, waiting(rank))
		}
	}
	all = append(all, Stack{Rank: 5, Frames: []Frame{{Func: "load_data", File: "/home/u/data.py", Line: 13, Own: true}}})
	var got []string
	for _, g := range GroupStacks(all) {
		got = append(got, g.String())
	}
	want := []string{"rank 5 in load_data at data.py:13", "31 ranks in all_reduce at train.py:88 (0-4, 6-31)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestPlaceString(t *testing.T) {
	own := Frame{Func: "load_data", File: "/home/u/data.py", Line: 13, Own: true}
	for _, tc := range []struct {
		stack Stack
		want  string
	}{
		{Stack{Frames: []Frame{own}, Kernel: Kernel{State: "S", Syscall: "futex"}}, "in load_data at data.py:13"},
		{Stack{Frames: []Frame{own}, Kernel: Kernel{State: "T"}}, "stopped by a signal (kill -CONT lets it go on), in load_data at data.py:13"},
		{Stack{Kernel: Kernel{State: "S", Syscall: "read", On: "/tmp/fifo"}}, "waiting in read of /tmp/fifo"},
		{Stack{Kernel: Kernel{State: "D", Wchan: "nfs_wait"}}, "waiting in the kernel's nfs_wait, which nothing can interrupt"},
		{Stack{Frames: []Frame{{Func: "<module>", File: "a.py", Line: 3, Own: true}}}, "at a.py:3"},
		{Stack{Frames: []Frame{{Func: "backward", File: "/x/site-packages/torch/autograd/__init__.py", Line: 3}, own}}, "in backward at data.py:13"},
		{Stack{Frames: []Frame{{Func: "wait", File: "/usr/lib/python3.11/threading.py", Line: 3}}}, "in wait at threading.py:3"},
		{Stack{}, "at a place that is not known"},
	} {
		if got := tc.stack.Place().String(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestWhere(t *testing.T) {
	own := []Frame{{Func: "load_data", File: "/home/u/data.py", Line: 13, Own: true}}
	for _, tc := range []struct {
		stack Stack
		want  string
	}{
		{Stack{Frames: own, Kernel: Kernel{State: "S", Syscall: "futex"}}, "load_data (data.py:13)"},
		{Stack{Frames: own, Kernel: Kernel{State: "T"}}, "load_data (data.py:13), stopped by a signal (kill -CONT lets it go on)"},
		{Stack{Frames: own, Helper: &Stack{PID: 7, Frames: own}}, "load_data (data.py:13), and waits for its process 7 in load_data (data.py:13)"},
		{Stack{Kernel: Kernel{State: "S", Syscall: "read", On: "/tmp/fifo"}}, "the system call read of /tmp/fifo"},
		{Stack{Kernel: Kernel{State: "T"}}, "no call: it is stopped by a signal (kill -CONT lets it go on)"},
		{Stack{}, ""},
	} {
		if got := tc.stack.Where(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestFormatRanks(t *testing.T) {
	var odd []int
	for i := 1; i < 100; i += 2 {
		odd = append(odd, i)
	}
	for want, ranks := range map[string][]int{
		"0-4, 6": {0, 1, 2, 3, 4, 6},
		"":       nil,
		"7":      {7},
		"1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23 and 38 more": odd,
	} {
		if got := FormatRanks(ranks); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFit checks that the stacks of many ranks have room in an answer, and still say where
// the ranks are.
func TestFit(t *testing.T) {
	for _, ranks := range []int{8, 512} {
		var all []Stack
		for rank := range ranks {
			s := waiting(rank)
			for range maxFrames {
				s.Frames = append(s.Frames, Frame{Func: "f", File: "/home/u/a/rather/long/path/to/the/program/train.py", Line: 7, Own: true})
			}
			s.trim(shownFrames)
			all = append(all, s)
		}
		groups := GroupStacks(fit(all))
		if len(groups) != 1 || groups[0].Func != "step" || groups[0].Call != "all_reduce" {
			t.Errorf("%d ranks: %v", ranks, groups)
		}
	}
}
