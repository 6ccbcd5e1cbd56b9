package memory

import (
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Hub is the store that all agents share, whatever their run.
type Hub struct {
	ttl time.Duration

	mu      sync.Mutex
	runs    map[string]*run
	apart   map[rendezvous.NodeID]bool // cut off
	ended   map[rendezvous.NodeID]bool // agents that have ended, as every agent could find out
	down    bool
	changed chan struct{} // closed at the next change
}

// run is what the hub keeps for one run id.
type run struct {
	members []*entry            // in the order in which they came
	named   []rendezvous.NodeID // all that have come; one comes again after its membership has ended
	first   rendezvous.NodeID
	record  *record
}

// entry is one membership.
type entry struct {
	peer    rendezvous.Peer
	ends    time.Time // unless it is confirmed before
	vacated int       // no worker of this round, or of an earlier one, lives there
}

// record is the world that was sealed last.
type record struct {
	by        rendezvous.NodeID
	elsewhere rendezvous.Elsewhere
}

// NewHub makes a hub whose memberships last for ttl after each confirmation.
func NewHub(ttl time.Duration) *Hub {
	return &Hub{ttl: ttl, runs: map[string]*run{}, apart: map[rendezvous.NodeID]bool{}, ended: map[rendezvous.NodeID]bool{}, changed: make(chan struct{})}
}

// Cut cuts an agent off from the hub, or reconnects it.
func (h *Hub) Cut(id rendezvous.NodeID, cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.apart[id] = cut
	h.wakeMembers()
}

// Halt makes the hub unavailable to all, as a store that lost its majority, or
// available again. No membership ends meanwhile, nor for a TTL afterwards.
func (h *Hub) Halt(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireMembers()
	h.down = down
	for _, r := range h.runs {
		for _, e := range r.members {
			e.ends = time.Now().Add(h.ttl)
		}
	}
	h.wakeMembers()
}

// Leftovers returns what the hub still keeps of a run, a line each.
func (h *Hub) Leftovers(runID string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireMembers()
	r := h.runs[runID]
	if r == nil {
		return nil
	}
	var left []string
	for _, e := range r.members {
		left = append(left, "member "+string(e.peer.ID))
	}
	if r.record != nil {
		left = append(left, "the record of a sealed world")
	}
	return left
}

// wakeMembers wakes all members that wait for a change.
func (h *Hub) wakeMembers() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// expireMembers ends the memberships that were not confirmed in time. Every look at the
// hub's content calls expireMembers first, because the hub has no clock of its own.
func (h *Hub) expireMembers() {
	if h.down {
		return
	}
	now, ended := time.Now(), false
	for id, r := range h.runs {
		n := len(r.members)
		r.members = slices.DeleteFunc(r.members, func(e *entry) bool { return !now.Before(e.ends) })
		ended = ended || len(r.members) < n
		h.updateRun(id)
	}
	if ended {
		h.wakeMembers()
	}
}

// updateRun sets what depends on the current members.
func (h *Hub) updateRun(runID string) {
	r := h.runs[runID]
	if r.record != nil && !slices.ContainsFunc(r.record.elsewhere.Members, func(id rendezvous.NodeID) bool { return r.find(id) != nil || !h.ended[id] }) {
		r.record = nil // nothing of that world lives
	}
	if r.record != nil && r.find(r.record.by) != nil {
		r.first = r.record.by // the first world is made, so its sealer is the agent to ask
	} else if r.find(r.first) == nil {
		r.first = ""
		if len(r.members) > 0 {
			r.first = r.members[0].peer.ID
		}
	}
	if len(r.members) == 0 && r.record == nil {
		delete(h.runs, runID)
	}
}

func (r *run) find(id rendezvous.NodeID) *entry {
	if i := slices.IndexFunc(r.members, func(e *entry) bool { return e.peer.ID == id }); i >= 0 {
		return r.members[i]
	}
	return nil
}

// nextExpiry returns when the next membership ends, unless it is confirmed.
func (h *Hub) nextExpiry() time.Time {
	next := time.Now().Add(h.ttl)
	if h.down {
		return next
	}
	for _, r := range h.runs {
		for _, e := range r.members {
			if e.ends.Before(next) {
				next = e.ends
			}
		}
	}
	return next
}
