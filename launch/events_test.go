package launch

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestRepeatedSignals checks that signals of one kind within two seconds are one
// under Slurm, and that every signal counts elsewhere.
func TestRepeatedSignals(t *testing.T) {
	begin := time.Now()
	slurm, user := signalFilter{within: repeatedWithin}, signalFilter{}
	person := signalFilter{within: repeatedWithin, person: true}
	for i, repeat := range []bool{false, true} {
		if person.isRepeated(syscall.SIGINT, begin) || person.isRepeated(syscall.SIGTERM, begin) != repeat {
			t.Errorf("signals %d at a terminal: only SIGINT counts each time", i)
		}
	}
	for i, tt := range []struct {
		sig    os.Signal
		after  time.Duration
		repeat bool
	}{
		{syscall.SIGTERM, 0, false},
		{syscall.SIGTERM, time.Second, true},
		{syscall.SIGUSR1, time.Second, false},
		{syscall.SIGTERM, 1900 * time.Millisecond, true},
		{syscall.SIGTERM, 2100 * time.Millisecond, false}, // a third one, after the first
		{syscall.SIGTERM, 4 * time.Second, true},
	} {
		if got := slurm.isRepeated(tt.sig, begin.Add(tt.after)); got != tt.repeat {
			t.Errorf("signal %d under Slurm: %v", i, got)
		}
		if user.isRepeated(tt.sig, begin.Add(tt.after)) {
			t.Errorf("signal %d of a user is a repetition", i)
		}
	}
}
