package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/rendezvous"
)

// findRequest reads what the user asks of the workers' environment.
func (a *agent) findRequest(ctx context.Context) error {
	want := &a.opts.Spec.Env
	o := envprop.Options{X: want.Export, Unset: want.Unset}
	for _, name := range want.Files {
		text, err := await(ctx, a, "reading --env-file "+name, func(context.Context) ([]byte, error) {
			text, _, err := smallfile.Read(name, envprop.MaxEnvFile)
			return text, err
		})
		if _, stop := errors.AsType[*stopped](err); stop {
			return err
		}
		if err != nil {
			return &UsageError{Err: fmt.Errorf("--env-file %s: %w", name, err)}
		}
		o.Files = append(o.Files, envprop.EnvFile{Name: name, Text: text})
	}
	r, err := envprop.NewRequest(o, a.opts.Env)
	if err != nil {
		return &UsageError{Err: err}
	}
	if a.warns() {
		for _, note := range r.Notes {
			a.console.say("%s", note)
		}
	}
	a.request = r
	return nil
}

// warnOfClearText says that credentials travel unencrypted, where they do.
func (a *agent) warnOfClearText() {
	i := slices.IndexFunc(a.request.Asks, func(ask envprop.Ask) bool {
		return ncclenv.Credential(ask.Name) || ask.Value.Secret()
	})
	if i >= 0 && a.open() {
		a.console.say("warning: %s travels to the other nodes in clear: give every node the same --secret-file", a.request.Asks[i].At)
	}
}

// base is what the workers of a round have in common on this node.
func (a *agent) base(c rendezvous.Start) (envprop.Base, error) {
	if c.Env == nil { // alone: nobody else had to be heard
		return a.guess(), nil
	}
	b := envprop.NewBase(a.opts.Env).Apply(a.request.Keep())
	given, err := envprop.DecodeAssignment(c.Env)
	if err != nil {
		return b, err
	}
	if !a.opts.Spec.Trusted {
		given = a.distrust(given, max(0, c.World.Index(a.node.ID)))
	}
	return b.Apply(given), nil
}

// maxRefused bounds the values of other nodes that the user hears of.
const maxRefused = 16

// distrust takes of what others decided for this node only what cannot run code
// here. A coordinator of this version leaves the rest out itself.
func (a *agent) distrust(given envprop.Assignment, rank int) envprop.Assignment {
	n := envprop.Node{Host: a.node.Host, Addr: a.node.Addr, Role: a.node.Role}
	safe, left := given.Distrust(check.AloneAt(rank, n, a.opts.Env, a.request))
	for _, s := range left {
		if note := fmt.Sprintf("%s (%s) is not taken: %s", s.Name, s.Source, envprop.Distrusted); !a.refused[note] && len(a.refused) < maxRefused {
			if a.refused == nil {
				a.refused = map[string]bool{}
			}
			a.refused[note] = true
			a.console.say("%s", note)
		}
	}
	return safe
}

// guess is what the workers will have in common as far as this node decides it.
func (a *agent) guess() envprop.Base {
	b := envprop.NewBase(a.opts.Env).Apply(a.request.Keep())
	if len(a.request.Asks) == 0 {
		return b
	}
	n := envprop.Node{Host: a.node.Host, Addr: a.node.Addr, Role: a.node.Role}
	return b.Apply(check.Alone(n, a.opts.Env, a.request))
}

// noteThreads says once what OMP_NUM_THREADS is.
func (a *agent) noteThreads(p *plan) {
	if a.toldOMP || a.opts.quiet() {
		return
	}
	a.toldOMP = true
	if note := p.base.OMPNote(p.vars(0)); note != "" {
		a.console.say("%s", note)
	}
}
