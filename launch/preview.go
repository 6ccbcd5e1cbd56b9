package launch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
)

// show prints what this node's workers of a world would get, and does not start
// them: gorun env and --dry-run. For the other nodes the round has ended well.
func (s *supervisor) show(ctx context.Context, p *workers.Plan, b *build) {
	s.showErr = s.preview(ctx, p, b)
	s.events.post(rendezvous.Done{Round: p.World.Round})
}

func (s *supervisor) preview(ctx context.Context, p *workers.Plan, built *build) (err error) {
	dry := s.opts.Spec.Dry
	if p.Err != nil {
		return p.Err
	}
	if n := len(p.World.Members); dry.Rank >= p.World.Size || dry.Node >= n {
		return &UsageError{Err: fmt.Errorf("there is no %s: this job has nodes 0 to %d and ranks 0 to %d", dry.What(), n-1, p.World.Size-1)}
	}
	node := preview.New(p, confFiles(ctx, p), func(local int) string {
		return filepath.Join(p.Folder, strconv.Itoa(local), "error.json")
	})
	around := s.opts.Spec.Surroundings
	node.Surroundings, node.Flags, node.Secret = around.Name, around.Used, s.opts.Spec.SecretFrom
	if wrapper, err := built.wrapper(); err == nil && wrapper.Loses() {
		node.Wrapper = wrapper.Name()
	}
	wanted := preview.Select([]preview.Node{node}, dry.Wants)
	if len(wanted) == 0 && s.opts.Local == nil && !dry.JSON {
		s.console.Say("%s is on another node: gorun env prints it there", dry.What())
	}
	var b bytes.Buffer // written at once, because other nodes of this machine may print, too
	switch {
	case !dry.EveryPart:
		err = preview.Print(&b, wanted, dry.Diff, dry.JSON)
	case s.opts.leavesJobLinesToFirst():
		err = preview.WritePlan(&b, node)
	default:
		err = cmp.Or(preview.WriteWorld(&b, &p.World), preview.WritePlan(&b, node))
	}
	if err != nil {
		return err
	}
	return s.out.Print(b.Bytes())
}

// confFiles returns the nccl.conf files that the workers of a plan read.
func confFiles(ctx context.Context, p *workers.Plan) []ncclenv.File {
	return check.ConfFiles(ctx, p.Environ(0, ""), p.Dir)
}

// replyEnv answers a gorun env about the workers that run here. It does so beside
// the loop, because their files may not have been read yet, and a file system may
// hang.
func (s *supervisor) replyEnv(c status.Call) {
	r := s.current
	if r == nil {
		c.Reply(status.Reply{Error: "no worker was started on this node yet"})
		return
	}
	errorFiles := map[int]string{}
	for _, w := range r.workers.Workers() {
		errorFiles[w.LocalRank] = w.Output.ErrorFile
	}
	go func() {
		body, err := json.Marshal(preview.New(r.plan, r.confFiles(), func(local int) string { return errorFiles[local] }))
		if err != nil {
			c.Reply(status.Reply{Error: err.Error()})
			return
		}
		c.Reply(status.Reply{Env: body})
	}()
}
