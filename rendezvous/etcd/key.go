package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
)

// keys are the names of one run's keys, as this agent uses them.
type keys struct {
	all         string // what all begin with
	job         string // what coordinator and round begin with
	coordinator string
	round       string
	nodes       string // what all nodes begin with
	self        string // this agent's node
}

func newKeys(prefix, run string, id rendezvous.NodeID) keys {
	all := strings.TrimSuffix(prefix, "/") + "/" + url.PathEscape(run) + "/"
	k := keys{all: all, job: all + "job/", nodes: all + "node/"}
	k.coordinator, k.round = k.job+"coordinator", k.job+"round"
	k.self = k.node(id)
	return k
}

func (k keys) node(id rendezvous.NodeID) string { return k.nodes + url.PathEscape(string(id)) }

// Values are text. A value that another agent or person has written is bounded before
// it is read and checked before it is used.
const (
	maxAgent   = 8 << 10
	maxRound   = 1536 << 10    // what etcd takes in one request by default
	maxMembers = maxRound / 32 // about 40,000 with addresses and ids of usual length
	maxWord    = 1024          // bytes of an id, a name, an address
	maxCount   = 1 << 30
)

// agent is the value of a node's key and of the coordinator's.
type agent struct {
	ID      rendezvous.NodeID `json:"id"`
	Name    string            `json:"name"`
	Control string            `json:"control"`
	Vacated int               `json:"vacated"` // no worker of this round or an earlier one is there; -1: nothing said
}

func (a agent) peer(endpoint int) rendezvous.Peer {
	return rendezvous.Peer{ID: a.ID, Name: a.Name, Control: a.Control, Endpoint: endpoint}
}

// round is the value of the round's key: a line of JSON, then a line for each
// member, since all agents read it as soon as it is written.
type round struct {
	Job     string            `json:"job"`
	Term    int               `json:"term"`
	Round   int               `json:"round"`
	Digest  string            `json:"digest"` // of the whole world
	Sealer  rendezvous.NodeID `json:"sealer"`
	Control string            `json:"control"` // the sealer's
	Members []member          `json:"-"`
}

type member struct {
	ID      rendezvous.NodeID
	Control string
}

// has reports whether a node is a member.
func (r *round) has(id rendezvous.NodeID) bool {
	for _, m := range r.Members {
		if m.ID == id {
			return true
		}
	}
	return false
}

func (r *round) ids() []rendezvous.NodeID {
	out := make([]rendezvous.NodeID, len(r.Members))
	for i, m := range r.Members {
		out[i] = m.ID
	}
	return out
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("etcd: structs of strings and numbers are always JSON: " + err.Error())
	}
	return string(b)
}

func decodeAgent(b []byte) (*agent, error) {
	if len(b) > maxAgent {
		return nil, fmt.Errorf("it has %d bytes", len(b))
	}
	a := agent{Vacated: -1}
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("it is not gorun's: %w", err)
	}
	if a.ID == "" || a.Vacated < -1 || a.Vacated > maxCount {
		return nil, errors.New("it is not gorun's")
	}
	return &a, words(string(a.ID), a.Name, a.Control)
}

func (r *round) encode() string {
	var b strings.Builder
	b.WriteString(encode(r))
	for _, m := range r.Members {
		b.WriteString("\n" + string(m.ID) + "\t" + m.Control)
	}
	return b.String()
}

func decodeRound(b []byte) (*round, error) {
	if len(b) > maxRound {
		return nil, fmt.Errorf("it has %d bytes", len(b))
	}
	head, rest, _ := strings.Cut(string(b), "\n")
	var r round
	if err := json.Unmarshal([]byte(head), &r); err != nil {
		return nil, fmt.Errorf("it is not gorun's: %w", err)
	}
	n := strings.Count(rest, "\n") + 1
	if r.Sealer == "" || n > maxMembers || r.Term < 0 || r.Term > maxCount || r.Round < 0 || r.Round > maxCount {
		return nil, errors.New("it is not gorun's")
	}
	r.Members = make([]member, 0, n)
	for line := range strings.SplitSeq(rest, "\n") {
		id, control, ok := strings.Cut(line, "\t")
		if !ok || id == "" {
			return nil, errors.New("it is not gorun's")
		}
		if err := words(id, control); err != nil {
			return nil, err
		}
		r.Members = append(r.Members, member{rendezvous.NodeID(id), control})
	}
	return &r, words(r.Job, r.Digest, string(r.Sealer), r.Control)
}

// words refuses what is too long or would reach a terminal as more than text.
func words(ws ...string) error {
	for _, w := range ws {
		if len(w) > maxWord || strings.ContainsFunc(w, term.Unfit) || !utf8.ValidString(w) {
			return errors.New("it has control characters, or names that are too long")
		}
	}
	return nil
}

// clip shortens a name that is only shown.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if term.Unfit(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > 256 {
		s = strings.ToValidUTF8(s[:256], "")
	}
	return s
}
