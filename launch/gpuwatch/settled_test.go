package gpuwatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitForSettled checks that the GPUs are not read until the store says that the
// workers have met, or until half an hour has passed.
func TestWaitForSettled(t *testing.T) {
	tests := map[string]struct {
		when time.Duration // when they have met; 0: never
		end  time.Duration // end of the round; 0: it runs on
		want time.Duration
		goes bool
	}{
		"soon":            {when: 12 * time.Second, want: 15 * time.Second, goes: true},
		"late":            {when: 20 * time.Minute, want: 20 * time.Minute, goes: true},
		"never":           {want: settleLimit, goes: true},
		"the round ends":  {end: 7 * time.Second, want: 7 * time.Second},
		"nothing answers": {want: settleLimit, goes: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.end > 0 {
					time.AfterFunc(tt.end, cancel)
				}
				start := time.Now()
				goes := waitForSettled(ctx, func(ctx context.Context) (bool, error) {
					if name == "nothing answers" {
						<-ctx.Done()
						return false, errors.New("no answer")
					}
					return tt.when > 0 && time.Since(start) >= tt.when, nil
				})
				if took := time.Since(start); goes != tt.goes || took != tt.want {
					t.Errorf("%v after %v, want %v after %v", goes, took, tt.goes, tt.want)
				}
			})
		})
	}
}
