package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestCallsWakeOnTheCause checks that a call whose peer is gone returns the agent's cause as
// soon as it comes, and the peer's end if none comes in time.
func TestCallsWakeOnTheCause(t *testing.T) {
	const soon = 3 * time.Millisecond
	for name, tc := range map[string]struct {
		agent *agent
		cause bool
		took  time.Duration
	}{
		"the cause comes":   {&agent{}, true, soon},
		"no cause comes":    {&agent{}, false, causeTime},
		"there is no agent": {nil, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &World{agent: tc.agent}
				w.ctx, w.end = context.WithCancelCause(t.Context())
				defer w.end(ErrClosed)
				abort := aborted(nil)
				if tc.cause {
					time.AfterFunc(soon, func() { w.end(abort) })
				}
				began := time.Now()
				err := (&Comm{w: w}).outcome(&PeerError{Rank: 1, Err: errors.New("is gone")})
				if took := time.Since(began); took != tc.took {
					t.Errorf("it took %v, want %v", took, tc.took)
				}
				if _, isPeer := errors.AsType[*PeerError](err); isPeer == tc.cause || errors.Is(err, ErrAborted) != tc.cause {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
