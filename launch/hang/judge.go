package hang

import "time"

// State says how a job stands.
type State string

const (
	Works    State = "works"    // a rank makes progress
	Unclear  State = "unclear"  // only collectives can tell: ranks use CPUs and show nothing else
	Suspects State = "suspects" // no rank makes progress, not for long enough yet
	Hangs    State = "hangs"
	NotKnown State = "not known" // a node does not answer
)

// Evidence is what is known of all ranks at one moment.
type Evidence struct {
	Size    int // of the world
	Signs   []Sign
	Known   []Known       // waits in collectives that others than package worker know, the cause first
	Asked   bool          // Known has all that can be known
	Timeout time.Duration // after so long without progress of any rank the job hangs
	Silent  time.Duration // since when some nodes have not answered; 0: all have
}

// Known is a call of a process group that some ranks wait in, as PyTorch's flight recorder
// or the stacks of the ranks show it.
type Known struct {
	Waiting    []int
	Ranks      []int         // for which they wait; empty: all are there, and it does not end
	Collective string        // "all_reduce number 7 of default_pg"
	Text       string        // one sentence
	Where      string        // the line of the program that the first of Ranks was in last
	WaitAt     string        // the line at which the others wait
	Closed     bool          // Ranks wait for each other
	Other      bool          // Ranks made another call
	Age        time.Duration // 0: as long as Waiting show no progress
}

// Assessment is what the evidence shows.
type Assessment struct {
	State State
	// Ripe is the time until the job hangs if no rank makes progress.
	Ripe    time.Duration
	Finding Finding       // of Suspects and Hangs
	Silent  time.Duration // of NotKnown: since when
}

// lead is how long before the timeout a job is suspected, so that what takes long to ask is
// known in time.
func lead(timeout time.Duration) time.Duration { return min(10*time.Second, timeout/2) }

// Judge assesses a job.
//
// A closed cycle hangs at once. Otherwise the job hangs when no rank has made progress for
// the timeout. A rank that waits in a collective makes none, whatever its threads do, if
// others have not entered that collective. As long as a node does not answer nothing else
// than a closed cycle is known.
func Judge(e Evidence) Assessment {
	g := newGraph(e.Signs)
	if cycle := g.closedCycle(); cycle != nil {
		return Assessment{State: Hangs, Finding: closedFinding(g, cycle)}
	}
	f := findWait(g, e.Known)
	idle, any, quiet := time.Duration(1<<62), false, true
	for _, s := range e.Signs {
		if s.Doing == Ended {
			continue
		}
		any = true
		still := max(s.Still, f.waited(&s, e.Known))
		quiet = quiet && max(s.Quiet, still) >= e.Timeout-lead(e.Timeout)
		idle = min(idle, still)
	}
	switch {
	case len(e.Signs) < e.Size:
		return Assessment{State: NotKnown, Silent: e.Silent}
	case !any:
		return Assessment{State: Works, Ripe: e.Timeout}
	case idle >= e.Timeout:
		return Assessment{State: Hangs, Finding: f.orUnknown(g)}
	case idle >= e.Timeout-lead(e.Timeout):
		return Assessment{State: Suspects, Ripe: e.Timeout - idle, Finding: f.orUnknown(g)}
	}
	if quiet && !e.Asked {
		return Assessment{State: Unclear, Ripe: e.Timeout - idle}
	}
	return Assessment{State: Works, Ripe: e.Timeout - idle}
}

// NearlyStill reports whether one node's ranks suggest that the job may hang: none of them
// has shown anything but the use of CPUs for nearly the timeout, or a message of one has
// waited long enough to be in a closed cycle.
func NearlyStill(signs []Sign, timeout time.Duration) bool {
	living := false
	for i := range signs {
		s := &signs[i]
		if s.Doing == Ended {
			continue
		}
		living = true
		if timeout <= 0 || max(s.Still, s.Quiet) < timeout-lead(timeout) && !s.waitsFor(timeout-lead(timeout)) {
			return false
		}
	}
	return living
}

// waitsFor reports whether a call of the rank is that old.
func (s *Sign) waitsFor(age time.Duration) bool {
	l := s.oldest()
	return l != nil && l.Open.Age >= age
}

// MayClose returns the open calls that are old enough for a closed cycle, as keys that tell
// them from all others of the round.
func MayClose(signs []Sign) map[CallKey]bool {
	all := map[CallKey]bool{}
	for i := range signs {
		for _, l := range signs[i].Lines {
			if l.Open != nil && l.Open.Age >= closedTime {
				all[CallKey{signs[i].Rank, l.Comm, l.Open.Number}] = true
			}
		}
	}
	return all
}

// CallKey tells a call from all others of a round.
type CallKey struct {
	Rank   int
	Comm   uint64
	Number uint64
}
