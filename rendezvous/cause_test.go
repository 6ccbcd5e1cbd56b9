package rendezvous

import (
	"syscall"
	"testing"
)

// TestIsTransient checks after which causes a job may be queued again.
func TestIsTransient(t *testing.T) {
	transient := map[Kind]bool{KindLost: true, KindGPU: true, KindRendezvous: true, KindAgent: true}
	for _, k := range []Kind{
		KindExit, KindSignal, KindReport, KindStart, KindLost, KindStopped, KindAborted, KindRendezvous,
		KindPreflight, KindGPU, KindAgent,
	} {
		for _, sig := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
			want := transient[k] || (k == KindStopped || k == KindSignal) && sig == syscall.SIGTERM
			if got := (&Cause{Kind: k, Signal: sig}).IsTransient(); got != want {
				t.Errorf("%s, %v: %v", k, sig, got)
			}
		}
	}
}
