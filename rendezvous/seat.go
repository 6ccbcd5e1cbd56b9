package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
)

// seatState is the state of one node for its coordinator. See the package comment
// for the diagram.
type seatState int

const (
	// The node has no stream.
	seatAbsent  seatState = iota // it may be alive
	seatMissing                  // it may be alive and is expected to come back
	seatCalled                   // it is called to hear how the job ended
	seatLost                     // its process is known to have ended
	seatExpired                  // its membership in the fence has ended, and may begin again
	seatLeft                     // it left in order

	// The node has a stream and no place in the world.
	seatClearing // workers of an earlier round are being stopped there
	seatWaiting  // it waits for a place

	// The node is in the world.
	seatProposed // it has not accepted the world yet
	seatAccepted
	seatRunning
	seatDone    // its workers ended with 0
	seatStopped // no worker of the round lives there
)

// String is the state as an internal error names it.
func (s seatState) String() string {
	return [...]string{
		"absent", "missing", "called", "lost", "expired", "left",
		"clearing", "waiting", "proposed", "accepted", "running", "done", "stopped",
	}[s]
}

// seatTransitions has the states that may follow each state.
var seatTransitions = [...][]seatState{
	seatAbsent:   {seatMissing, seatCalled, seatLost, seatExpired, seatClearing, seatWaiting},
	seatMissing:  {seatCalled, seatLost, seatExpired, seatClearing, seatWaiting},
	seatCalled:   {seatLost, seatWaiting},
	seatLost:     {seatClearing, seatWaiting},
	seatExpired:  {seatAbsent, seatCalled, seatLost, seatClearing, seatWaiting},
	seatLeft:     {seatClearing, seatWaiting},
	seatClearing: {seatAbsent, seatLeft, seatWaiting, seatRunning, seatDone},
	seatWaiting:  {seatAbsent, seatLeft, seatProposed, seatRunning, seatDone, seatStopped},
	seatProposed: {seatAbsent, seatLeft, seatWaiting, seatAccepted},
	seatAccepted: {seatAbsent, seatLeft, seatWaiting, seatRunning},
	seatRunning:  {seatAbsent, seatLeft, seatClearing, seatDone, seatStopped},
	seatDone:     {seatAbsent, seatLeft, seatClearing, seatStopped},
	seatStopped:  {seatAbsent, seatLeft, seatWaiting},
}

// seat is the coordinator's view of one node.
type seat struct {
	state   seatState
	conn    Conn // while the node has a stream
	node    Node
	leaving *Cause // why it leaves the job, which goes on without it; nil: it stays
	fits    bool   // its facts, if it has any, fit the running world
	wasIdle bool   // no worker of the last world lived there when its stream ended

	facts     json.RawMessage // nil: not received yet
	env       []byte          // what it says of its environment, received with the facts
	workerEnv []byte          // the environment of its workers in the world that is offered
}

// transition takes the seat to another state. It refuses an impossible one, which is
// an internal error.
func (s *seat) transition(to seatState) error {
	if !slices.Contains(seatTransitions[s.state], to) {
		return fmt.Errorf("internal error: the seat of node %s cannot go from %s to %s", s.node.ID, s.state, to)
	}
	s.state = to
	return nil
}

// connected reports whether the node has a stream.
func (s *seat) connected() bool { return s.state >= seatClearing }

// inWorld reports whether the node is in the world that is proposed or runs.
func (s *seat) inWorld() bool { return s.state >= seatProposed }

// ended reports whether the node's process is known to have ended: it has no vote.
func (s *seat) ended() bool {
	return s.state == seatLost || s.state == seatExpired || s.state == seatLeft
}

// awaited reports whether the end of the job waits for the node.
func (s *seat) awaited() bool { return s.state == seatMissing || s.state == seatCalled }

// forget drops what only a node with a stream needs. A node may leave a megabyte
// behind.
func (s *seat) forget() {
	*s = seat{state: s.state, node: Node{ID: s.node.ID}, wasIdle: s.wasIdle}
}

// seats holds the seats of all nodes of a job.
type seats struct {
	here []*seat // with a stream, in order of arrival
	byID map[NodeID]*seat
}

// find returns the seat of a node, nil if there is none.
func (t *seats) find(id NodeID) *seat { return t.byID[id] }

// get returns the seat of a node and makes an absent one if there is none.
func (t *seats) get(id NodeID) *seat {
	s := t.byID[id]
	if s == nil {
		s = &seat{node: Node{ID: id}}
		t.byID[id] = s
	}
	return s
}

// at returns the seat at the end of a stream, nil if there is none.
func (t *seats) at(conn Conn) *seat {
	if i := slices.IndexFunc(t.here, func(s *seat) bool { return s.conn == conn }); i >= 0 {
		return t.here[i]
	}
	return nil
}

// connected reports whether a node has a stream.
func (t *seats) connected(id NodeID) bool { s := t.byID[id]; return s != nil && s.connected() }

// ended reports whether a node's process is known to have ended.
func (t *seats) ended(id NodeID) bool { s := t.byID[id]; return s != nil && s.ended() }

// member returns the seat of a connected node of the world, nil if there is none.
func (t *seats) member(id NodeID) *seat {
	if s := t.byID[id]; s != nil && s.inWorld() {
		return s
	}
	return nil
}

// members returns the connected nodes of the world.
func (t *seats) members() []*seat {
	return slices.DeleteFunc(slices.Clone(t.here), func(s *seat) bool { return !s.inWorld() })
}

// all reports whether every connected node of the world is in this state.
func (t *seats) all(state seatState) bool {
	return !slices.ContainsFunc(t.here, func(s *seat) bool { return s.inWorld() && s.state != state })
}

// contains reports whether a connected node is in this state.
func (t *seats) contains(state seatState) bool {
	return slices.ContainsFunc(t.here, func(s *seat) bool { return s.state == state })
}

// awaited reports whether the end of the job waits for a node without a stream.
func (t *seats) awaited() bool {
	for _, s := range t.byID {
		if s.awaited() {
			return true
		}
	}
	return false
}

// add gives a node that has come the last place in the order of arrival.
func (t *seats) add(conn Conn, n Node) *seat {
	s := &seat{conn: conn, node: n}
	if old := t.byID[n.ID]; old != nil && !old.connected() {
		s.state = old.state
	}
	t.here, t.byID[n.ID] = append(t.here, s), s
	return s
}

// remove takes a seat out of the order of arrival.
func (t *seats) remove(s *seat) {
	t.here = slices.DeleteFunc(t.here, func(o *seat) bool { return o == s })
}

// delete drops the seat of a node that the job has no reason to remember.
func (t *seats) delete(s *seat) {
	if t.byID[s.node.ID] == s {
		delete(t.byID, s.node.ID)
	}
}

// move takes a seat to another state.
func (c *coordinator) move(s *seat, to seatState) {
	if err := s.transition(to); err != nil {
		c.m.internalError(err)
	}
}
