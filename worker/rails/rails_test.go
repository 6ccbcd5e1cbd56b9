package rails

import (
	"reflect"
	"testing"
)

func TestLayoutOf(t *testing.T) {
	nodes := []uint64{7, 7, 9, 7, 9, 5}
	all := [][]int{{0, 1, 3}, {2, 4}, {5}}
	spots := []Spot{{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {2, 0}}
	for rank, rail := range [][]int{{0, 2, 5}, nil, {0, 2, 5}, nil, nil, {0, 2, 5}} {
		want := Layout{Nodes: all, Spots: spots, Rails: 1, Rail: rail, Spot: spots[rank]}
		if got := LayoutOf(nodes, rank); !reflect.DeepEqual(got, want) {
			t.Errorf("rank %d: got %+v, want %+v", rank, got, want)
		}
	}
	if got := LayoutOf([]uint64{1, 2, 1, 2}, 3); got.Rails != 2 || !reflect.DeepEqual(got.Rail, []int{2, 3}) {
		t.Errorf("got %+v", got)
	}
}
