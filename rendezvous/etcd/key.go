package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
)

// keys are the names of one run's keys, as this agent uses them.
type keys struct {
	all         string // prefix of all of them
	job         string // prefix of coordinator and round
	coordinator string
	round       string
	nodes       string // prefix of all nodes
	self        string // this agent's own
	secret      string
	holders     string // prefix of the keys of agents that use the secret
	holder      string // this agent's key among them
}

func newKeys(prefix, run string, id rendezvous.NodeID) keys {
	all := strings.TrimSuffix(prefix, "/") + "/" + url.PathEscape(run) + "/"
	k := keys{all: all, job: all + "job/", nodes: all + "node/"}
	k.coordinator, k.round = k.job+"coordinator", k.job+"round"
	k.self = k.node(id)
	k.secret, k.holders = all+"secret", all+"holder/"
	k.holder = k.holders + url.PathEscape(string(id))
	return k
}

func (k keys) node(id rendezvous.NodeID) string { return k.nodes + url.PathEscape(string(id)) }

// Bounds of a value, which is text. A value is bounded before it is decoded, and checked
// before it is used, because any client of etcd may have written it.
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
	Vacated int               `json:"vacated"` // no worker of this round or an earlier one is there; -1: unknown
}

func (a agent) peer(endpoint int) rendezvous.Peer {
	return rendezvous.Peer{ID: a.ID, Name: a.Name, Control: a.Control, Endpoint: endpoint}
}

// round is the value of the round's key: a line of JSON, then a short line for each
// member, because all agents read it as soon as it is written.
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
	return slices.ContainsFunc(r.Members, func(m member) bool { return m.ID == id })
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
	return &a, checkWords(string(a.ID), a.Name, a.Control)
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
		if err := checkWords(id, control); err != nil {
			return nil, err
		}
		r.Members = append(r.Members, member{rendezvous.NodeID(id), control})
	}
	return &r, checkWords(r.Job, r.Digest, string(r.Sealer), r.Control)
}

// checkWords refuses words that are too long or not fit for a terminal.
func checkWords(words ...string) error {
	for _, w := range words {
		if len(w) > maxWord || strings.ContainsFunc(w, term.Unfit) || !utf8.ValidString(w) {
			return errors.New("it has control characters, or names that are too long")
		}
	}
	return nil
}

// clip makes a text from elsewhere short and fit for a terminal.
func clip(s string) string {
	return term.Truncate(strings.Map(func(r rune) rune {
		if term.Unfit(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")), 256)
}
