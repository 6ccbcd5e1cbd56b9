package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/gorun/gorun/rendezvous"
)

// letter is a message that leaves, marshalled once for however many streams, because
// a coordinator sends each of its members the same.
type letter struct {
	msg  rendezvous.Message
	data func() ([]byte, error)
}

func newLetter(msg rendezvous.Message, r *roster) *letter {
	return &letter{msg, sync.OnceValues(func() ([]byte, error) { return marshal(msg, r) })}
}

// roster is the roster of one world, written once for all members. Each member may
// get more than the roster.
type roster struct {
	world *rendezvous.World
	text  func() (string, bool)
}

func newRoster(w *rendezvous.World) *roster {
	return &roster{w, sync.OnceValues(func() (string, bool) { return rendezvous.Roster(w.Members) })}
}

// marshal makes the bytes of a message. It takes the roster of the message's world,
// nil if it has none.
func marshal(msg rendezvous.Message, r *roster) ([]byte, error) {
	if r == nil {
		return json.Marshal(msg)
	}
	text, ok := r.text()
	if !ok {
		return json.Marshal(msg)
	}
	head := *msg.World
	head.Members = nil
	msg.World = &head
	b, err := json.Marshal(msg)
	if err != nil {
		return nil, err
	}
	return slices.Concat(b, []byte{'\n'}, []byte(text)), nil
}

func unmarshal(data []byte, msg *rendezvous.Message) error {
	head, text, found := bytes.Cut(data, []byte{'\n'})
	if err := json.Unmarshal(head, msg); err != nil || !found {
		return err
	}
	if msg.World == nil || msg.World.Members != nil {
		return errors.New("a roster without a world")
	}
	var err error
	msg.World.Members, err = rendezvous.ParseRoster(string(text))
	return err
}

// letter returns the latest letter if it has the same message, because a coordinator
// sends to one member after the other.
func (p *Plane) letter(msg rendezvous.Message) *letter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == nil || !reflect.DeepEqual(p.latest.msg, msg) {
		var r *roster
		if msg.World != nil {
			if p.roster == nil || p.roster.world != msg.World {
				p.roster = newRoster(msg.World)
			}
			r = p.roster
		}
		p.latest = newLetter(msg, r)
	}
	return p.latest
}
