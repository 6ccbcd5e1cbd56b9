package launch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/gpuwatch"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
)

// plan holds what this node's workers of a round are started with.
type plan struct {
	world   rendezvous.World
	group   int // this node's group rank
	program program.Program
	base    envprop.Base
	devices *place.Plan
	folder  string // for the workers' output; "": no output is kept
	dir     string // the workers' working directory
	socket  string // path of the worker socket; "": there is none
	err     error  // why the workers cannot be started

	files func() []ncclenv.File // the nccl.conf files as they were at its first call
}

// plan returns the plan of a round.
func (s *supervisor) plan(ctx context.Context, c rendezvous.Start, prog program.Program, env roundEnv) *plan {
	p := &plan{
		world: c.World, group: c.Index, program: prog, base: env.base, devices: &s.placing.plan,
		dir: s.opts.Dir, socket: s.socket.Path(), err: env.err,
	}
	var folderErr error
	p.folder, folderErr = s.output.folders.Make(c.World.Restart)
	p.err = cmp.Or(p.err, folderErr)
	p.files = sync.OnceValue(func() []ncclenv.File { return check.ConfFiles(ctx, p.base.Worker(p.vars(0)), p.dir) })
	return p
}

func (p *plan) member() *rendezvous.Member { return &p.world.Members[p.group] }

// environ returns the environment of one worker.
func (p *plan) environ(local int, errorFile string) []string {
	v := p.vars(local)
	v.ErrorFile = errorFile
	return p.base.Worker(v)
}

// vars returns what distinguishes the worker of a local rank, without its error
// file.
func (p *plan) vars(local int) envprop.Vars {
	w, m := &p.world, p.member()
	host, port, _ := net.SplitHostPort(w.Store)
	n, _ := strconv.Atoi(port)
	return envprop.Vars{
		Ranks: envprop.Ranks{
			Rank: m.FirstRank + local, LocalRank: local, GroupRank: p.group, RoleRank: m.RoleRank + local,
			WorldSize: w.Size, LocalWorldSize: m.Workers, GroupWorldSize: len(w.Members),
			RoleWorldSize: w.Roles[m.Role], RoleName: m.Role,
		},
		Round: envprop.Round{
			RunID: w.RunID, Number: w.Round, RestartCount: w.Restart, MaxRestarts: w.MaxRestarts,
			MasterAddr: host, MasterPort: n, WorldToken: w.Token,
		},
		Devices:      p.devices.Slot(local).Devices,
		WorkerSocket: p.socket, NodeAddr: m.Addr,
	}
}

// command returns the path and the arguments that are executed for a worker. The
// name under which the program starts is the first word of Argv.
func (p *plan) command(local int) []string {
	if p.program.Argv == nil {
		return nil
	}
	return append([]string{p.program.Path}, p.program.Argv(local)[1:]...)
}

// identity returns what identifies this round's workers on every node.
func (p *plan) identity() gpuwatch.World {
	host, port, _ := net.SplitHostPort(p.world.Store)
	return gpuwatch.World{Token: p.world.Token, RunID: p.world.RunID, Addr: host, Port: port}
}

// show prints what this node's workers of a world would get, and does not start
// them: gorun env and --dry-run. For the other nodes the round has ended well.
func (s *supervisor) show(p *plan, b *build) {
	if err := s.preview(p, b); err != nil {
		s.unshown = err
	}
	s.events.post(rendezvous.Done{Round: p.world.Round})
}

func (s *supervisor) preview(p *plan, built *build) (err error) {
	dry := s.opts.Spec.Dry
	if p.err != nil {
		return p.err
	}
	if n := len(p.world.Members); dry.Rank >= p.world.Size || dry.Node >= n {
		return &UsageError{Err: fmt.Errorf("there is no %s: this job has nodes 0 to %d and ranks 0 to %d", dry.What(), n-1, p.world.Size-1)}
	}
	errorFile := func(local int) string { return filepath.Join(p.folder, strconv.Itoa(local), "error.json") }
	all := []preview.Node{p.preview(errorFile)}
	if wrapper, doubt := built.wrapper(); doubt == nil {
		all[0].Wrapper = wrapper.Name()
	}
	mine := preview.Select(all, dry.Wants)
	if len(mine) == 0 && s.opts.Local == nil && !dry.JSON {
		s.console.Say("%s is elsewhere: gorun env prints it there", dry.What())
	}
	var b bytes.Buffer // written at once, because other nodes of this machine may print, too
	if dry.Whole && !s.opts.quiet() {
		err = preview.WriteWorld(&b, &p.world)
	}
	switch {
	case err != nil:
	case dry.Whole:
		err = preview.WritePlan(&b, all[0])
	default:
		err = preview.Print(&b, mine, dry.Diff, dry.JSON)
	}
	if err == nil {
		err = s.out.Print(b.Bytes())
	}
	return err
}

// preview returns what the workers get.
func (p *plan) preview(errorFile func(local int) string) preview.Node {
	files, m := p.files(), p.member()
	n := preview.Node{Node: p.group, Host: m.Host, Addr: m.Addr, Removed: preview.Removals(p.base.Lost())}
	for local := range m.Workers {
		v := p.vars(local)
		v.ErrorFile = errorFile(local)
		n.Ranks = append(n.Ranks, preview.Rank{
			Rank: m.FirstRank + local, LocalRank: local, Command: ncclenv.ShownWords(p.command(local)), Devices: p.devices.Slot(local).Own,
			Env: preview.Variables(p.base.Explain(v, files...), p.world.Token),
		})
	}
	return n
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
		n := r.plan.preview(func(local int) string { return errorFiles[local] })
		body, err := json.Marshal(n)
		if err != nil {
			c.Reply(status.Reply{Error: err.Error()})
			return
		}
		c.Reply(status.Reply{Env: body})
	}()
}
