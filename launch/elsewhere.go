package launch

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous/gossip"
	"github.com/gorun/gorun/rendezvous/secret"
)

// elsewhere is the user's own command with another port, where the error says that
// the port of this job's only endpoint may be another job's or program's; else "".
func (a *agent) elsewhere(err error) string {
	foreign, isForeign := errors.AsType[*gossip.Foreign](err)
	_, isOther := errors.AsType[*secret.Other](err)
	_, isTaken := errors.AsType[*gossip.Taken](err)
	if len(a.opts.Spec.Endpoints) != 1 || !(isForeign && foreign.Elsewhere || isOther || isTaken) {
		return ""
	}
	return a.ownPort(a.opts.Spec.Endpoints[0])
}

// ownPort ends a sentence about a port that is taken with the user's own command
// for another one.
func (a *agent) ownPort(at spec.Endpoint) string {
	if a.opts.Elsewhere == nil {
		return ""
	}
	at.Port = freePort(at)
	flag, value := "rdzv-endpoint", at.String()
	if by := a.opts.Spec.MeetBy; len(by) > 0 && strings.Contains(strings.ToLower(by[0]), "master") {
		flag, value = "master-port", strconv.Itoa(at.Port)
	}
	command := a.opts.Elsewhere(flag, value)
	if command == nil {
		return ""
	}
	return "; if this is a job of its own, give all its nodes another port, this one with: " + wrap.Quoted(ncclenv.ShownWords(command))
}

const (
	portsTried   = 50
	portsTriedIn = time.Second // also where a firewall swallows the question
)

// freePort is the next port of a host at which nothing answers now. Every node of
// the job finds the same.
func freePort(at spec.Endpoint) int {
	end := time.Now().Add(portsTriedIn)
	for port := at.Port + 1; port <= min(at.Port+portsTried, 1<<16-1) && time.Now().Before(end); port++ {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(at.Host, strconv.Itoa(port)), time.Until(end))
		if err == nil {
			c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			return port
		}
	}
	if at.Port == 1<<16-1 {
		return spec.DefaultPort
	}
	return at.Port + 1
}
