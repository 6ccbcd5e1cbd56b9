package launch

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// plan is what this node's workers of a round are started with.
type plan struct {
	world   rendezvous.World
	group   int // this node's group rank
	program program.Program
	base    envprop.Base
	devices *place.Plan
	folder  string // for the workers' output; "": nothing is kept
	dir     string // the workers' working directory
	socket  string // path of the worker socket; "": there is none
	err     error  // why the workers cannot be started

	files func() []ncclenv.File // the nccl.conf files as they were at its first call
}

func (a *agent) newPlan(ctx context.Context, c rendezvous.Start) *plan {
	p := &plan{
		world: c.World, group: c.Index, program: a.build.program, devices: &a.placing.plan,
		dir: a.opts.Dir, socket: a.socket.Path(),
	}
	p.folder, p.err = a.output.folders.Make(c.World.Restart)
	var err error
	if p.base, err = a.base(c); err != nil {
		p.err = err
	}
	p.files = sync.OnceValue(func() []ncclenv.File { return check.ConfFiles(ctx, p.base.Worker(p.vars(0)), p.dir) })
	return p
}

func (p *plan) member() *rendezvous.Member { return &p.world.Members[p.group] }

// environ is the environment of one worker.
func (p *plan) environ(local int, errorFile string) []string {
	v := p.vars(local)
	v.ErrorFile = errorFile
	return p.base.Worker(v)
}

// vars is what distinguishes the worker of a local rank, without its error file.
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

// command is what is executed for a worker; the name that it is started under is
// the first word of Argv.
func (p *plan) command(local int) []string {
	if p.program.Argv == nil {
		return nil
	}
	return append([]string{p.program.Path}, p.program.Argv(local)[1:]...)
}
