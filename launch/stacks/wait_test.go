package stacks

import (
	"fmt"
	"testing"
)

// in returns the stack of a rank in a function of torch.distributed; "" stands for none.
func in(rank int, call string, line int) RankStack {
	s := Stack{Rank: rank, Frames: []Frame{{Func: "step", File: "/home/u/train.py", Line: line, Own: true}}}
	if call != "" {
		s.Frames = append([]Frame{{Func: call, File: "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", Line: 1}}, s.Frames...)
	}
	return RankStack{"n", s}
}

func TestWait(t *testing.T) {
	stopped := in(1, "all_reduce", 88)
	stopped.Kernel.State = "T"
	for _, tc := range []struct {
		name  string
		ranks []RankStack
		want  string // waiting, ranks, call, at, other
	}{
		{"one elsewhere", []RankStack{in(0, "all_reduce", 88), in(1, "", 13), in(2, "all_reduce", 88)}, "[0 2] [1] all_reduce train.py:88 "},
		{"one stopped in it", []RankStack{in(0, "all_reduce", 88), stopped}, "[0] [1] all_reduce train.py:88 "},
		{"another collective", []RankStack{in(0, "all_reduce", 88), in(1, "broadcast", 90), in(2, "all_reduce", 88)}, "[0 2] [1] all_reduce train.py:88 broadcast"},
		{"of two the first is right", []RankStack{in(0, "barrier", 88), in(1, "broadcast", 90)}, "[0] [1] barrier train.py:88 broadcast"},
		{"a receive", []RankStack{in(0, "all_reduce", 88), in(1, "recv", 90), in(2, "all_reduce", 88)}, "[0 2] [1] all_reduce train.py:88 recv"},
		{"another line", []RankStack{in(0, "all_reduce", 88), in(1, "all_reduce", 99), in(2, "all_reduce", 88)}, "[0 2] [1] all_reduce train.py:88 all_reduce"},
		{"all in one", []RankStack{in(0, "all_reduce", 88), in(1, "all_reduce", 88)}, "none"},
		{"only messages", []RankStack{in(0, "recv", 88), in(1, "send", 90)}, "none"},
		{"in none", []RankStack{in(0, "", 88), in(1, "", 90)}, "none"},
		{"no ranks", nil, "none"},
	} {
		j := Job{Ranks: tc.ranks}
		got := "none"
		if w, ok := j.Wait(); ok {
			got = fmt.Sprint(w.Waiting, " ", w.Ranks, " ", w.Call, " ", w.At, " ", w.Other)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
