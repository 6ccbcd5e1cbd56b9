// Package envprop decides the environment of workers.
//
// Each node reads what its user asked for (NewRequest) and reports it, with its own
// values of the variables that a job governs (NewReport; ncclenv.Governed is the
// table). The coordinator decides for all nodes (Unify), and each node applies its
// assignment (Base.Apply). Base.Worker is the last step: it returns the environment of
// one rank. Base.Explain says where each value comes from.
//
// What counts, in this order: -x and --unset, an env file, the node's own
// environment (where all have to agree: the first node's), an nccl.conf, what
// gorun computes.
//
// Invariants: all functions are pure, and every order depends on the arguments alone.
// The environment of a rank has one entry a name. The variables that gorun itself sets
// are torchrun's, with torchrun's values, and those of worker/contract; no user can ask
// for other values of them. A variable that is not governed leaves a node only when a
// user asks for it. A credential leaves a node only when -x names it in full, and only
// the results of Encode and Worker show it.
package envprop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// InternalPrefix begins the names of variables that gorun's own processes pass
// to each other. No worker sees one.
const InternalPrefix = "GORUN_INTERNAL_"

// secret is the name of the variable with the job's secret. Workers do not get it.
const secret = "GORUN_SECRET"

// Base is what the workers of a node have in common.
type Base struct {
	entries         []entry
	set             map[string]bool // names that Worker does not compute: they are set, or the user removed them
	removedPatterns []string        // patterns of such names
	removed         []Removal       // variables that the node has and its workers do not get
}

// entry is a variable of the workers.
type entry struct {
	text   string // NAME=value
	name   string
	source Source
}

// NewBase makes the base of a node's environment. It leaves out gorun's internal
// variables, and an outer launcher's values of the variables that gorun sets for each
// worker. If env names a variable twice, the later entry wins, as in os/exec.
func NewBase(env []string) Base {
	drop := map[string]bool{secret: true}
	for _, kv := range (Vars{}).list() {
		drop[kv.Name] = true
	}
	b := Base{set: make(map[string]bool, len(env))}
	for _, text := range slices.Backward(env) {
		name := nameOf(text)
		if text != "" && !b.set[name] && !drop[name] && !strings.HasPrefix(name, InternalPrefix) {
			b.entries = append(b.entries, entry{text, name, Source{Kind: FromEnvironment}})
		}
		b.set[name] = true
	}
	slices.Reverse(b.entries)
	return b
}

// Apply returns the base with the node's assignment; b stays as it is.
func (b Base) Apply(a Assignment) Base {
	next := Base{set: maps.Clone(b.set), removedPatterns: slices.Clone(b.removedPatterns), removed: slices.Clone(b.removed)}
	if next.set == nil {
		next.set = map[string]bool{}
	}
	sets := make(map[string]bool, len(a.Set))
	for _, s := range a.Set {
		sets[s.Name] = true
	}
	for _, e := range b.entries {
		switch removal := slices.IndexFunc(a.Unset, func(r Removal) bool { return r.removes(e.name) }); {
		case sets[e.name]:
		case removal >= 0:
			next.removed = append(next.removed, Removal{Name: e.name, Source: a.Unset[removal].Source})
		default:
			next.entries = append(next.entries, e)
		}
	}
	for _, r := range a.Unset {
		switch {
		case r.Source.Kind != FromUnset:
			delete(next.set, r.Name) // what gorun computes counts again
		case isPattern(r.Name):
			next.removedPatterns = append(next.removedPatterns, r.Name)
		default:
			next.set[r.Name] = true
		}
	}
	for _, s := range a.Set {
		if checkName(s.Name) != nil {
			continue // gorun sets it in worker
		}
		next.entries = append(next.entries, entry{s.Name + "=" + s.Value.Reveal(), s.Name, s.Source})
		next.set[s.Name] = true
	}
	return next
}

// WithDefaults returns the base with values of gorun's for variables that nothing else
// sets and no user removed; b stays as it is.
func (b Base) WithDefaults(rule string, defaults []Variable) Base {
	next := b
	next.entries, next.set = slices.Clone(b.entries), maps.Clone(b.set)
	if next.set == nil {
		next.set = map[string]bool{}
	}
	for _, v := range defaults {
		if !next.has(v.Name) {
			next.entries = append(next.entries, entry{v.Name + "=" + v.Value, v.Name, Source{Kind: FromGorun, Rule: rule}})
			next.set[v.Name] = true
		}
	}
	return next
}

// Removed returns the variables that the node has and its workers do not get.
func (b Base) Removed() []Removal { return b.removed }

// Worker returns the environment of one worker.
func (b Base) Worker(v Vars) []string {
	all := b.worker(v)
	env := make([]string, len(all))
	for i, e := range all {
		env[i] = e.text
	}
	return env
}

// worker returns all entries of one worker: first the node's and then the computed
// ones, both without the variables that the worker's devices decide; those come last.
func (b Base) worker(v Vars) []entry {
	if v.Task != nil {
		b = b.ofTask(v.Task)
	}
	var all []entry
	for _, e := range b.entries {
		if !v.isPinned(e.name) {
			all = append(all, e)
		}
	}
	add := func(c Variable, rule string) {
		all = append(all, entry{c.Name + "=" + c.Value, c.Name, Source{Kind: FromGorun, Rule: rule}})
	}
	for _, c := range v.list() {
		if !c.omit && !v.isPinned(c.Name) {
			add(c.Variable, c.rule)
		}
	}
	for _, c := range v.unlessSet() {
		if !c.omit && !v.isPinned(c.Name) && !b.has(c.Name) {
			add(c.Variable, c.rule)
		}
	}
	for _, c := range v.Pinned {
		add(c, "its devices, see --pin")
	}
	return all
}

// ofTask returns the base of a worker that runs in a task with an environment of its
// own. What a user asked for and what all nodes have to agree on stays.
func (b Base) ofTask(env []string) Base {
	task := NewBase(env)
	own := make(map[string]entry, len(task.entries))
	for _, e := range task.entries {
		own[e.name] = e
	}
	next := Base{set: maps.Clone(task.set), removedPatterns: b.removedPatterns, removed: b.removed}
	maps.Copy(next.set, b.set)
	for _, e := range b.entries {
		if e.source.Kind != FromEnvironment {
			next.entries = append(next.entries, e)
		} else if e, ok := own[e.name]; ok {
			next.entries = append(next.entries, e)
		}
	}
	for _, e := range task.entries { // variables that only the task has
		if !b.has(e.name) {
			next.entries = append(next.entries, e)
		}
	}
	return next
}

// has reports whether gorun does not compute a variable, because it is set or the user
// removed it.
func (b Base) has(name string) bool {
	return b.set[name] || slices.ContainsFunc(b.removedPatterns, func(pattern string) bool { return matches(pattern, name) })
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// Threads is what OMP_NUM_THREADS is computed from where no user sets it. The zero
// value means torchrun's rule, the default: 1 for each of several workers of a node.
// --omp=cores sets the fields.
type Threads struct {
	Cores   int  // cores that the worker is bound to; 0: unknown, so torchrun's rule
	Workers int  // workers that share these cores; 0: all workers of the node
	Quota   bool // Cores is the CPU time that a cgroup leaves these workers
}

// threads returns the number of threads of one worker, 0 to leave the variable out, and
// why.
func (v Vars) threads() (n int, why string) {
	t := v.Threads
	if t.Cores <= 0 {
		if v.LocalWorldSize <= 1 {
			return 0, ""
		}
		return 1, "torchrun's default, so that several workers do not overload the node"
	}
	sharing := t.Workers
	if sharing <= 0 {
		sharing = v.LocalWorldSize
	}
	if t.Quota {
		return max(1, t.Cores/sharing), fmt.Sprintf("a CPU quota of %d for %d workers", t.Cores, sharing)
	}
	if sharing <= 1 {
		return t.Cores, fmt.Sprintf("cores of each: %d", t.Cores)
	}
	return max(1, t.Cores/sharing), fmt.Sprintf("%d cores for %d workers", t.Cores, sharing)
}

// OMPNote returns the line for the user if Worker sets OMP_NUM_THREADS for one of
// several workers, else "".
func (b Base) OMPNote(v Vars) string {
	n, why := v.threads()
	switch {
	case n == 0 || v.LocalWorldSize <= 1 || b.has("OMP_NUM_THREADS"):
		return ""
	case v.Threads.Cores <= 0:
		return fmt.Sprintf("OMP_NUM_THREADS is set to 1 for each of the %d workers, so that they do not overload the node; set it yourself to tune it, or give --omp=cores for a share of the cores", v.LocalWorldSize)
	}
	return fmt.Sprintf("OMP_NUM_THREADS is set to %d for each of the %d workers (%s); set it yourself to tune it", n, v.LocalWorldSize, why)
}
