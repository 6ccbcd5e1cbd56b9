package gossip

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// meta is what an agent reports of itself to all others, at most memberlist.MetaMaxSize
// (512) bytes. memberlist panics if it is longer.
type meta struct {
	Protocol int    `json:"p"`
	Run      string `json:"r"` // run id, cut to maxRun bytes and a hash when longer
	Name     string `json:"n"`
	Control  string `json:"c"`
	Endpoint int    `json:"e"`
}

const (
	maxName = 128
	maxRun  = 128 // in JSON
)

func (m meta) encode() ([]byte, error) {
	m.Name = term.Truncate(strings.Map(func(r rune) rune {
		if term.Unfit(r) { // decodeMeta refuses it
			return '?'
		}
		return r
	}, m.Name), maxName)
	b, err := json.Marshal(m)
	for err == nil && len(b) > memberlist.MetaMaxSize && m.Name != "" { // characters that JSON escapes
		m.Name = term.Truncate(m.Name, len(m.Name)/2)
		b, err = json.Marshal(m)
	}
	if err == nil && len(b) > memberlist.MetaMaxSize {
		err = fmt.Errorf("%d bytes are over memberlist's limit of %d", len(b), memberlist.MetaMaxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot describe this agent to the others: %w", err)
	}
	return b, nil
}

// decodeMeta reads the meta of another process.
func decodeMeta(b []byte) (meta, error) {
	var m meta
	if len(b) > memberlist.MetaMaxSize {
		return m, fmt.Errorf("node metadata of %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("node metadata is not gorun's: %w", err)
	}
	if strings.ContainsFunc(m.Name+m.Control, term.Unfit) { // they reach a terminal
		return meta{}, errors.New("node metadata with control characters")
	}
	return m, nil
}

func (m meta) peer(id string) rendezvous.Peer {
	return rendezvous.Peer{ID: rendezvous.NodeID(id), Name: m.Name, Control: m.Control, Endpoint: m.Endpoint}
}
