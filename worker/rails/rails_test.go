package rails

import (
	"reflect"
	"testing"
)

func TestLayoutOf(t *testing.T) {
	nodes := []uint64{7, 7, 9, 7, 9, 5}
	all := [][]int{{0, 1, 3}, {2, 4}, {5}}
	for rank, want := range []Layout{
		{Node: all[0], Local: 0, Rail: []int{0, 2, 5}},
		{Node: all[0], Local: 1},
		{Node: all[1], Local: 0, Rail: []int{0, 2, 5}},
		{Node: all[0], Local: 2},
		{Node: all[1], Local: 1},
		{Node: all[2], Local: 0, Rail: []int{0, 2, 5}},
	} {
		want.Rails, want.Nodes = 1, all
		if got := LayoutOf(nodes, rank); !reflect.DeepEqual(got, want) {
			t.Errorf("rank %d: got %+v, want %+v", rank, got, want)
		}
	}
	if got := LayoutOf([]uint64{1, 2, 1, 2}, 3); got.Rails != 2 || !reflect.DeepEqual(got.Rail, []int{2, 3}) {
		t.Errorf("got %+v", got)
	}
}
