package tcpstore

import (
	"net/netip"
	"slices"
	"time"
)

// Stats is the state of the store in numbers.
type Stats struct {
	Connections   int   // open now
	Waiting       int   // connections blocked in a WAIT
	Keys          int   // values stored, queues not counted
	Bytes         int64 // charged to Options.MaxBytes
	Requests      int64 // since the start
	Accepted      int64 // connections since the start
	Rejected      int64 // connections refused or ended because of what they sent or did not read
	LastRejection error // nil if none
}

// Stats returns the store's numbers from memory.
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

// Client is an open connection, with what the protocol reveals about the
// client, which is never the rank. Remote identifies the node, and on this node
// the process (the kernel knows which process has the socket). PID identifies
// the process on its node, as seen in the client's PID namespace.
type Client struct {
	Remote netip.AddrPort // zero if it is not a TCP connection
	PID    int            // from PING, which newer torch sends at once; 0: unknown
	Since  time.Time      // when it was accepted

	// Requests counts the requests so far. A process uses the store if one of
	// its connections has a request: torch before 2.1 also opens a connection
	// for callbacks, which normally stays silent.
	Requests int64

	// Waiting names up to 8 keys that the client waits for and that have not
	// been set yet. WaitingFor is the number of all such keys.
	Waiting    []string
	WaitingFor int
}

// Clients lists the open connections, oldest first. It reads memory only, in
// time proportional to their number.
func (s *Server) Clients() []Client {
	s.store.mu.Lock()
	clients := make([]Client, 0, len(s.conns))
	for c := range s.conns {
		cl := Client{Remote: c.remote, PID: c.pid, Since: c.since, Requests: c.requests, WaitingFor: c.missing}
		for _, a := range c.pending {
			if len(cl.Waiting) == maxShown {
				break
			}
			if !a.isSet {
				cl.Waiting = append(cl.Waiting, a.key)
			}
		}
		clients = append(clients, cl)
	}
	s.store.mu.Unlock()
	slices.SortFunc(clients, func(a, b Client) int { return a.Since.Compare(b.Since) })
	return clients
}
