package rendezvous

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// simStore is a linearizable store with leases, as a Fence uses one: everything
// that happens in it happens at one instant, and its word is the same for all.
type simStore struct {
	ttl     time.Duration
	down    bool
	entries []*simEntry // memberships, in the order in which they came
	first   NodeID
	record  *simRecord
	version int
}

type simEntry struct {
	a       *simAgent
	ends    time.Time
	vacated int
}

type simRecord struct {
	by    NodeID
	where Elsewhere
}

func newSimStore() *simStore { return &simStore{ttl: 5 * time.Second} }

// sweep ends what was not confirmed in time.
func (s *sim) sweep() {
	st := s.store
	n := len(st.entries)
	if st.down {
		return
	}
	st.entries = slices.DeleteFunc(st.entries, func(e *simEntry) bool {
		if s.now.Before(e.ends) {
			return false
		}
		s.logf("the membership of n%d ends", e.a.id)
		return true
	})
	if len(st.entries) < n {
		s.changed()
	}
}

// halt takes the store away from everyone; leases are extended when it is back.
func (s *sim) halt(d time.Duration) {
	s.logf("the store is down for %v", d)
	s.store.down = true
	s.after(d, func() {
		s.logf("the store is back")
		s.store.down = false
		for _, e := range s.store.entries {
			e.ends = s.now.Add(s.store.ttl)
			s.after(s.store.ttl, s.sweep)
		}
	})
}

func (st *simStore) find(id NodeID) *simEntry {
	if i := slices.IndexFunc(st.entries, func(e *simEntry) bool { return e.a.node.ID == id }); i >= 0 {
		return st.entries[i]
	}
	return nil
}

// tidy settles what depends on who is a member.
func (st *simStore) tidy() {
	gone := func(id NodeID) bool { return st.find(id) == nil }
	if r := st.record; r != nil && !slices.ContainsFunc(r.where.Members, func(id NodeID) bool { return !gone(id) }) {
		st.record = nil // nothing of that world lives
	}
	if r := st.record; r != nil && !gone(r.by) {
		st.first = r.by
	} else if gone(st.first) {
		st.first = ""
		if len(st.entries) > 0 {
			st.first = st.entries[0].a.node.ID
		}
	}
}

// view is what an agent is shown.
func (st *simStore) view(a *simAgent) Peers {
	p := Peers{Whole: a.client.leads}
	for _, e := range st.entries {
		n := &e.a.node
		peer := Peer{ID: n.ID, Name: n.Name(), Control: n.Control, Endpoint: -1}
		if n.ID == st.first {
			peer.Endpoint = 0
		}
		if a.client.leads || e.a == a || peer.Endpoint == 0 {
			p.All = append(p.All, peer)
		}
	}
	return p
}

// seal carries a Seal out: it goes on until there is an answer or a later one.
func (s *sim) seal(a *simAgent, c Seal) {
	st := s.store
	a.client.serial = c.Serial
	base, waits := a.client.known, "" // a record that is made meanwhile tells of members that went on elsewhere
	answer := func(e Sealed) {
		e.Serial = c.Serial
		if a.client.serial == c.Serial {
			a.client.serial = 0
		}
		s.step(a, e)
	}
	var try func()
	try = func() {
		switch {
		case a.crashed || a.outcome != nil:
			return
		case a.client.serial != c.Serial:
			answer(Sealed{Text: "given up"})
			return
		}
		heard, seen := false, st.record
		s.request(a, func() func() {
			if st.record != seen {
				return nil // the transaction fails; the next attempt looks again
			}
			if st.find(a.node.ID) == nil {
				return func() { s.step(a, Waiting{c.Serial, "its own membership"}) }
			}
			if r := st.record; c.Later && (r == nil || r.where.Job != c.World.Job) {
				return func() {
					heard = true
					answer(Sealed{Refused: true, Ended: true, Text: "nobody has a world of it any more"})
				}
			}
			refused, wait := st.verdict(a, base, c)
			switch {
			case refused != "":
				return func() { heard = true; answer(Sealed{Refused: true, Text: refused}) }
			case wait != "":
				return func() {
					if wait != waits {
						waits = wait
						s.step(a, Waiting{c.Serial, wait})
					}
				}
			}
			s.logf("the store seals round %d of n%d", c.World.Round, a.id)
			s.checkLeftOut(&c.World)
			st.record = newSimRecord(a, &c.World)
			s.changed()
			return func() { heard = true; answer(Sealed{OK: true}) }
		})
		s.after(100*time.Millisecond, func() {
			if !heard {
				s.when(a, try)
			}
		})
	}
	try()
}

func newSimRecord(a *simAgent, w *World) *simRecord {
	e := Elsewhere{Job: w.Job, Term: w.Term, Round: w.Round, Control: a.node.Control}
	for _, m := range w.Members {
		e.Members = append(e.Members, m.ID)
	}
	return &simRecord{a.node.ID, e}
}

// verdict is why a world cannot be sealed, or whom that waits for.
func (st *simStore) verdict(a *simAgent, base *simRecord, c Seal) (refused, wait string) {
	r, w := st.record, &c.World
	if r == nil {
		return "", ""
	}
	last := &r.where
	if r.by != a.node.ID {
		old := last.Job == w.Job && (last.Term > w.Term || last.Round >= w.Round)
		if old || r != base {
			return fmt.Sprintf("%s has sealed round %d", r.by, last.Round), ""
		}
	}
	var waits []string
	for _, id := range last.Members {
		e := st.find(id)
		if e != nil && e.vacated < last.Round && w.Index(id) < 0 && !slices.Contains(c.Here, id) && !slices.Contains(c.Lost, id) {
			waits = append(waits, string(id))
		}
	}
	return "", strings.Join(waits, ", ")
}

func (s *sim) unseal(a *simAgent, c Unseal) {
	a.client.serial = 0
	s.request(a, func() func() {
		if r := s.store.record; r != nil && r.where.Job == c.Job && r.where.Round == c.Round {
			for _, o := range s.agents {
				if s.acts(o) && o.running != nil && !o.done && o.running.Job == c.Job {
					s.fatalf("n%d gives the run back while n%d runs round %d", a.id, o.id, o.running.Round)
				}
			}
			s.store.record = nil
			s.changed()
		}
		return nil
	})
}
