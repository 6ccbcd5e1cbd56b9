package launch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/launch/recorder"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker/contract"
)

// environment decides what the workers of this node have in common.
type environment struct {
	*base
	request envprop.Request // what the user asks of it on this node
	refused []string        // printed notes on refused values of other nodes
	noted   bool            // noteThreads has printed its note
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
	if e.opts.printsWarnings() {
		for _, note := range r.Notes {
			e.note(note)
		}
	}
	e.request = r
	return nil
}

// local returns this node as it is before the coordinator's decision.
func (e *environment) local() envprop.Local {
	return envprop.Local{
		Node: envprop.Node{Host: e.node.Host, Addr: e.node.Addr, Role: e.node.Role}, Env: e.opts.Env, Request: e.request,
	}
}

// round returns what the workers of a round have in common on this node.
func (e *environment) round(c rendezvous.Start) (envprop.Base, error) {
	if c.Env == nil { // this node is alone and needs no answer from others
		return e.local().ExpectedBase(), nil
	}
	b, refused, err := e.local().ApplyDecision(c.Env, max(0, c.World.Index(e.node.ID)), e.opts.Spec.Trusted)
	for _, s := range refused {
		note := fmt.Sprintf("%s (%s) is not taken: %s", s.Name, s.Source, envprop.UntrustedReason)
		if !slices.Contains(e.refused, note) && len(e.refused) < maxRefused {
			e.refused = append(e.refused, note)
			e.note(note)
		}
	}
	return b, err
}

// maxRefused bounds the notes on refused values of other nodes.
const maxRefused = 16

// noteThreads prints once which value OMP_NUM_THREADS has.
func (e *environment) noteThreads(p *workers.Plan) {
	if e.noted || e.opts.leavesJobLinesToFirst() {
		return
	}
	e.noted = true
	if note := p.Base.OMPNote(p.Vars(0, "")); note != "" {
		e.note(note)
	}
}

// equipRecorder adds what makes PyTorch's flight recorder available to the workers of a
// plan: if they run on GPUs and in a torch that was built for them, as processes of a Python
// that gorun itself starts. A rank that cannot make its pipe ends, so a program that may see
// another file system gets none.
func (a *agent) equipRecorder(p *workers.Plan) {
	s := a.build.subject
	if a.opts.Spec.Env.NoRecorder || a.check == nil || p.Err != nil || s.Python == "" || !a.placement.UsesGPUs() {
		return
	}
	wrapper, err := a.build.wrapper()
	if err != nil || wrapper.Name() != "" {
		return
	}
	var at recorder.Folders
	if p.Folder != "" {
		at.Dumps = filepath.Join(p.Folder, "flight_rank_")
	}
	folder := a.opts.Scratch.Recorder()
	if at.Pipes = filepath.Join(folder, "rank_"); a.opts.Spec.Dry == nil && recorder.MakePipeFolder(folder) != nil {
		at.Pipes = ""
	}
	p.Base = p.Base.WithDefaults(recorder.Rule, recorder.Variables(a.check.Torch(), at, p.Environ(0, "")))
}

// nameNCCL names the libnccl that the preflight has found to Go workers, so that all ranks
// of the node open the same one. A program that may see another file system gets none.
func (a *agent) nameNCCL(p *workers.Plan) {
	if a.check == nil || p.Err != nil || a.check.GoNCCL() == "" || !a.placement.UsesGPUs() {
		return
	}
	if wrapper, err := a.build.wrapper(); err != nil || wrapper.Name() != "" {
		return
	}
	const rule = "the NCCL for Go workers that compute on GPUs"
	p.Base = p.Base.WithDefaults(rule, []envprop.Variable{{Name: contract.EnvNCCL, Value: a.check.GoNCCL()}})
}

// watchRecorders finds the recorders of the workers of a plan.
func (a *agent) watchRecorders(p *workers.Plan) {
	m := p.Member()
	targets := make([]recorder.Target, m.Workers)
	for i := range targets {
		targets[i] = recorder.NewTarget(m.FirstRank+i, p.Environ(i, ""), p.Dir)
	}
	all, _ := a.workers.listWorkers()
	for _, w := range all {
		targets[w.LocalRank].PID = w.PID
	}
	a.recorders.Set(targets)
}

// collectives answers in which collectives the ranks of this node are.
func (a *agent) collectives(ctx context.Context, _ string) (any, error) {
	return a.recorders.Collect(ctx), nil
}
