package place

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gorun/gorun/launch/device"
)

// TestCount checks that the answer with which the workers were counted is not asked
// for again.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		of     string
		each   int
		agents int
		want   int
	}{
		{"gpu", 0, 0, 5}, {"auto", 0, 0, 5}, {"gpu", 2, 0, 2}, {"gpu", 0, 2, 2}, {"gpu", 2, 2, 1}, {"gpu", 3, 2, 0}, {"gpu", 6, 0, 0},
	} {
		var asked int
		cfg := config(driver{gpus: gpus(5), lists: &asked}, Options{PerWorker: c.each, ByGPU: true})
		cfg.Agents = c.agents
		p := NewPlacement(cfg)
		if _, err := p.AskDriver(t.Context(), c.of); err != nil {
			t.Fatal(err)
		}
		n, err := p.Count(c.of)
		if n != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
		p.Make(t.Context(), Workers{Count: c.want})
		if err := p.Err(); c.want > 0 && err != nil || asked != 1 || !p.Plan().Inventory.Known {
			t.Errorf("%+v: %v, asked %d times", c, err, asked)
		}
	}
	p := NewPlacement(config(driver{absent: true}, Options{}))
	if notes, err := p.AskDriver(t.Context(), "auto"); notes != nil || err != nil {
		t.Errorf("no driver: %q, %v", notes, err)
	}
	if n, err := p.Count("auto"); err != nil || n < 1 {
		t.Errorf("CPUs: %d, %v", n, err)
	}
	if _, err := p.Count("gpu"); err == nil {
		t.Error("no GPU is no error")
	}
	p = NewPlacement(config(driver{gpus: gpus(1)}, Options{}, "CUDA_VISIBLE_DEVICES=0,9"))
	if notes, err := p.AskDriver(t.Context(), "gpu"); len(notes) != 1 || err != nil {
		t.Errorf("%q, %v", notes, err)
	}
	if p.Make(t.Context(), Workers{Count: 1}); len(p.Plan().Notes) > 0 {
		t.Errorf("a note is repeated: %q", p.Plan().Notes)
	}
	p = NewPlacement(config(driver{err: errors.New("it hangs")}, Options{}))
	if _, err := p.AskDriver(t.Context(), "gpu"); err == nil || err.Error() != "--nproc-per-node gpu: it hangs" {
		t.Error(err)
	}
}

// TestWaitForPlan checks that the wait for a plan ends with its context.
func TestWaitForPlan(t *testing.T) {
	if !device.Linked {
		t.Skip("built without NVML")
	}
	p := NewPlacement(config(driver{gpus: gpus(2)}, Options{Mode: Exclusive}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx); p.IsDone() || !errors.Is(err, context.Canceled) || p.VariableNames(ctx) != nil {
		t.Errorf("done %v, %v", p.IsDone(), err)
	}
	p.Make(t.Context(), Workers{Count: 2})
	if err := p.Wait(t.Context()); !p.IsDone() || err != nil || !p.UsesGPUs() {
		t.Errorf("done %v, %v", p.IsDone(), err)
	}
	if got := p.VariableNames(t.Context()); !slices.Equal(got, Names()) {
		t.Errorf("names %q, want %q", got, Names())
	}
	p = NewPlacement(config(driver{absent: true}, Options{}))
	p.Make(t.Context(), Workers{Count: 2})
	if p.UsesGPUs() || p.VariableNames(t.Context()) != nil {
		t.Error("a node without a driver uses GPUs")
	}
}
