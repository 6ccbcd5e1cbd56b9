package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Fence is a Member that makes worlds unique: a rendezvous.Fence.
type Fence struct{ *Member }

var (
	_ rendezvous.Backend = (*Member)(nil)
	_ rendezvous.Fence   = (*Fence)(nil)
)

// Lead implements rendezvous.Fence.
func (f *Fence) Lead() {
	f.mu.Lock()
	f.leads = true
	f.mu.Unlock()
	f.confirmSoon()
}

// Vacate implements rendezvous.Fence.
func (f *Fence) Vacate(round int) {
	f.mu.Lock()
	f.vacated = max(f.vacated, round)
	f.mu.Unlock()
	f.confirmSoon()
}

// Unseal implements rendezvous.Fence.
func (f *Fence) Unseal(job string, round int) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireMembers()
	if r := h.runs[f.cfg.RunID]; r != nil && r.record != nil && f.reaches() &&
		r.record.elsewhere.Job == job && r.record.elsewhere.Round == round {
		r.record = nil
		h.updateRun(f.cfg.RunID)
		h.wakeMembers()
	}
}

// Seal implements rendezvous.Fence.
func (f *Fence) Seal(ctx context.Context, c rendezvous.Seal) rendezvous.Sealed {
	<-f.ready
	answer, reported := rendezvous.Sealed{Serial: c.Serial}, ""
	var base *record // that stood when this began
	for begun := false; ; {
		time.Sleep(f.lag / 2) // a member's confirmations and its seals travel separately
		h := f.hub
		h.mu.Lock()
		h.expireMembers()
		wait := "the hub does not answer"
		if ctx.Err() == nil && f.reaches() {
			r := h.runs[f.cfg.RunID]
			if r == nil || r.find(f.cfg.Peer.ID) == nil {
				wait = "its own membership"
			} else {
				if !begun {
					begun, base = true, r.record
				}
				answer.Text, wait = f.refusal(r, base, c)
				answer.Refused = answer.Text != ""
				answer.Ended = answer.Text == ended
				if answer.OK = !answer.Refused && wait == ""; answer.OK {
					r.record = f.newRecord(c.World)
					h.updateRun(f.cfg.RunID)
					h.wakeMembers()
				}
			}
		}
		changed, next := h.changed, h.nextExpiry()
		h.mu.Unlock()
		if answer.OK || answer.Refused {
			return answer
		}
		if wait != reported {
			reported = wait
			f.post(rendezvous.Waiting{Serial: c.Serial, Text: wait})
		}
		pause := time.NewTimer(max(time.Until(next), time.Microsecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			answer.Text = "given up while it waited for " + wait
			return answer
		case <-changed:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// ended says why a later world of a job is refused whose record was deleted.
const ended = "no world of this job is sealed any more"

// refusal says why a world cannot be sealed, or what node the seal waits for.
func (f *Fence) refusal(r *run, base *record, c rendezvous.Seal) (refused, wait string) {
	rec, w := r.record, &c.World
	if c.Later && (rec == nil || rec.elsewhere.Job != w.Job) {
		return ended, ""
	}
	if rec == nil {
		return "", ""
	}
	last := &rec.elsewhere
	if by := rec.by; by != f.cfg.Peer.ID {
		old := last.Job == w.Job && (last.Term > w.Term || last.Round >= w.Round)
		if old || rec != base {
			return fmt.Sprintf("%s at %s has sealed round %d", by, last.Control, last.Round), ""
		}
	}
	another := last.Job != w.Job
	stale := another && rec.by != f.cfg.Peer.ID // what its members answered may be older than that job
	var waits []string
	for _, id := range last.Members {
		e := r.find(id)
		switch {
		case slices.Contains(c.Lost, id):
		case !stale && (w.Index(id) >= 0 || slices.Contains(c.Here, id)):
		case e != nil && (stale || e.vacated < last.Round):
			waits = append(waits, e.peer.Name)
		case e == nil && another && !f.hub.ended[id]: // no node here would hear of such a node of another job
			waits = append(waits, string(id)+", which may still run")
		}
	}
	return "", strings.Join(waits, ", ")
}

func (f *Fence) newRecord(w rendezvous.World) *record {
	e := rendezvous.Elsewhere{Job: w.Job, Term: w.Term, Round: w.Round, Control: f.cfg.Peer.Control}
	for _, m := range w.Members {
		e.Members = append(e.Members, m.ID)
	}
	return &record{f.cfg.Peer.ID, e}
}
