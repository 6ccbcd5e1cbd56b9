package flight

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Answer is what the recorders of one node's ranks hold, as its agent sends it to the
// other nodes.
type Answer struct {
	Dumps   []Dump    `json:"dumps,omitempty"`
	Missing []Missing `json:"missing,omitempty"`
}

// Missing is a rank whose recorder gave nothing.
type Missing struct {
	Rank int    `json:"rank"`
	Why  string `json:"why"`
}

// maxAnswer bounds an answer in bytes.
const maxAnswer = 192 << 10

// tailLengths are the numbers of calls that NewAnswer tries to keep of each group.
var tailLengths = []int{16, 8, 4, 2, 1}

// NewAnswer makes an answer of whole dumps. The more ranks and groups a node has, the
// fewer calls it keeps of each.
func NewAnswer(dumps []Dump, missing []Missing) Answer {
	a := Answer{Missing: missing}
	for _, n := range tailLengths {
		a.Dumps = nil
		for _, d := range dumps {
			a.Dumps = append(a.Dumps, d.Tail(n))
		}
		if b, err := json.Marshal(a); err == nil && len(b) <= maxAnswer {
			return a
		}
	}
	// No job has as many groups. Those that fit say more than none.
	for len(a.Dumps) > 0 {
		d := a.Dumps[len(a.Dumps)-1]
		a.Dumps = a.Dumps[:len(a.Dumps)-1]
		a.Missing = append(a.Missing, Missing{d.Rank, "its groups are too many for a message"})
		if b, err := json.Marshal(a); err == nil && len(b) <= maxAnswer {
			break
		}
	}
	return a
}

// DecodeAnswer reads an answer of another node, which it does not trust.
func DecodeAnswer(body []byte) (Answer, error) {
	var a Answer
	if len(body) > 2*maxAnswer {
		return a, errors.New("it is too long")
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return Answer{}, fmt.Errorf("it cannot be read: %w", err)
	}
	for i := range a.Dumps {
		d := &a.Dumps[i]
		if d.Rank < 0 || d.Rank > maxRank || len(d.Groups) > maxGroups {
			return Answer{}, fmt.Errorf("it has a dump of rank %d with %d groups", d.Rank, len(d.Groups))
		}
		for id, g := range d.Groups {
			d.Groups[id] = Group{Short(g.Name), Short(g.Desc), g.Ranks}
		}
		for k := range d.Calls {
			c := &d.Calls[k]
			c.Name, c.Sizes, c.Types, c.For = Short(c.Name), Short(c.Sizes), Short(c.Types), max(0, c.For)
			for i, f := range c.Frames {
				c.Frames[i] = Frame{Short(f.File), f.Line, Short(f.Func)}
			}
			if c.Seq < 0 {
				return Answer{}, fmt.Errorf("it has a call with the number %d", c.Seq)
			}
		}
	}
	for i := range a.Missing {
		a.Missing[i].Why = Short(a.Missing[i].Why)
	}
	return a, nil
}
