package cuda

import (
	"syscall"
	"time"
)

// pause lets the thread sleep.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal ends it early, which does no harm
}
