package rendezvous

import (
	"container/heap"
	"time"
)

type simEvent struct {
	at  time.Time
	seq int
	do  func()
}

// simQueue is a heap of what is to happen, in the order of time and insertion.
type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }

func (q simQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}

func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *simQueue) Push(e any) { *q = append(*q, e.(simEvent)) }

func (q *simQueue) Pop() any {
	n := len(*q) - 1
	e := (*q)[n]
	*q = (*q)[:n]
	return e
}

func (s *sim) after(d time.Duration, do func()) {
	s.queued++
	heap.Push(&s.queue, simEvent{s.now.Add(d), s.queued, do})
}

// rouse sees to it that the agent gets the Tick that it asks for.
func (s *sim) rouse(a *simAgent) {
	next := a.m.Next()
	if a.outcome != nil || next.IsZero() || !a.wake.IsZero() && !next.Before(a.wake) && a.wake.After(a.clock(s)) {
		return
	}
	a.wake = next
	s.after(max(0, next.Sub(a.clock(s))), func() {
		if !a.wake.Equal(next) {
			return // asked for another time since
		}
		a.wake = time.Time{}
		if !a.crashed && a.outcome == nil {
			s.tick(a)
		}
	})
}

// tick is a Tick at the agent's own time, never an earlier one.
func (s *sim) tick(a *simAgent) {
	if a.frozen {
		return // it gets one when it thaws
	}
	s.step(a, Tick{})
	if a.wake.IsZero() {
		s.rouse(a)
	}
}

// maxSteps is the number of events at one instant of which a schedule has none.
const maxSteps = 2000

// over reports whether every agent has ended.
func (s *sim) over() bool {
	for _, a := range s.agents {
		if !a.crashed && a.outcome == nil {
			return false
		}
	}
	return true
}

// run plays the queue until it is empty, every agent has ended or the virtual time is over.
func (s *sim) run(limit time.Duration) {
	end := s.now.Add(limit)
	steps, instant := 0, s.now
	for len(s.queue) > 0 && !s.over() {
		e := heap.Pop(&s.queue).(simEvent)
		if e.at.After(end) {
			break
		}
		if !e.at.Equal(instant) {
			steps, instant = 0, e.at
		}
		if steps++; steps > maxSteps {
			s.fatalf("more than %d steps at one instant", maxSteps)
		}
		s.now = e.at
		e.do()
	}
	for _, a := range s.agents {
		if !a.crashed && a.outcome == nil {
			s.fatalf("n%d has not finished after %v", a.id, limit)
		}
	}
}
