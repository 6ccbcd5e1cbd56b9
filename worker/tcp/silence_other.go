//go:build !linux || 386 || s390x

package tcp

import "time"

// lastAnswer is unknown on this system.
func (l *lane) lastAnswer() (ago time.Duration, unanswered bool) { return 0, false }
