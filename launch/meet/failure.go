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

// backendError is an error of the backend. The nodes cannot find each other or stay
// connected.
type backendError struct{ error }

// maxOtherSecrets bounds the reported hosts with another secret.
const maxOtherSecrets = 16

// reportFailure reports an error after which this node cannot stay in the job.
func (s *Session) reportFailure(err error) {
	foreign, isForeign := errors.AsType[*gossip.Foreign](err)
	_, isOther := errors.AsType[*secret.Mismatch](err)
	_, isTaken := errors.AsType[*gossip.PortTaken](err)
	_, isApart := errors.AsType[*backendError](err)
	kind, text := rendezvous.KindAgent, err.Error()
	if isForeign || isOther || isApart {
		kind = rendezvous.KindRendezvous
	}
	portTaken := isForeign && foreign.OtherJob || isOther || isTaken
	if endpoints := s.opts.Network.Endpoints; portTaken && len(endpoints) == 1 && !endpoints[0].IsService() {
		text += s.suggestPort(endpoints[0])
	}
	s.opts.OnFailure(kind, text)
}

// suggestPort returns the end of a sentence about a taken port: the user's command with
// another port.
func (s *Session) suggestPort(at spec.Endpoint) string {
	if s.opts.CommandWith == nil {
		return ""
	}
	at.Port = freePort(at)
	flag, value := "rdzv-endpoint", at.String()
	if by := s.opts.Network.MasterFrom; len(by) > 0 && strings.Contains(strings.ToLower(by[0]), "master") {
		flag, value = "master-port", strconv.Itoa(at.Port)
	}
	return "; if this is another job, give all its nodes another port; on this node: " + s.opts.CommandWith(flag, value)
}

// reportOtherSecret reports that the agent on a host has another secret. A static node
// that has not yet joined a world knows only the master, so it ends. Other nodes
// report each host once and wait for the right nodes. Otherwise an attacker could end
// the job with a wrong secret.
func (s *Session) reportOtherSecret(host string, dialed bool) {
	s.mu.Lock()
	fatal := dialed && s.opts.Network.Backend == spec.Static && !s.joined
	known := s.ended || s.otherSecrets[host]
	if fatal {
		s.ended = true
	} else if !known && !s.opts.OtherPrints && len(s.otherSecrets) < maxOtherSecrets {
		s.otherSecrets[host] = true
	} else {
		known = true
	}
	s.mu.Unlock()
	switch {
	case known:
	case fatal:
		s.reportFailure(&secret.Mismatch{At: s.opts.Network.Endpoints[0].String()})
	default: // every waiting node prints it
		s.opts.Post(rendezvous.Refused{Why: (&secret.Mismatch{At: host}).Error()})
	}
}

// reportForeignTLS reports a program other than gorun that speaks TLS to a job without
// a secret.
func (s *Session) reportForeignTLS(ip string) {
	s.opts.Note("tls", fmt.Sprintf("a program at %s that is not gorun speaks TLS to this job, which has no secret; gorun ignores it", ip))
}
