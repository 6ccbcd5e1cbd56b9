package meet

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gorun/gorun/launch/handout"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/etcd"
	"github.com/gorun/gorun/rendezvous/portshare"
	"github.com/gorun/gorun/rendezvous/secret"
)

// NoSecret is the error of a node that cannot get the job's secret from the node that
// made it.
type NoSecret struct{ Text string }

func (n *NoSecret) Error() string { return n.Text }

// Secret is the secret of this run, of the user or of the nodes.
type Secret struct {
	secret.Secret
	From string // where the nodes have it from: "a munge credential"; "": the user gave it, or there is none
	Why  string // why the nodes made none; "": unknown
	Open bool   // strangers may read it, too
}

// findSecret finds the secret of a job whose user gave none. The node that serves the
// first endpoint makes it, and the others ask there. serves is the endpoint that this
// node is about to serve; -1: none.
func (s *Session) findSecret(ctx context.Context, endpoints []spec.Endpoint, serves int) error {
	h := s.opts.Handout
	if h == nil || s.opts.Secret.Given() {
		return nil
	}
	doing, find := "looking for a way to hand out this job's secret", h.Make
	if serves != 0 {
		doing = "waiting for this job's secret from " + endpoints[0].String()
		find = func(ctx context.Context) (secret.Secret, error) {
			return h.Ask(ctx, endpointTexts(endpoints, ""), serves)
		}
	}
	limit := s.opts.Network.Conf.JoinTimeout
	var err error
	s.Secret.Secret, err = waitFor(ctx, s, doing, func(ctx context.Context) (secret.Secret, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return find(ctx)
	})
	s.Secret.From, s.Secret.Why = h.Source()
	if refused, ok := errors.AsType[*handout.Refused](err); ok {
		text := refused.Text
		if refused.OtherJob && len(endpoints) == 1 {
			text += s.suggestPort(endpoints[0])
		}
		return &NoSecret{text}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &NoSecret{fmt.Sprintf("%v; %s was not there within %v (join_timeout)", err, endpoints[0], limit)}
	}
	return err
}

// readSecret reads the secret that the nodes share in etcd. Without a client's
// certificate and without a user every program that reaches etcd may read it.
func (s *Session) readSecret(ctx context.Context, fence *etcd.Etcd, at string) error {
	n := &s.opts.Network
	text, err := waitFor(ctx, s, "reading this job's secret in "+at, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, n.Conf.JoinTimeout)
		defer cancel()
		return fence.Secret(ctx)
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &NoSecret{fmt.Sprintf("cannot find the other nodes in etcd: %s has not answered within %v (join_timeout)", at, n.Conf.JoinTimeout)}
	case ctx.Err() != nil:
		return err
	case etcd.IsFinal(err):
		return &NoSecret{fmt.Sprintf("cannot find the other nodes in etcd: %v", err)}
	case err != nil:
		return err
	}
	given, err := secret.New([]byte(text))
	if err != nil {
		return fmt.Errorf("cannot use the secret in %s: %w", at, err)
	}
	s.Secret = Secret{Secret: given.For(s.opts.Node.RunID), From: at, Open: n.Etcd.Cert == "" && n.Etcd.User == ""}
	return nil
}

// handOut returns the part that hands out the secret at a port that others share.
func (s *Session) handOut(share *portshare.Share) []part {
	h := s.opts.Handout
	if h == nil {
		return nil
	}
	requests := share.Beginning(handout.First)
	return []part{func(ctx context.Context) error { return h.Serve(ctx, requests) }}
}

// sharedPort is one listener of a port. Closing it closes the port.
type sharedPort struct {
	net.Listener
	port net.Listener
}

func (p sharedPort) Close() error { return errors.Join(p.Listener.Close(), p.port.Close()) }
