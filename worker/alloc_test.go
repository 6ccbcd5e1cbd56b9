package worker

import (
	"context"
	"fmt"
	"log"
	"math"
	"testing"
)

// TestAlloc reduces shared buffers, cut ones, and a mixture with those of the heap.
func TestAlloc(t *testing.T) {
	errs := node(t, 3, -1, func(w *World, c *Comm) error {
		buf, err := Alloc[float32](c, 10_000)
		if err != nil {
			return err
		}
		for _, part := range [][]float32{buf, buf[2:40], buf[1:40], buf[100:7000], mixed(w, buf)} {
			for i := range part {
				part[i] = float32(w.Rank() + i)
			}
			if err := AllReduce(t.Context(), c, part, Sum); err != nil {
				return err
			}
			for i, v := range part {
				if want := float32(3 + 3*i); v != want {
					return fmt.Errorf("element %d of %d is %v, want %v", i, len(part), v, want)
				}
			}
		}
		if _, err := Alloc[float64](c, math.MaxInt/16); err == nil {
			return fmt.Errorf("allocated more than there is")
		}
		if _, err := Alloc[float64](c, -1); err == nil {
			return fmt.Errorf("allocated less than nothing")
		}
		if err := Free(c, buf); err != nil {
			return err
		}
		if Free(c, buf) == nil {
			return fmt.Errorf("freed twice")
		}
		return nil
	})
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// mixed returns buf on rank 0 and a slice of the heap elsewhere.
func mixed(w *World, buf []float32) []float32 {
	if w.Rank() == 0 {
		return buf
	}
	return make([]float32, len(buf))
}

func TestAllocWithoutSharedMemory(t *testing.T) {
	w := start(t, Settings{Size: 1})
	c, err := w.Comm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	buf, err := Alloc[int8](c, 7)
	if err != nil || len(buf) != 7 {
		t.Fatalf("got %v, %v", buf, err)
	}
	if err := Free(c, buf); err != nil {
		t.Error(err)
	}
	for _, n := range []int{-1, math.MaxInt, math.MaxInt / 8} {
		if buf, err := Alloc[float64](c, n); err == nil {
			t.Errorf("allocated %d elements of %d", len(buf), n)
		}
	}
	if _, err := Alloc[int8](nil, 7); err == nil {
		t.Error("a nil Comm allocates")
	}
}

// Gradients that are reduced in each step are worth memory that the ranks share.
func ExampleAlloc() {
	ctx := context.Background()
	w, err := Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	c, err := w.Comm(ctx)
	if err != nil {
		log.Fatal(err)
	}
	gradients, err := Alloc[float32](c, 1_000_000)
	if err != nil {
		log.Fatal(err)
	}
	gradients[0] = 1 // the backward pass writes here
	if err := AllReduce(ctx, c, gradients, Avg); err != nil {
		log.Fatal(err)
	}
	fmt.Println(gradients[0])
	// Output: 1
}
