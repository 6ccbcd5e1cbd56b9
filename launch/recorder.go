package launch

import (
	"context"
	"path/filepath"

	"github.com/gorun/gorun/launch/recorder"
	"github.com/gorun/gorun/launch/workers"
)

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

// watchRecorders finds the recorders of the workers of a plan.
func (a *agent) watchRecorders(p *workers.Plan) {
	m := p.Member()
	targets := make([]recorder.Target, m.Workers)
	for i := range targets {
		targets[i] = recorder.NewTarget(m.FirstRank+i, p.Environ(i, ""), p.Dir)
	}
	a.env.recorders.Set(targets)
}

// collectives answers in which collectives the ranks of this node are.
func (a *agent) collectives(ctx context.Context, _ string) (any, error) {
	return a.env.recorders.Collect(ctx), nil
}
