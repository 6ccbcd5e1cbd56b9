// Package envprop decides the environment of workers.
//
// Each node reads what its user asked for (NewRequest) and tells it, with its own
// values of the variables that a job governs (NewReport; ncclenv.Governed is the
// table). One node decides for all (Unify), and each applies what was decided for
// it (Base.Apply). Base.Worker is the last step: the environment of one rank, and
// Base.Explain where each value of it comes from.
//
// What counts, in this order: -x and --unset, an env file, the node's own
// environment (where all have to agree: the first node's), an nccl.conf, what
// gorun computes.
//
// Invariants: all of it is pure, and an order depends on the arguments alone; the
// environment of a rank has one entry a name; the names and values that gorun
// itself gives are torchrun's, so that a script cannot tell the difference, and
// those of worker/contract, and nobody can ask for others; what is not governed
// leaves a node only when asked for; a credential leaves it only when -x names it
// in full, and no text or JSON shows it but that of Encode and Worker.
package envprop

import (
	"maps"
	"slices"
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
	Threads                                                  Threads
}

// InternalPrefix begins the names of variables that gorun's own processes pass
// to each other. No worker sees one.
const InternalPrefix = "GORUN_INTERNAL_"

// secret is what agents prove to each other; it is none of the workers' business.
const secret = "GORUN_SECRET"

// Base is what the workers of a node have in common.
type Base struct {
	entries []entry
	set     map[string]bool // names that Worker does not compute: they are set, or the user took them away
	gone    []string        // patterns of such names
	lost    []Removal       // what the node has and its workers do not get
}

// entry is a variable of the workers.
type entry struct {
	text   string // NAME=value
	name   string
	source Source
}

// NewBase takes a node's environment, without gorun's internal variables and
// without an outer launcher's values of what each worker gets. Where env names a
// variable twice the later entry wins, as in os/exec.
func NewBase(env []string) Base {
	drop := map[string]bool{secret: true}
	for _, kv := range (Vars{}).list() {
		drop[kv.name] = true
	}
	b := Base{set: make(map[string]bool, len(env))}
	for _, text := range slices.Backward(env) {
		name := nameOf(text)
		if text != "" && !b.set[name] && !drop[name] && !strings.HasPrefix(name, InternalPrefix) {
			b.entries = append(b.entries, entry{text, name, Source{Kind: FromOwn}})
		}
		b.set[name] = true
	}
	slices.Reverse(b.entries)
	return b
}

// Apply gives the base with what was decided for the node; b stays as it is.
func (b Base) Apply(a Assignment) Base {
	next := Base{set: maps.Clone(b.set), gone: slices.Clone(b.gone), lost: slices.Clone(b.lost)}
	if next.set == nil {
		next.set = map[string]bool{}
	}
	put := make(map[string]bool, len(a.Set))
	for _, s := range a.Set {
		put[s.Name] = true
	}
	for _, e := range b.entries {
		switch away := slices.IndexFunc(a.Unset, func(r Removal) bool { return r.takes(e.name) }); {
		case put[e.name]:
		case away >= 0:
			next.lost = append(next.lost, Removal{Name: e.name, Source: a.Unset[away].Source})
		default:
			next.entries = append(next.entries, e)
		}
	}
	for _, r := range a.Unset {
		switch {
		case r.Source.Kind != FromUnset:
			delete(next.set, r.Name) // what gorun computes counts again
		case isPattern(r.Name):
			next.gone = append(next.gone, r.Name)
		default:
			next.set[r.Name] = true
		}
	}
	for _, s := range a.Set {
		if checkName(s.Name) != nil {
			continue // gorun's own, which every worker gets below
		}
		next.entries = append(next.entries, entry{s.Name + "=" + s.Value.Reveal(), s.Name, s.Source})
		next.set[s.Name] = true
	}
	return next
}

// Lost is what the node has and its workers do not get, as it was taken away.
func (b Base) Lost() []Removal { return b.lost }

// Worker gives the environment of one worker.
func (b Base) Worker(w Vars) []string {
	own := b.computed(w)
	env := make([]string, 0, len(b.entries)+len(own))
	for _, e := range b.entries {
		env = append(env, e.text)
	}
	for _, kv := range own {
		env = append(env, kv.name+"="+kv.value)
	}
	return env
}

// computed is what gorun adds to the node's entries for one worker.
func (b Base) computed(w Vars) []variable {
	all := slices.DeleteFunc(w.list(), func(kv variable) bool { return kv.omit })
	for _, kv := range w.unlessSet() {
		if !kv.omit && !b.has(kv.name) {
			all = append(all, kv)
		}
	}
	return all
}

// has reports whether a variable is not for gorun to compute.
func (b Base) has(name string) bool {
	return b.set[name] || slices.ContainsFunc(b.gone, func(pattern string) bool { return matches(pattern, name) })
}

// variable is one that gorun computes; omit leaves it out.
type variable struct {
	name, value string
	omit        bool
	rule        string // why it has this value
}

// list is what every worker gets, whatever the node's environment says.
func (w Vars) list() []variable {
	const place = "its place in the job"
	text := func(name, value string) variable { return variable{name: name, value: value, rule: place} }
	number := func(name string, n int) variable { return text(name, strconv.Itoa(n)) }
	ours := func(name, value string) variable {
		return variable{name, value, value == "", "for its workers"}
	}
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
	threads, why := w.threads()
	return []variable{
		{name: "TORCH_NCCL_ASYNC_ERROR_HANDLING", value: "1", rule: "torchrun's default: after an error of NCCL the process ends"},
		{name: "OMP_NUM_THREADS", value: strconv.Itoa(threads), omit: threads == 0, rule: why},
	}
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}
