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
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
)

// environment decides what the workers of this node have in common.
type environment struct {
	*base
	request envprop.Request // what the user asks of it on this node
	refused map[string]bool // notes on refused values of other nodes that were printed
	ompSaid bool
}

// find reads what the user asks of the workers' environment.
func (e *environment) find(ctx context.Context) error {
	want := &e.opts.Spec.Env
	o := envprop.Options{X: want.Export, Unset: want.Unset}
	for _, name := range want.Files {
		text, err := await(ctx, e.base, "reading --env-file "+name, func(context.Context) ([]byte, error) {
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
	r, err := envprop.NewRequest(o, e.opts.Env)
	if err != nil {
		return &UsageError{Err: err}
	}
	if e.opts.warns() {
		for _, note := range r.Notes {
			e.note(note)
		}
	}
	e.request = r
	return nil
}

// credential returns where the user asks for the first credential that travels to
// other nodes, or "" if none does.
func (e *environment) credential() string {
	i := slices.IndexFunc(e.request.Asks, func(ask envprop.Ask) bool {
		return ncclenv.Credential(ask.Name) || ask.Value.Secret()
	})
	if i < 0 {
		return ""
	}
	return e.request.Asks[i].At
}

// roundEnv holds what the workers of a round have in common, or an error.
type roundEnv struct {
	base envprop.Base
	err  error
}

// round decides what the workers of a round have in common on this node.
func (e *environment) round(c rendezvous.Start) roundEnv {
	if c.Env == nil { // this node is alone and needs no answer from others
		return roundEnv{base: e.guess()}
	}
	b := envprop.NewBase(e.opts.Env).Apply(e.request.Keep())
	given, err := envprop.DecodeAssignment(c.Env)
	if err != nil {
		return roundEnv{b, err}
	}
	if !e.opts.Spec.Trusted {
		given = e.distrust(given, max(0, c.World.Index(e.node.ID)))
	}
	return roundEnv{base: b.Apply(given)}
}

// maxRefused bounds the number of refused values of other nodes that are printed.
const maxRefused = 16

// distrust returns the part of other nodes' decisions for this node that cannot run
// code here. A coordinator of this version leaves the rest out itself.
func (e *environment) distrust(given envprop.Assignment, rank int) envprop.Assignment {
	safe, left := given.Distrust(check.AloneAt(rank, e.self(), e.opts.Env, e.request))
	for _, s := range left {
		if note := fmt.Sprintf("%s (%s) is not taken: %s", s.Name, s.Source, envprop.Distrusted); !e.refused[note] && len(e.refused) < maxRefused {
			if e.refused == nil {
				e.refused = map[string]bool{}
			}
			e.refused[note] = true
			e.note(note)
		}
	}
	return safe
}

// guess returns what the workers will have in common, as far as this node decides
// it.
func (e *environment) guess() envprop.Base {
	b := envprop.NewBase(e.opts.Env).Apply(e.request.Keep())
	if len(e.request.Asks) == 0 {
		return b
	}
	return b.Apply(check.Alone(e.self(), e.opts.Env, e.request))
}

// self returns this node in the form that package envprop uses.
func (e *environment) self() envprop.Node {
	return envprop.Node{Host: e.node.Host, Addr: e.node.Addr, Role: e.node.Role}
}

// noteThreads prints once which value OMP_NUM_THREADS has.
func (e *environment) noteThreads(p *workers.Plan) {
	if e.ompSaid || e.opts.quiet() {
		return
	}
	e.ompSaid = true
	if note := p.Base.OMPNote(p.Vars(0, "")); note != "" {
		e.note(note)
	}
}
