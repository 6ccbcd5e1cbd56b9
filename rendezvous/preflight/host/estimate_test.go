package host

import "testing"

func TestEstimates(t *testing.T) {
	for _, c := range []struct {
		load  Load
		files int64
		shm   int64
	}{
		{Load{}, 0, 0},
		{Load{Ranks: 1, Local: 1}, 4, 0},
		{Load{Ranks: 8, Local: 8}, 32, 8 * 2 * segmentBytes},
		{Load{Ranks: 256, Local: 8, Channels: 8}, 1024 + 16*248, 8 * 8 * segmentBytes},
		{Load{Ranks: 1024, Local: 8, Channels: 16}, 4096 + 32*1016, 8 * 16 * segmentBytes},
		{Load{Ranks: 2, Local: 8}, 8, 8 * 2 * segmentBytes}, // nonsense gives no negative need
	} {
		if got := c.load.Files(); got != c.files {
			t.Errorf("%+v: %d files, want %d", c.load, got, c.files)
		}
		if got := c.load.SHM(); got != c.shm {
			t.Errorf("%+v: %d bytes, want %d", c.load, got, c.shm)
		}
	}
	// The advised limits cover the estimates for the jobs that the table names.
	for _, l := range []Load{
		{Ranks: 64, Local: 8, Channels: 16},
		{Ranks: 1024, Local: 8, Channels: 16},
		{Ranks: 8192, Local: 8, Channels: 16},
	} {
		if l.Files() > FilesWanted(l.Ranks) {
			t.Errorf("%+v: %d files, advised %d", l, l.Files(), FilesWanted(l.Ranks))
		}
	}
	for ranks, want := range map[int]int64{1: 65536, 64: 65536, 65: 131072, 1024: 131072, 1025: 1048576} {
		if got := FilesWanted(ranks); got != want {
			t.Errorf("%d ranks: %d, want %d", ranks, got, want)
		}
	}
	if got := (Load{Local: 8}).Threads(); got != 8*64 {
		t.Errorf("%d threads", got)
	}
}
