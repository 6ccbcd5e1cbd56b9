package rendezvous

import (
	"fmt"
	"time"
)

func (s *sim) start(a *simAgent, w World) {
	d := w.Digest()
	key := fmt.Sprint(w.Round)
	if s.store != nil { // a later job may begin where nothing of the earlier one lives
		key = fmt.Sprint(w.Job, "/", w.Round)
	}
	s.logf("n%d starts round %d %s with %d nodes", a.id, w.Round, d[:6], len(w.Members))
	if old, ok := s.started[key]; ok && old != d {
		s.fatalf("two worlds in round %d", w.Round)
	}
	s.started[key] = d
	if a.running != nil {
		s.fatalf("n%d starts round %d while round %d runs there", a.id, w.Round, a.running.Round)
	}
	for _, mb := range w.Members {
		if mb.ID != w.Coordinator && !s.accepts[d][mb.ID] {
			s.fatalf("n%d starts round %d, which %s has not accepted", a.id, w.Round, mb.ID)
		}
		for _, o := range s.agents {
			late := a.thawed && o.running != nil && w.Round < o.running.Round // it hears now what was true long ago
			if o.node.ID == mb.ID && !o.crashed && o.running != nil && !o.done && o.running.Round != w.Round && !late {
				s.fatalf("round %d starts on n%d while round %d runs on n%d", w.Round, a.id, o.running.Round, o.id)
			}
		}
	}
	if s.store == nil {
		s.checkSplit(w, d)
	} else {
		s.checkFenced(a, w, d)
	}
	s.checkExamined(a, &w)
	a.running, a.stopped, a.done, a.took = &w, false, false, w.Job
	after, fail := a.plan(w.Round)
	s.after(after, func() {
		if a.running == nil || a.running.Round != w.Round || a.stopped || a.crashed {
			return
		}
		if fail {
			s.logf("n%d: a worker of round %d fails", a.id, w.Round)
			c := a.m.here(KindExit, "boom")
			c.Rank, c.ExitCode, c.Time = w.Members[w.Index(a.node.ID)].FirstRank, 3+a.id, s.now
			s.mustStop(&w)
			s.step(a, Failed{Round: w.Round, Cause: c})
			return
		}
		a.done = true
		s.step(a, Done{Round: w.Round})
	})
}

func (s *sim) stop(a *simAgent, c Stop) {
	a.stopped = true
	grace := 200
	if c.Kill {
		grace = 20
	}
	s.after(time.Duration(s.rng.IntN(grace))*time.Millisecond, func() {
		if a.running != nil && a.running.Round == c.Round {
			a.running = nil
			s.step(a, Over{Round: c.Round, Failures: a.m.mem.work.failures, Store: a.node.Store})
		}
	})
}

func (s *sim) crash(a *simAgent) {
	if a.crashed || a.outcome != nil {
		return
	}
	s.logf("n%d crashes (round %v)", a.id, a.running != nil)
	a.crashed, a.running = true, nil // its keeper kills its workers
	for _, p := range s.pipesOf(a) {
		s.breakPipe(p, a, false, "connection reset")
	}
	s.announce()
}

// mustStop: after the first failure of a round no worker of it lives for long.
func (s *sim) mustStop(w *World) {
	if !s.swift {
		return
	}
	s.after(time.Second, func() {
		for _, a := range s.agents {
			if !a.crashed && a.running != nil && a.running.Round == w.Round && a.running.Job == w.Job && !a.done {
				s.fatalf("n%d still runs round %d, a second after its failure", a.id, w.Round)
			}
		}
	})
}
