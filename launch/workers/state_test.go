package workers

import (
	"slices"
	"strings"
	"testing"
)

func TestTransition(t *testing.T) {
	states := []state{stateIdle, stateStarting, stateRunning, stateFailed, stateDone, stateStopping, stateStopped}
	const no = "refused"
	tests := []struct {
		event event
		after []string // the state after the event, for each state
	}{
		{eventStart, []string{"starting", no, no, no, no, no, no}},
		{eventStarted, []string{no, "running", no, "failed", no, "stopping", "stopped"}},
		{eventSucceeded, []string{no, no, "done", no, no, no, no}},
		{eventFailure, []string{no, "failed", "failed", "failed", "failed", "stopping", "stopped"}},
		{eventStop, []string{no, "stopping", "stopping", "stopping", "stopping", "stopping", "stopped"}},
		{eventOver, []string{no, no, no, no, no, "stopped", no}},
	}
	for _, tt := range tests {
		var after []string
		for _, s := range states {
			next, err := transition(s, tt.event)
			switch {
			case err == nil:
				after = append(after, next.String())
			case next != s || !strings.Contains(err.Error(), "internal error"):
				t.Errorf("%v in %v: %v, %v", tt.event, s, next, err)
			default:
				after = append(after, no)
			}
		}
		if !slices.Equal(after, tt.after) {
			t.Errorf("%v leads to %q, want %q", tt.event, after, tt.after)
		}
	}
}
