package envprop

import (
	"strconv"

	"github.com/gorun/gorun/worker/contract"
)

// Vars is what distinguishes one worker's environment.
type Vars struct {
	Ranks
	Round
	Devices
	ErrorFile    string // "" when no error file is kept
	WorkerSocket string // "" leaves the variable out
	NodeAddr     string // "" leaves the variable out
	Ports        string // "A-B", for the ports that workers open; "" leaves the variable out
	TimerFile    string // pipe for torch's file timers; "" leaves the variable out
	Step         string // of the scheduler, in which the agent runs; "" leaves the variable out
	// Task is the environment of the scheduler's task in which the worker runs; nil: the
	// worker runs in the agent's. It replaces what comes from the node's own
	// environment, because a scheduler binds each task by variables of its own.
	Task []string
}

// Ranks is a worker's place in its world.
type Ranks struct {
	Rank, LocalRank, GroupRank, RoleRank                     int
	WorldSize, LocalWorldSize, GroupWorldSize, RoleWorldSize int
	RoleName                                                 string
}

// Round is what all workers of a round have in common.
type Round struct {
	RunID                     string
	Number                    int
	RestartCount, MaxRestarts int
	MasterAddr                string
	MasterPort                int
	AgentStore                string // host:port of gorun's store if rank 0 opens another one at MasterAddr:MasterPort
	WorldToken                string // "" leaves the variable out
}

// Devices is a worker's share of its node's devices and cores; launch/place decides it.
type Devices struct {
	Device  string     // UUIDs of its own GPUs; "" leaves the variable out
	Pinned  []Variable // CUDA_VISIBLE_DEVICES and the like; they win over all other values
	Threads Threads
}

// Variable is one entry of an environment.
type Variable struct{ Name, Value string }

// computed is a variable that gorun computes for one worker.
type computed struct {
	Variable
	omit bool
	rule string // why it has this value
}

// list returns what every worker gets, whatever the node's environment says.
func (v Vars) list() []computed {
	const place = "its place in the job"
	text := func(name, value string) computed { return computed{Variable{name, value}, false, place} }
	number := func(name string, n int) computed { return text(name, strconv.Itoa(n)) }
	optional := func(name, value string) computed {
		return computed{Variable{name, value}, value == "", "for its workers"}
	}
	return []computed{
		number("LOCAL_RANK", v.LocalRank),
		number("RANK", v.Rank),
		number("GROUP_RANK", v.GroupRank),
		number("ROLE_RANK", v.RoleRank),
		text("ROLE_NAME", v.RoleName),
		number("LOCAL_WORLD_SIZE", v.LocalWorldSize),
		number("WORLD_SIZE", v.WorldSize),
		number("GROUP_WORLD_SIZE", v.GroupWorldSize),
		number("ROLE_WORLD_SIZE", v.RoleWorldSize),
		text("MASTER_ADDR", v.MasterAddr),
		number("MASTER_PORT", v.MasterPort),
		number("TORCHELASTIC_RESTART_COUNT", v.RestartCount),
		number("TORCHELASTIC_MAX_RESTARTS", v.MaxRestarts),
		text("TORCHELASTIC_RUN_ID", v.RunID),
		// If gorun serves the store at MASTER_ADDR:MASTER_PORT, rank 0 must connect to
		// it like every other rank instead of opening its own.
		text("TORCHELASTIC_USE_AGENT_STORE", map[bool]string{true: "True", false: "False"}[v.AgentStore == ""]),
		text("TORCHELASTIC_ERROR_FILE", v.ErrorFile),
		optional("TORCHELASTIC_TIMER_FILE", v.TimerFile),
		optional(contract.EnvRunID, v.RunID),
		number(contract.EnvRound, v.Number),
		optional(contract.EnvSocket, v.WorkerSocket),
		optional(contract.EnvDevice, v.Device),
		optional(contract.EnvAddr, v.NodeAddr),
		optional(contract.EnvPorts, v.Ports),
		optional(contract.EnvStep, v.Step),
		optional(contract.EnvStore, v.AgentStore),
		optional(contract.EnvToken, v.WorldToken),
	}
}

// unlessSet returns what a worker gets where the node's environment has no value.
func (v Vars) unlessSet() []computed {
	threads, why := v.threads()
	return []computed{
		{Variable{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}, false, "torchrun's default: after an error of NCCL the process ends"},
		{Variable{"OMP_NUM_THREADS", strconv.Itoa(threads)}, threads == 0, why},
		{Variable{"PYTHONFAULTHANDLER", "1"}, false, "a Python worker that crashes says where it was"},
	}
}

// isPinned reports whether the worker's devices decide a variable.
func (d Devices) isPinned(name string) bool {
	for _, v := range d.Pinned {
		if v.Name == name {
			return true
		}
	}
	return false
}
