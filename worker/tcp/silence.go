package tcp

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

const (
	// silentTime is how long a peer's node may leave data unanswered. The kernel answers
	// also for a process that is stopped.
	silentTime = 10 * time.Second
	// silencePause is the time between two looks.
	silencePause = time.Second
)

// watchSilence breaks the mesh when a peer's node no longer answers what was sent to it. The
// kernel's keep-alive probes find that only on a connection without such data. There is a
// lane of messages to every peer, so the others need no look. A peer whose buffers are full
// answers: it may compute, or be in a debugger.
func (m *Mesh) watchSilence() {
	tick := time.NewTicker(silencePause)
	defer tick.Stop()
	since := map[*lane]time.Time{} // when data was first seen unanswered
	for {
		var now time.Time
		select {
		case <-m.life.Done():
			return
		case now = <-tick.C:
		}
		m.mu.Lock()
		lanes := m.lanes
		m.mu.Unlock()
		for _, l := range lanes {
			if l.id.collective {
				continue
			}
			last, unanswered := l.lastAnswer()
			first, seen := since[l]
			switch {
			case !unanswered || seen && last < now.Sub(first):
				delete(since, l)
			case !seen:
				since[l] = now
			case now.Sub(first) >= silentTime:
				m.Break(&collective.PeerError{Rank: l.id.rank, Err: fmt.Errorf("is gone: its node has not answered for %v", now.Sub(first).Round(time.Second))})
				return
			}
		}
	}
}
