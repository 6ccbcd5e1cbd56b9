package place

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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

// TestSurveyStartsBeforeTheCount checks that the survey runs beside the count, that Make
// uses its answer, and that GPUs of which only the survey knows more are found out.
func TestSurveyStartsBeforeTheCount(t *testing.T) {
	inMIGMode := gpus(3)
	inMIGMode[2].MIG = new(true)
	other := gpus(3)
	other[1].UUID = "GPU-other"
	for _, c := range []struct {
		name   string
		driver driver
		err    string
		notes  int
		owned  []string
	}{
		{"the same", driver{gpus: gpus(3)}, "", 0, []string{"GPU-0", "GPU-1", "GPU-2"}},
		{"a GPU in MIG mode", driver{gpus: inMIGMode, files: gpus(3)}, "3 GPUs are visible by the driver's files, and 2 by its library: 1 of the node's 3 GPUs are in MIG mode", 1, nil},
		{"another GPU", driver{gpus: other, files: gpus(3)}, "", 0, []string{"GPU-0", "GPU-other", "GPU-2"}},
		{"no library", driver{err: errors.New("sick"), files: gpus(3)}, "", 0, []string{"GPU-0", "GPU-1", "GPU-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lists, surveys int
			c.driver.lists, c.driver.surveys = &lists, &surveys
			var wait sync.WaitGroup
			p := NewPlacement(config(c.driver, Options{ByGPU: true}))
			p.StartSurvey(t.Context(), &wait)
			if _, err := p.AskDriver(t.Context(), "gpu"); err != nil {
				t.Fatal(err)
			}
			n, err := p.Count("gpu")
			if n != 3 || err != nil {
				t.Fatalf("%d workers, %v", n, err)
			}
			p.Make(t.Context(), Workers{Count: n, Facts: true})
			wait.Wait()
			if err := p.Err(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if plan := p.Plan(); !slices.Equal(plan.Owned(), c.owned) || len(plan.Inventory.Visibility.Notes) != c.notes || !plan.Inventory.Survey.Driver {
				t.Errorf("owned %q, notes %q, survey %v", plan.Owned(), plan.Inventory.Visibility.Notes, plan.Inventory.Survey)
			}
			if lists != 1 || surveys != 1 {
				t.Errorf("asked %d and %d times", lists, surveys)
			}
		})
	}
}

// TestSurveyEndsWithItsContext checks that Make does not wait for a driver that hangs
// once the job ends.
func TestSurveyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := NewPlacement(config(driver{gpus: gpus(1)}, Options{}))
	p.Driver = surveyed{p.Driver, nil}
	cancel()
	p.Make(ctx, Workers{Count: 1, Facts: true})
	if s := p.Plan().Inventory.Survey; !errors.Is(s.Err, context.Canceled) || !s.Driver {
		t.Errorf("survey %+v", s)
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
