package tcpstore

import (
	"net/netip"
	"slices"
	"time"
)

// Stats is how the store is doing.
type Stats struct {
	Connections   int   // open now
	Waiting       int   // of them blocked in a WAIT
	Keys          int   // values stored, queues not counted
	Bytes         int64 // charged to Options.MaxBytes
	Requests      int64 // since the start
	Accepted      int64 // connections since the start
	Rejected      int64 // of them ended for what they sent or did not read
	LastRejection error // nil if none
}

// Stats is answered from memory.
func (s *Server) Stats() Stats {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return Stats{
		Connections:   len(s.conns),
		Waiting:       s.store.waiting,
		Keys:          len(s.store.values),
		Bytes:         s.store.budget.used.Load(),
		Requests:      s.store.requests,
		Accepted:      s.accepted,
		Rejected:      s.rejected,
		LastRejection: s.lastRejection,
	}
}

// maxShown is how many keys Clients names for each client.
const maxShown = 8

// Client is an open connection, with what the protocol reveals about who it is.
// That is never the rank. Remote leads to the node, and on this node to the
// process (the kernel knows whose the socket is). PID leads to the process on
// its node, as seen in the client's PID namespace.
type Client struct {
	Remote netip.AddrPort // zero if it is not a TCP connection
	PID    int            // from PING, which newer torch sends at once; 0: unknown
	Since  time.Time      // when it was accepted

	// Requests so far. A process has arrived at the store when one of its
	// connections has a request: torch before 2.1 also opens one for callbacks,
	// which normally stays silent.
	Requests int64

	// Waiting names keys that it is blocked for and that have not been set yet,
	// at most 8 of them; WaitingFor is how many it lacks.
	Waiting    []string
	WaitingFor int
}

// Clients lists the open connections, oldest first. It is answered from memory
// and costs time in proportion to their number.
func (s *Server) Clients() []Client {
	s.store.mu.Lock()
	clients := make([]Client, 0, len(s.conns))
	for c := range s.conns {
		cl := Client{Remote: c.remote, PID: c.pid, Since: c.since, Requests: c.requests, WaitingFor: c.missing}
		for _, a := range c.awaits {
			if len(cl.Waiting) == maxShown {
				break
			}
			if !a.arrived {
				cl.Waiting = append(cl.Waiting, a.key)
			}
		}
		clients = append(clients, cl)
	}
	s.store.mu.Unlock()
	slices.SortFunc(clients, func(a, b Client) int { return a.Since.Compare(b.Since) })
	return clients
}
