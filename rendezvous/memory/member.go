package memory

import (
	"context"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Config of one agent's membership.
type Config struct {
	RunID   string
	OneName bool            // the endpoint's name stands for all members, those that are cut off included
	Peer    rendezvous.Peer // Endpoint only counts for a Member that does not fence
}

// Member is one agent among the others: a rendezvous.Backend that shows all agents to
// all.
type Member struct {
	hub    *Hub
	cfg    Config
	fenced bool
	lag    time.Duration          // of its way to the hub, slightly different for each agent
	post   func(rendezvous.Event) // set by Run
	ready  chan struct{}          // closed when post is set

	mu      sync.Mutex
	leads   bool
	vacated int
	ended   bool // Run has ended, or the agent was killed
	wake    chan struct{}
}

// Join makes an agent's membership, which begins with Run.
func (h *Hub) Join(cfg Config) *Member {
	lag := fnv.New64a()
	_, _ = lag.Write([]byte(cfg.Peer.ID))
	return &Member{hub: h, lag: time.Duration(lag.Sum64() % uint64(time.Millisecond)), cfg: cfg, vacated: -1, wake: make(chan struct{}, 1), ready: make(chan struct{})}
}

// JoinFenced is Join with everything that rendezvous.Fence asks for.
func (h *Hub) JoinFenced(cfg Config) *Fence {
	m := h.Join(cfg)
	m.fenced = true
	return &Fence{m}
}

// Kill makes Run end like a killed process: the hub gets no message.
func (m *Member) Kill() {
	m.hub.mu.Lock()
	m.hub.ended[m.cfg.Peer.ID] = true
	m.hub.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
}

// Run implements rendezvous.Backend.
func (m *Member) Run(ctx context.Context, post func(rendezvous.Event)) error {
	m.post = post
	close(m.ready)
	defer m.leave()
	confirmed, unconfirmed := time.Now(), false
	var seen rendezvous.Peers
	var sealed rendezvous.Elsewhere
	for {
		time.Sleep(m.lag)
		s := m.confirm()
		now := time.Now()
		if s.ok {
			confirmed = now
		}
		if m.fenced && unconfirmed != (now.Sub(confirmed) >= m.hub.ttl/2) {
			unconfirmed = !unconfirmed
			text := ""
			if unconfirmed {
				text = fmt.Sprintf("the hub has not answered for %v", now.Sub(confirmed).Round(time.Millisecond))
			}
			post(rendezvous.Unconfirmed{On: unconfirmed, Text: text})
		}
		if s.ok && !reflect.DeepEqual(seen, s.peers) {
			seen = s.peers
			post(s.peers)
		}
		if s.ok && m.fenced && s.sealed != nil && !reflect.DeepEqual(sealed, *s.sealed) {
			sealed = *s.sealed
			post(sealed)
		}
		wait := min(m.hub.ttl/8, s.next.Sub(now))
		if late := confirmed.Add(m.hub.ttl / 2).Sub(now); late > 0 {
			wait = min(wait, late)
		}
		pause := time.NewTimer(max(wait, time.Microsecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		case <-s.changed:
		case <-m.wake:
		}
		pause.Stop()
	}
}

// answer is the answer of the hub.
type answer struct {
	ok      bool // it answered
	peers   rendezvous.Peers
	sealed  *rendezvous.Elsewhere
	next    time.Time // when the next membership ends
	changed <-chan struct{}
}

// confirm reports to the hub that this agent lives and takes the hub's answer.
func (m *Member) confirm() answer {
	h := m.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireMembers()
	s := answer{next: h.nextExpiry(), changed: h.changed}
	if !m.reaches() {
		return s
	}
	s.ok = true
	m.mu.Lock()
	leads, vacated := m.leads, m.vacated
	m.mu.Unlock()
	r := h.runs[m.cfg.RunID]
	if r == nil {
		r = &run{}
		h.runs[m.cfg.RunID] = r
	}
	e := r.find(m.cfg.Peer.ID)
	if e == nil {
		e = &entry{peer: m.cfg.Peer}
		if !slices.Contains(r.named, m.cfg.Peer.ID) {
			r.named = append(r.named, m.cfg.Peer.ID)
		}
		r.members = append(r.members, e)
		h.updateRun(m.cfg.RunID)
		h.wakeMembers()
	}
	e.ends = time.Now().Add(h.ttl)
	if e.vacated != vacated {
		e.vacated = vacated
		h.wakeMembers()
	}
	s.changed, s.next = h.changed, h.nextExpiry()
	s.peers = m.view(r, leads)
	if r.record != nil {
		s.sealed = &r.record.elsewhere
	}
	return s
}

// view returns what this agent is shown.
func (m *Member) view(r *run, leads bool) rendezvous.Peers {
	p := rendezvous.Peers{Complete: m.fenced && leads}
	for _, e := range r.members {
		peer := e.peer
		if m.fenced {
			peer.Endpoint = -1
			if peer.ID == r.first {
				peer.Endpoint = 0
			}
			if !leads && peer.ID != m.cfg.Peer.ID && peer.Endpoint < 0 {
				continue
			}
		}
		p.All = append(p.All, peer)
	}
	if m.cfg.OneName {
		for _, id := range r.named {
			if !m.hub.ended[id] {
				p.Candidates++
			}
		}
	}
	return p
}

// reaches reports whether the hub answers this agent. The hub's lock is held.
func (m *Member) reaches() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.ended && !m.hub.down && !m.hub.apart[m.cfg.Peer.ID]
}

// leave ends the membership, if the agent reaches the hub.
func (m *Member) leave() {
	h := m.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireMembers()
	reached := m.reaches()
	h.ended[m.cfg.Peer.ID] = true
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	r := h.runs[m.cfg.RunID]
	if !reached || r == nil {
		return
	}
	if e := r.find(m.cfg.Peer.ID); e != nil {
		e.ends = time.Now()
		h.expireMembers()
	}
}

// confirmSoon makes Run report to the hub at once what has changed.
func (m *Member) confirmSoon() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
