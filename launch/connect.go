package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/handout"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/munge"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/spec/surroundings"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/secret"
)

// secrets holds the keys of this agent.
type secrets struct {
	given secret.Secret // the user's secret, for gorun status
	run   secret.Secret // the secret of this run: the user's, or one that the nodes have made; known when the session is open

	made    meet.Secret    // how the nodes came to run
	handout *handout.Party // gives the nodes a secret; nil: no node asks
}

// findSecret takes the secret out of the environment. So no process that this agent
// starts, and no fact that it sends, contains the secret.
func (a *agent) findSecret(ctx context.Context) error {
	file, warning := a.opts.Spec.SecretFile, ""
	s, err := await(ctx, a.base, "reading --secret-file "+file, func(context.Context) (s secret.Secret, err error) {
		s, warning, err = secret.Find(file, func(name string) (string, bool) { return environ.Lookup(a.opts.Env, name) })
		return s, err
	})
	if _, stop := errors.AsType[*stopped](err); stop {
		return err
	}
	if err != nil {
		return &UsageError{Err: err}
	}
	if s.Given() {
		a.opts.Spec.SecretFrom = secret.Env
		if file != "" {
			a.opts.Spec.SecretFrom = "--secret-file " + file
		}
	}
	if local := a.opts.Local; local != nil && local.Secret != nil && !s.Given() {
		if s, err = secret.New(local.Secret); err != nil {
			return fmt.Errorf("cannot use the secret of this machine's nodes: %w", err)
		}
	}
	a.secrets = secrets{given: s, run: s.For(a.opts.Spec.RunID)}
	a.opts.Env = slices.DeleteFunc(slices.Clone(a.opts.Env), func(kv string) bool { return strings.HasPrefix(kv, secret.Env+"=") })
	if warning != "" && a.opts.printsWarnings() {
		a.note(warning)
	}
	a.handOutSecret(ctx)
	return nil
}

// handOutSecret prepares that the nodes of a Slurm step get a secret from the first of
// them if the user gives none. The tasks of a step belong to one user, and Slurm's nodes
// have one munge key, which holds for no other surroundings. A job that has more nodes
// than the step has nodes elsewhere, too.
func (a *agent) handOutSecret(ctx context.Context) {
	sp := &a.opts.Spec
	around := &sp.Surroundings
	if around.Kind != surroundings.SlurmStep || around.Nodes < sp.MaxNodes || a.opts.Local != nil || sp.Backend == spec.EtcdV3 || meet.IsAlone(&sp.Network, sp.MaxNodes) {
		return
	}
	env := a.opts.Env
	a.secrets.handout = handout.New(handout.Options{
		RunID: sp.RunID, Env: env, Given: a.secrets.given.Given(), Note: a.console.SayRarely,
		Refused: func(why string) { a.events.post(rendezvous.Refused{Why: why}) },
		Find: func(ctx context.Context) (handout.Credentials, error) {
			m, err := munge.Find(ctx, env, a.table.RunWith)
			if err != nil {
				return nil, err
			}
			return m, nil
		},
	})
	a.wg.Go(func() { a.secrets.handout.Prepare(ctx) })
}

// trust returns what the nodes prove to each other.
func (s *secrets) trust(runID string) check.Trust {
	return check.Trust{Key: s.probeKey(runID), Secret: s.run.Given() && !s.made.Open}
}

// probeKey returns the key that preflight's probes prove to each other. Without a
// secret it proves only that both probes belong to the same run.
func (s *secrets) probeKey(runID string) string {
	if !s.run.Given() {
		return runID
	}
	key := s.run.Key("probe")
	return hex.EncodeToString(key[:]) + " " + runID
}

// connect opens this agent's ports and starts to look for the other nodes.
func (a *agent) connect(ctx context.Context, identity *rendezvous.Identity) error {
	sp := &a.opts.Spec
	o := meet.Options{
		Network: sp.Network, Node: a.node, Identity: identity, Secret: a.secrets.run, Handout: a.secrets.handout, Pool: a.pool, Grace: sp.ShutdownTimeout,
		OtherPrints: a.opts.shares(), Post: a.events.post, Note: a.console.AnnounceRarely, CommandWith: a.opts.CommandWith,
		Wait: func(ctx context.Context, what string, f func(context.Context) error) error {
			_, err := await(ctx, a.base, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
			return err
		},
		OnFailure: func(kind rendezvous.Kind, text string) { a.events.Put(partFailed{kind, text}) },
	}
	if local := a.opts.Local; local != nil {
		o.Local.Addr = local.Addr
		if local.Index > 0 {
			o.Local.Endpoint = local.Endpoint
		} else {
			o.Local.Announce = local.Announce
		}
	}
	s, err := meet.Open(ctx, o)
	if missing, ok := errors.AsType[*meet.NoSecret](err); ok {
		return &stopped{a.base.nodeCause(rendezvous.KindRendezvous, missing.Text)}
	}
	if err != nil {
		return err
	}
	a.secrets.run, a.secrets.made = s.Secret.Secret, s.Secret
	sp.Trusted = s.Secret.Given() && !s.Secret.Open
	sp.SecretFrom = cmp.Or(s.Secret.From, sp.SecretFrom)
	a.wg.Go(func() { s.Run(ctx) })
	a.session, a.workers.store, a.node = s, s.Store, s.Node
	c := s.Config
	c.MaxRestarts, c.Check, c.Grow, c.Token = sp.MaxRestarts, a.check != nil, !sp.JoinWaits, rand.Text
	a.machine = &drive.Machine{Machine: rendezvous.New(c, time.Now()), Streams: s.Streams, Fence: s.Fence, Post: a.events.post, Wait: &a.wg}
	return nil
}

// warnWithoutSecret warns what other machines can do to a job that has no secret and
// that they can reach.
func (a *agent) warnWithoutSecret() {
	ip, err := netip.ParseAddr(a.node.Addr)
	made := a.secrets.made
	if a.opts.Spec.Trusted || a.opts.Spec.MaxNodes == 1 || err == nil && ip.IsLoopback() || !a.opts.printsWarnings() {
		return
	}
	const advice = "give every node the same --secret-file FILE, made with: openssl rand -hex 32 >FILE"
	if made.Open {
		a.console.Say("warning: %s asks for no certificate and no user: any program that reaches it can read this job's secret; give --etcd-cert and --etcd-key or --etcd-user, or %s", made.From, advice)
		return
	}
	why := ""
	if made.Why != "" {
		why = "; gorun made none: " + made.Why
	}
	a.console.Say("warning: this job has no secret: any program that reaches its ports can join it, set variables of its workers, or end it; %s%s", advice, why)
	if at := a.env.request.CredentialAt(); at != "" {
		a.console.Say("warning: %s travels to the other nodes in clear: give every node the same --secret-file", at)
	}
}
