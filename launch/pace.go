package launch

import "time"

// pace says when a person is told again of a wait that goes on: after 5, 10 and 20
// seconds, then every 30. What changes is told at once (again).
type pace struct {
	last time.Time // told, or when the wait began
	told int
}

// pauses are between two times that the same is told.
var pauses = [...]time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}

const (
	// looks is how often pace is asked, about.
	looks = time.Second
	// slack: the next look after 4.5 s is in time, the one after 5 s is not.
	slack = looks / 2
)

// due reports whether it is time to tell, which then is done.
func (p *pace) due(now time.Time) bool {
	if now.Sub(p.last) < pauses[min(p.told, len(pauses)-1)]-slack {
		return false
	}
	p.last = now
	p.told++
	return true
}

// again begins anew: something else is told now.
func (p *pace) again(now time.Time) { *p = pace{last: now} }
