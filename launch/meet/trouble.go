package meet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/gossip"
	"github.com/gorun/gorun/rendezvous/secret"
)

// apart is an error because of which the nodes cannot meet or stay together.
type apart struct{ error }

// maxOthers bounds the hosts with another secret that are reported.
const maxOthers = 16

// fail reports an error after which this node cannot stay in the job.
func (s *Session) fail(err error) {
	foreign, isForeign := errors.AsType[*gossip.Foreign](err)
	_, isOther := errors.AsType[*secret.Mismatch](err)
	_, isTaken := errors.AsType[*gossip.PortTaken](err)
	_, isApart := errors.AsType[*apart](err)
	kind, text := rendezvous.KindAgent, err.Error()
	if isForeign || isOther || isApart {
		kind = rendezvous.KindRendezvous
	}
	portTaken := isForeign && foreign.OtherJob || isOther || isTaken
	if endpoints := s.opts.Network.Endpoints; portTaken && len(endpoints) == 1 {
		text += s.suggestPort(endpoints[0])
	}
	s.opts.Failed(kind, text)
}

// suggestPort ends a sentence about a taken port with the user's own command for
// another port.
func (s *Session) suggestPort(at spec.Endpoint) string {
	if s.opts.Elsewhere == nil {
		return ""
	}
	at.Port = freePort(at)
	flag, value := "rdzv-endpoint", at.String()
	if by := s.opts.Network.MeetBy; len(by) > 0 && strings.Contains(strings.ToLower(by[0]), "master") {
		flag, value = "master-port", strconv.Itoa(at.Port)
	}
	command := s.opts.Elsewhere(flag, value)
	if command == "" {
		return ""
	}
	return "; if this is a job of its own, give all its nodes another port, this one with: " + command
}

// reportOther reports that the agent on a host has another secret. A static node
// that has not yet joined a world knows only the master, so it ends. Other nodes
// say so, once for each host, and wait for the right nodes. Otherwise an attacker
// could end the job with a wrong secret.
func (s *Session) reportOther(host string, dialed bool) {
	s.mu.Lock()
	fatal := dialed && s.opts.Network.Backend == spec.Static && !s.joined
	again := s.parted || s.others[host]
	if fatal {
		s.parted = true
	} else if !again && !s.opts.Quiet && len(s.others) < maxOthers {
		s.others[host] = true
	} else {
		again = true
	}
	s.mu.Unlock()
	switch {
	case again:
	case fatal:
		s.fail(&secret.Mismatch{At: s.opts.Network.Endpoints[0].String()})
	default: // every node that waits prints it
		s.opts.Post(rendezvous.Refused{Why: (&secret.Mismatch{At: host}).Error()})
	}
}

// reportStranger reports that a program that is not gorun speaks TLS to a job
// without a secret.
func (s *Session) reportStranger(ip string) {
	s.opts.Note("tls", fmt.Sprintf("something at %s that is no gorun speaks TLS to this job, which has no secret; it is not answered", ip))
}
