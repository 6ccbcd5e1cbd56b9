package launch

import "time"

// pace spaces the lines of a wait that goes on: after 5, 10 and 20 seconds, then
// every 30. A change has its line at once (restart).
type pace struct {
	last  time.Time // of the last line, or when the wait began
	lines int
}

// pauses lie between two lines of the same wait.
var pauses = [...]time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}

const (
	// looks is the time between two calls of due, about.
	looks = time.Second
	// slack: the next look after 4.5 s is in time, the one after 5 s is not.
	slack = looks / 2
)

// due reports whether a line is due, and counts it.
func (p *pace) due(now time.Time) bool {
	if now.Sub(p.last) < pauses[min(p.lines, len(pauses)-1)]-slack {
		return false
	}
	p.last = now
	p.lines++
	return true
}

// restart begins the pauses anew: a line of another state stands there now.
func (p *pace) restart(now time.Time) { *p = pace{last: now} }
