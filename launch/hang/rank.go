package hang

import "time"

// Look is what an agent saw of a worker's processes at one moment, and since its last look.
type Look struct {
	Ended  bool // with exit code 0
	Unseen bool // the worker's processes run elsewhere
	PID    int
	State  byte // of the main thread: R, S, D, T, ...; 0: unknown
	// Run and Idle are times since the last look, of that main thread of the worker's
	// processes that ran most: on a CPU, and asleep. The time that it waited for a CPU is
	// in neither, so that a busy machine makes no difference.
	Run, Idle time.Duration
	Bytes     uint64 // read and written by the worker's processes since the last look
	Output    time.Time
}

// Calls are what a worker says of itself: the steps of its program and its calls of package
// worker.
type Calls struct {
	Step    uint64
	Entered uint64 // number of calls that began or ended
	Lines   []Line // with the ages of their open calls
}

// What counts as progress. Polling a store takes up to 10 % of a CPU, and printing a few
// kilobytes a second.
const (
	busyLook   = 0.50      // of the time that it did not wait for a CPU, in one look
	busyWindow = 0.25      // likewise, in the last looks
	window     = 10        // looks
	filesRate  = 128 << 10 // bytes a second
)

// Rank keeps since when a worker has made no progress.
type Rank struct {
	rank     int
	last     Look
	calls    Calls
	seen     time.Time // of the last look
	progress time.Time
	doing    Doing // what the last progress was
	quiet    time.Time
	stopped  int // looks in which the worker was stopped, one after the other
	looks    [window]struct{ run, idle time.Duration }
	next     int
	lines    string // the program's own lines on its stack
	read     time.Time
}

// NewRank returns a rank whose worker starts now.
func NewRank(rank int, now time.Time) *Rank {
	return &Rank{rank: rank, seen: now, progress: now, quiet: now, doing: Still}
}

// ObserveCalls takes what the worker says of itself.
func (r *Rank) ObserveCalls(now time.Time, c Calls) {
	if c.Entered != r.calls.Entered || c.Step != r.calls.Step {
		r.progress, r.quiet, r.doing = now, now, Goes
	}
	r.calls = c
}

// WantsLines reports whether the rank has been still for so long that the lines of its
// program have to show it too: in the second half of the timeout, at most for ten looks of
// that period.
func (r *Rank) WantsLines(now time.Time, timeout, period time.Duration) bool {
	return now.Sub(r.progress) >= max(timeout/2, timeout-window*period)
}

// ObserveLines takes the program's own lines on the stack of the rank. Other lines than
// the last time are progress.
func (r *Rank) ObserveLines(now time.Time, lines string) {
	if lines != r.lines && !r.read.IsZero() && !r.read.Before(r.progress) {
		r.progress, r.quiet, r.doing = now, now, Goes
	}
	r.lines, r.read = lines, now
}

// Observe takes the next look.
func (r *Rank) Observe(now time.Time, l Look) {
	elapsed := now.Sub(r.seen)
	r.looks[r.next%window] = struct{ run, idle time.Duration }{l.Run, l.Idle}
	r.next++
	switch {
	case l.Unseen:
		r.progress, r.quiet, r.doing = now, now, Unseen
	case elapsed > 0 && float64(l.Bytes) >= filesRate*max(1, elapsed.Seconds()):
		r.progress, r.quiet, r.doing = now, now, Files
	case r.computes(l):
		r.progress, r.doing = now, Computes
	}
	if l.Output.After(r.quiet) {
		r.quiet = l.Output
	}
	r.stopped++
	if l.State != 'T' && l.State != 't' {
		r.stopped = 0
	}
	r.last, r.seen = l, now
}

// computes reports whether a main thread computes at a look: for most of the time since
// the last look or, if it also did so now, for much of the last looks.
func (r *Rank) computes(l Look) bool {
	var run, idle time.Duration
	for _, s := range r.looks {
		run, idle = run+s.run, idle+s.idle
	}
	now := share(l.Run, l.Idle)
	return now >= busyLook || now >= busyWindow && share(run, idle) >= busyWindow && r.next >= window
}

func share(run, idle time.Duration) float64 {
	if run <= 0 {
		return 0
	}
	return float64(run) / float64(run+idle)
}

// Sign returns what the rank does now.
func (r *Rank) Sign(now time.Time) Sign {
	s := Sign{
		Rank: r.rank, PID: r.last.PID, Doing: Still, Still: max(0, now.Sub(r.progress)), Quiet: max(0, now.Sub(r.quiet)),
		Step: r.calls.Step, Lines: r.calls.Lines,
	}
	if r.last.State != 0 {
		s.State = string(rune(r.last.State))
	}
	switch {
	case r.last.Ended:
		s.Doing = Ended
	case r.stopped > 1: // a debugger that reads a stack stops a process for a moment
		s.Doing = Frozen
	case s.oldest() != nil:
		s.Doing = Waits
	case !r.seen.After(r.progress):
		s.Doing = r.doing
	}
	return s
}
