package hang

import (
	"fmt"
	"slices"
	"time"
)

// caseState says how far the watch of a job is. See the package comment.
type caseState int

const (
	calm caseState = iota
	suspected
	reported
)

func (s caseState) String() string { return [...]string{"calm", "suspected", "reported"}[s] }

// caseTransitions has the states that may follow each state.
var caseTransitions = [...][]caseState{
	calm:      {suspected},
	suspected: {calm, reported},
	reported:  {calm, suspected},
}

// Action is what to do after an assessment.
type Action string

const (
	Nothing  Action = ""
	Gather   Action = "gather" // ask all nodes for collectives and stacks
	Report   Action = "report"
	TakeBack Action = "take back" // the job goes on after all
	Doubt    Action = "doubt"     // say that it is not known how the job stands
)

// Decision is what to do, and when to assess the job again; 0: at the next suspicion.
type Decision struct {
	Action Action
	Again  time.Duration
}

// Times between two assessments.
const (
	confirmAfter = 300 * time.Millisecond // a hang is reported when it is seen twice
	// endAfter is how long a reported hang must be over until that is said. When a worker of a
	// job that hangs ends, others leave their calls, and the end itself is known a moment later.
	endAfter = time.Second
	soonest  = 250 * time.Millisecond
	latest   = 5 * time.Second
	// silence is how long nodes may not answer until that is said. Without a report the watch
	// then ends until the next suspicion; a report stays, because a node that is silent shows
	// no progress.
	silence = 30 * time.Second
)

// Case is the watch of one round of a job.
type Case struct {
	timeout  time.Duration
	state    caseState
	seen     string // the key of the hang that was seen last
	reported string // the key of the hang that was reported
	gathered bool   // in this suspicion
	doubted  bool   // in this silence
	ends     bool   // the reported hang was over when the nodes last answered
	vague    int    // steps since the report of a hang of which nobody knows who waits
}

// NewCase returns the case of a round that starts.
func NewCase(timeout time.Duration) *Case { return &Case{timeout: timeout} }

// Reported reports whether a hang was reported that has not ended.
func (c *Case) Reported() bool { return c.state == reported }

// Ends reports whether a reported hang seems to be over, which the next assessment, after
// the time that the last decision gave, must confirm.
func (c *Case) Ends() bool { return c.ends }

// transition takes the case to another state. It refuses what its table does not allow.
func (c *Case) transition(to caseState) error {
	if !slices.Contains(caseTransitions[c.state], to) {
		return fmt.Errorf("internal error: the watch cannot go from %s to %s", c.state, to)
	}
	c.state = to
	return nil
}

// Step takes an assessment and decides what to do.
func (c *Case) Step(a Assessment) (Decision, error) {
	if a.State == NotKnown {
		return c.notKnown(a)
	}
	c.doubted = false
	if c.state == reported && a.State != Hangs && !c.ends {
		c.ends = true
		return Decision{Again: endAfter}, nil
	}
	c.ends = false
	switch a.State {
	case Works:
		return c.works()
	case Hangs:
		return c.hangs(a)
	}
	return c.mayHang(a)
}

// works handles a job of which a rank makes progress.
func (c *Case) works() (d Decision, err error) {
	if c.state == calm {
		return d, nil
	}
	if c.state == reported {
		d.Action = TakeBack
	}
	err = c.transition(calm)
	c.seen, c.reported, c.gathered = "", "", false
	return d, err
}

// notKnown handles a job of which some nodes do not answer: it leaves everything as it is,
// and asks again, for some time.
func (c *Case) notKnown(a Assessment) (d Decision, err error) {
	d.Again = min(max(a.Silent, soonest), latest)
	if a.Silent < silence {
		return d, nil
	}
	if !c.doubted {
		c.doubted, d.Action = true, Doubt
	}
	if c.state == reported {
		return d, nil
	}
	d.Again = 0
	if c.state == suspected {
		err = c.transition(calm)
	}
	c.seen, c.gathered, c.doubted = "", false, false
	return d, err
}

// mayHang handles a job that shows no progress, though not for long enough, or none but the
// use of CPUs.
func (c *Case) mayHang(a Assessment) (d Decision, err error) {
	switch {
	case c.state == reported: // the hang that was reported has ended; another may come
		d.Action = TakeBack
		c.reported, c.gathered = "", false
		err = c.transition(suspected)
	case c.state == calm:
		err = c.transition(suspected)
	}
	c.seen = ""
	if !c.gathered && d.Action == "" {
		c.gathered, d.Action = true, Gather
	}
	d.Again = min(max(a.Ripe, soonest), latest)
	return d, err
}

// hangs handles a job that hangs.
func (c *Case) hangs(a Assessment) (d Decision, err error) {
	key := a.Finding.Key
	if c.state == reported && (key == c.reported || a.Finding.Shape == Unknown) {
		d.Again = c.patience()
		if a.Finding.Shape == Unknown { // what the ranks answer on a busy machine may come late
			c.vague++
			if c.vague&(c.vague-1) == 0 { // more and more seldom
				d.Action = Gather
			}
		}
		return d, nil
	}
	if c.state == calm {
		if err = c.transition(suspected); err != nil {
			return d, err
		}
	}
	switch {
	case c.seen != key && a.Finding.fromKnown():
		c.gathered, d.Action, d.Again = true, Gather, confirmAfter // what is known may have changed
	case a.Finding.Shape != Closed && !c.gathered:
		c.gathered, d.Action, d.Again = true, Gather, confirmAfter
	case c.seen != key:
		d.Again = confirmAfter
	default:
		if c.state == suspected {
			err = c.transition(reported)
		}
		c.reported, c.vague, d.Action, d.Again = key, 0, Report, c.patience()
	}
	c.seen = key
	return d, err
}

// patience is the time between two assessments of a hang that was reported.
func (c *Case) patience() time.Duration { return min(max(c.timeout/4, time.Second), latest) }
