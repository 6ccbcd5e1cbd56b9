// Package envprop decides the environment of workers.
//
// Worker is the last step: the environment of one rank, from what the node has
// and what the rank is. It is a pure function; the result has one entry a name,
// in an order that depends on the arguments alone. The names and values are
// torchrun's, so that a script cannot tell the difference, and those of
// worker/contract.
package envprop

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun/gorun/worker/contract"
)

// Vars is what distinguishes one worker's environment.
type Vars struct {
	Rank, LocalRank, GroupRank, RoleRank                     int
	WorldSize, LocalWorldSize, GroupWorldSize, RoleWorldSize int
	RoleName                                                 string
	MasterAddr                                               string
	MasterPort                                               int
	RestartCount, MaxRestarts                                int
	RunID                                                    string
	ErrorFile                                                string // "" when nothing is to be kept
	Round                                                    int
	WorkerSocket, Device, NodeAddr, WorldToken               string // contract; "" leaves the variable out
}

// InternalPrefix begins the names of variables that gorun's own processes pass
// to each other. No worker sees one.
const InternalPrefix = "GORUN_INTERNAL_"

// secret is what agents prove to each other; it is none of the workers' business.
const secret = "GORUN_SECRET"

// Worker gives the environment of one worker: base, without gorun's internal
// variables and without an outer launcher's values of the variables below, then
// these. Where base names a variable twice the later entry wins, as in os/exec.
func Worker(base []string, w Vars) []string {
	own := w.list()
	drop := map[string]bool{secret: true}
	for _, kv := range own {
		drop[kv.name] = true
	}
	last := map[string]int{}
	for i, entry := range base {
		last[nameOf(entry)] = i
	}
	env := make([]string, 0, len(base)+len(own))
	for i, entry := range base {
		name := nameOf(entry)
		if entry == "" || last[name] != i || drop[name] || strings.HasPrefix(name, InternalPrefix) {
			continue
		}
		env = append(env, entry)
	}
	for _, kv := range own {
		if !kv.omit {
			env = append(env, kv.name+"="+kv.value)
		}
	}
	for _, kv := range w.unlessSet() {
		if _, set := last[kv.name]; !set && !kv.omit {
			env = append(env, kv.name+"="+kv.value)
		}
	}
	return env
}

// OMPNote is the line for the user when Worker sets OMP_NUM_THREADS, else "".
func OMPNote(base []string, localWorldSize int) string {
	for _, entry := range base {
		if nameOf(entry) == "OMP_NUM_THREADS" {
			return ""
		}
	}
	if localWorldSize <= 1 {
		return ""
	}
	return fmt.Sprintf("OMP_NUM_THREADS is set to 1 for each of the %d workers, so that they do not overload the node; set it yourself to tune it", localWorldSize)
}

// variable is one entry; omit leaves it out.
type variable struct {
	name, value string
	omit        bool
}

// list is what every worker gets, whatever the node's environment says.
func (w Vars) list() []variable {
	text := func(name, value string) variable { return variable{name: name, value: value} }
	number := func(name string, n int) variable { return text(name, strconv.Itoa(n)) }
	ours := func(name, value string) variable { return variable{name, value, value == ""} }
	return []variable{
		number("LOCAL_RANK", w.LocalRank),
		number("RANK", w.Rank),
		number("GROUP_RANK", w.GroupRank),
		number("ROLE_RANK", w.RoleRank),
		text("ROLE_NAME", w.RoleName),
		number("LOCAL_WORLD_SIZE", w.LocalWorldSize),
		number("WORLD_SIZE", w.WorldSize),
		number("GROUP_WORLD_SIZE", w.GroupWorldSize),
		number("ROLE_WORLD_SIZE", w.RoleWorldSize),
		text("MASTER_ADDR", w.MasterAddr),
		number("MASTER_PORT", w.MasterPort),
		number("TORCHELASTIC_RESTART_COUNT", w.RestartCount),
		number("TORCHELASTIC_MAX_RESTARTS", w.MaxRestarts),
		text("TORCHELASTIC_RUN_ID", w.RunID),
		// The store at MASTER_ADDR:MASTER_PORT is served by gorun: rank 0 must
		// connect to it like every other rank instead of opening its own.
		text("TORCHELASTIC_USE_AGENT_STORE", "True"),
		text("TORCHELASTIC_ERROR_FILE", w.ErrorFile),
		ours(contract.EnvRunID, w.RunID),
		number(contract.EnvRound, w.Round),
		ours(contract.EnvSocket, w.WorkerSocket),
		ours(contract.EnvDevice, w.Device),
		ours(contract.EnvAddr, w.NodeAddr),
		ours(contract.EnvToken, w.WorldToken),
	}
}

// unlessSet is what a worker gets when the node's environment does not say.
func (w Vars) unlessSet() []variable {
	return []variable{
		{name: "TORCH_NCCL_ASYNC_ERROR_HANDLING", value: "1"},
		{name: "OMP_NUM_THREADS", value: "1", omit: w.LocalWorldSize <= 1},
	}
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}
