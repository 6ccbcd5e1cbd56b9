//go:build !linux

package cuda

import "time"

// pause lets the goroutine sleep.
func pause(d time.Duration) { time.Sleep(d) }
