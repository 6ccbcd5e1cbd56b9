package rendezvous

import (
	"encoding/json"
	"slices"
	"time"
)

// Limits of a view, in bytes.
const (
	maxReport = 256 << 10 // what one node tells of itself
	maxView   = 16 << 20  // all nodes' reports together; who would exceed it is named without one
	maxWhole  = 24 << 20  // a view that is written down: it must fit into a message
)

// View is how a job stands, as one agent knows it. What reports say is not the
// machine's business.
type View struct {
	RunID       string `json:"run_id"`
	Job         string `json:"job"`   // the same for all worlds of a job
	Phase       string `json:"phase"` // of the coordinator: forming, checking, accepting, running, stopping, recovering, ending
	Round       int    `json:"round"`
	Restart     int    `json:"restart"`
	MaxRestarts int    `json:"max_restarts"`
	Size        int    `json:"size"` // workers of the world, 0: there is none
	Min         int    `json:"min"`
	Max         int    `json:"max"`
	Coordinator NodeID `json:"coordinator"` // empty: not known
	// Age is how long the workers of the round have been running, as the coordinator
	// knows it; 0 unless they run or are being stopped.
	Age time.Duration `json:"age_ns,omitempty"`
	// Failure says in one line why the round is being stopped, or why the one
	// before it was.
	Failure string  `json:"failure,omitempty"`
	Status  *Status `json:"status,omitempty"` // what a job that does not run waits for
	Nodes   []Seen  `json:"nodes"`            // members by group rank, then the others as they came
	Note    string  `json:"note,omitempty"`   // why this is not the whole
}

// Standing is what a node is to its job.
type Standing string

const (
	NodeActive  Standing = "active"  // a member of the world
	NodeSpare   Standing = "spare"   // waits for a place in the next round
	NodeWaiting Standing = "waiting" // came while no world runs
	NodeLost    Standing = "lost"    // a member that is not connected any more
	NodeUnknown Standing = "unknown" // who tells this does not coordinate
)

// Seen is one node in a View.
type Seen struct {
	ID        NodeID   `json:"id"`
	Host      string   `json:"host"`
	Addr      string   `json:"addr"`
	GroupRank int      `json:"group_rank"` // -1: none
	FirstRank int      `json:"first_rank"` // -1: none
	Workers   int      `json:"workers"`
	Standing  Standing `json:"standing"`
	// Report is the node's own; without one, Trouble says why.
	Report  json.RawMessage `json:"report,omitempty"`
	Trouble string          `json:"trouble,omitempty"`
}

// combine makes a view of what the seats reported.
func (c *coordinator) combine(reports map[*chair]json.RawMessage) View {
	me := c.m.self
	v := View{
		RunID: me.RunID, Job: c.job, Phase: c.phase.String(), Round: c.round, Restart: c.restart, MaxRestarts: c.maxRestarts,
		Min: me.Min, Max: me.Max, Coordinator: me.ID,
	}
	held := c.world != nil && c.phase != forming
	if held {
		v.Round, v.Restart, v.Size = c.world.Round, c.world.Restart, c.world.Size
	}
	switch c.phase {
	case executing, halting:
		v.Age = c.m.now.Sub(c.began)
	}
	if c.phase != executing && c.phase != decided {
		v.Status = c.status()
	}
	switch {
	case c.phase == decided && c.outcome.Cause != nil:
		v.Failure = cut(c.outcome.Cause.Line(), maxText)
	case c.phase == halting && len(c.failures) > 0:
		first := c.first()
		v.Failure = cut(first.Line(), maxText)
	case len(c.records) > 0 && c.records[len(c.records)-1].Cause != nil:
		v.Failure = cut(c.records[len(c.records)-1].Cause.Line(), maxText)
	}
	room := maxView
	if held {
		for i := range c.world.Members {
			n := seenMember(&c.world.Members[i], i)
			n.Standing, n.Trouble = NodeLost, "it is not connected"
			if s := c.seatOf(n.ID); s != nil {
				n.Standing = NodeActive
				n.take(s, reports, &room)
			}
			v.Nodes = append(v.Nodes, n)
		}
	}
	for _, s := range c.seats {
		if held && s.inWorld {
			continue
		}
		n := Seen{ID: s.node.ID, Host: s.node.Host, Addr: s.node.Addr, GroupRank: -1, FirstRank: -1, Workers: s.node.Workers, Standing: NodeWaiting}
		if held {
			n.Standing = NodeSpare
		}
		n.take(s, reports, &room)
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

func seenMember(p *Member, group int) Seen {
	return Seen{ID: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: group, FirstRank: p.FirstRank, Workers: p.Workers, Standing: NodeUnknown}
}

// take adds a node's report while there is room for it.
func (n *Seen) take(s *chair, reports map[*chair]json.RawMessage, room *int) {
	body, ok := reports[s]
	switch {
	case !ok:
		n.Trouble = "it has not answered within " + surveyTime.String()
	case body == nil:
		n.Trouble = "what it tells of itself is too long"
	case len(body) > *room:
		n.Trouble = tooMany
	default:
		n.Report, n.Trouble = body, ""
		*room -= len(body)
	}
}

// ownView is what a member knows without its coordinator.
func (m *Machine) ownView(body json.RawMessage) View {
	v := View{RunID: m.self.RunID, Phase: "seeking", Min: m.self.Min, Max: m.self.Max, Nodes: []Seen{}}
	w := m.mem.sealed
	if w == nil {
		v.Status = m.seekStatus()
	} else {
		v.Job, v.Round, v.Restart, v.MaxRestarts, v.Size = w.Job, w.Round, w.Restart, w.MaxRestarts, w.Size
		v.Phase = [...]string{"recovering", "running", "running", "stopping"}[m.mem.work]
		if m.mem.told != nil {
			v.Failure = cut(m.mem.told.Line(), maxText)
		}
		for i := range w.Members {
			v.Nodes = append(v.Nodes, seenMember(&w.Members[i], i))
		}
	}
	switch {
	case m.coord != nil:
		v.Note = "the coordinator on this node has not answered itself"
	case m.mem.linked:
		v.Note = "the coordinator at " + m.mem.at + " has not answered within " + queryTime.String() + "; this is what one node knows"
	case w == nil:
		v.Note = "no coordinator has answered yet; this is what one node knows"
	default:
		v.Note = "the coordinator was lost; this is what one node knows"
	}
	i := slices.IndexFunc(v.Nodes, func(n Seen) bool { return n.ID == m.self.ID })
	if i < 0 {
		i = len(v.Nodes)
		v.Nodes = append(v.Nodes, Seen{
			ID: m.self.ID, Host: m.self.Host, Addr: m.self.Addr, GroupRank: -1, FirstRank: -1, Workers: m.self.Workers, Standing: NodeWaiting,
		})
	} else if m.mem.work != idle {
		v.Nodes[i].Standing = NodeActive
	}
	v.Nodes[i].Report = body
	return v
}

// written puts a view down, in limit bytes at most. Reports are JSON wherever they
// come from; if one is not, the others are told.
func (v View) written(limit int) json.RawMessage {
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Report != nil && !json.Valid(n.Report) {
			n.Report, n.Trouble = nil, "what it tells of itself makes no sense"
		}
	}
	b := v.json()
	if len(b) > limit { // JSON may take six bytes for one
		for i := range v.Nodes {
			v.Nodes[i].Report, v.Nodes[i].Trouble = nil, tooMany
		}
		b = v.json()
	}
	if len(b) > limit {
		v.Nodes, v.Status, v.Note = []Seen{}, nil, tooMany
		b = v.json()
	}
	return b
}

const tooMany = "there are too many nodes to tell of"

func (v View) json() []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("rendezvous: a view is always JSON: " + err.Error())
	}
	return b
}
