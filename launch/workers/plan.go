package workers

import (
	"net"
	"os"
	"strconv"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// Plan holds what this node's workers of a round are started with.
type Plan struct {
	World   rendezvous.World
	Group   int // this node's group rank
	Program program.Program
	Base    envprop.Base // the environment that the workers have in common
	Places  *place.Plan
	Folder  string // for the workers' output; "": no output is kept
	Dir     string // the workers' working directory
	Step    string // of the scheduler, in which this agent runs; "": none
	Contact
	Stdin *os.File // of every worker; nil: /dev/null
	Tasks []Task   // by local rank, of the scheduler's tasks in which the workers run; nil: they run in the agent's
	Err   error    // why the workers cannot be started
}

// Contact says where the workers reach their agent and each other.
type Contact struct {
	Socket string // path of the worker socket; "": there is none
	Timers string // path of the pipe for torch's file timers; "": none
	Master string // host:port at which rank 0 opens the workers' store; "": World.Store is theirs
	Ports  string // "A-B": the ports that workers may open; "": any
}

// Task is what a worker has from the scheduler's task in which it runs.
type Task struct {
	Env     []string // nil: that of the agent
	Threads envprop.Threads
}

// Member returns this node as a member of the world.
func (p *Plan) Member() *rendezvous.Member { return &p.World.Members[p.Group] }

// Vars returns what distinguishes the environment of one worker.
func (p *Plan) Vars(local int, errorFile string) envprop.Vars {
	w, m := &p.World, p.Member()
	master, agentStore := w.Store, ""
	if p.Master != "" {
		master, agentStore = p.Master, w.Store
	}
	host, port, _ := net.SplitHostPort(master)
	n, _ := strconv.Atoi(port)
	v := envprop.Vars{
		Ranks: envprop.Ranks{
			Rank: m.FirstRank + local, LocalRank: local, GroupRank: p.Group, RoleRank: m.RoleRank + local,
			WorldSize: w.Size, LocalWorldSize: m.Workers, GroupWorldSize: len(w.Members),
			RoleWorldSize: w.Roles[m.Role], RoleName: m.Role,
		},
		Round: envprop.Round{
			RunID: w.RunID, Number: w.Round, RestartCount: w.Restart, MaxRestarts: w.MaxRestarts,
			MasterAddr: host, MasterPort: n, AgentStore: agentStore, WorldToken: w.Token,
		},
		Devices:   p.Places.Slot(local).Devices,
		ErrorFile: errorFile, WorkerSocket: p.Socket, NodeAddr: m.Addr, Ports: p.Ports, Step: p.Step, TimerFile: p.Timers,
	}
	if local < len(p.Tasks) {
		v.Task, v.Devices.Threads = p.Tasks[local].Env, p.Tasks[local].Threads
	}
	return v
}

// Environ returns the environment of one worker.
func (p *Plan) Environ(local int, errorFile string) []string {
	return p.Base.Worker(p.Vars(local, errorFile))
}

// Command returns the path and the arguments that are executed for a worker. The
// name under which the program starts is the first word of its Argv.
func (p *Plan) Command(local int) []string {
	if p.Program.Argv == nil {
		return nil
	}
	return append([]string{p.Program.Path}, p.Program.Argv(local)[1:]...)
}

// process returns what to start for a local rank, without its output.
func (p *Plan) process(local int, errorFile string) process.Spec {
	return process.Spec{
		Path: p.Program.Path, Args: p.Program.Argv(local), Env: p.Environ(local, errorFile), Dir: p.Dir,
		Stdin: p.Stdin, Around: p.Places.Slot(local).Binding.Around(),
	}
}
