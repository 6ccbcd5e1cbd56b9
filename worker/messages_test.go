package worker

import (
	"context"
	"testing"
	"time"
)

// TestRingBesideCollectives sends in a ring, with collectives between.
func TestRingBesideCollectives(t *testing.T) {
	for r, err := range ranks(t, 8, func(w *World, c *Comm) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, in := make([]float32, 2), make([]float32, 2)
		next, before := (c.Rank()+1)%8, (c.Rank()+7)%8
		n := []int64{0}
		for range 300 {
			for range 5 {
				if err := SendRecv(ctx, c, out, next, in, before); err != nil {
					return err
				}
			}
			if err := Broadcast(ctx, c, n, 0); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
