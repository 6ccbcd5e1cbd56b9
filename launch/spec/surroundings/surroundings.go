// Package surroundings recognises the program that started gorun on several nodes
// (Slurm, Kubernetes, Open MPI, Hydra), and reads from its variables what the user
// did not write: how many nodes there are, which one this is, and where they meet.
//
// Invariants: Find reads variables and the host's own names, and nothing else. A
// value keeps the name of the variable that it comes from. Text from the
// environment is bounded and checked; a text that cannot be understood is an error
// that names the variable, never a guess.
package surroundings

import (
	"fmt"
	"strconv"

	"github.com/gorun/gorun/worker/contract"
)

// Kind says which program started gorun.
type Kind string

// These are the surroundings that Find recognises.
const (
	None       Kind = ""
	SlurmStep  Kind = "slurm"       // a task of srun
	SlurmBatch Kind = "slurm-batch" // a batch script or the shell of salloc, without srun
	Kubernetes Kind = "kubernetes"  // a pod of an Indexed Job or a JobSet
	OpenMPI    Kind = "openmpi"     // a process of Open MPI's mpirun or prterun
	Hydra      Kind = "hydra"       // a process of Hydra's mpiexec
)

// Value is the text of one flag, with the variables that it comes from.
type Value struct{ Text, From string }

// Surroundings says what started this process, and what that means for the job.
type Surroundings struct {
	Kind Kind
	Name string // for messages: "Slurm step 12.0", "pod 3 of an Indexed Job"
	// Values holds the values of flags by spec's name: nnodes, node_rank, rdzv_id,
	// rdzv_endpoint, nproc_per_node.
	Values map[string]Value
	// Nodes is the number of nodes on which gorun was started; 0: unknown. For a batch
	// script it is that of the allocation.
	Nodes int
	// Allocated is the number of nodes that Slurm gave to the whole job, and Srun the
	// words that start a program on all of them; 0: unknown.
	Allocated int
	Srun      string
	// Elsewhere reports that Slurm gave other nodes to the job than this one, as in the
	// shell of salloc on a login node.
	Elsewhere bool
	// Host is the scheduler's name of this node, and Peer that of another node of the
	// job; "": unknown, or there is none.
	Host, Peer string
	// Task is this process's place among the tasks that were started on this node.
	Task Task
	// NoMeeting says why the nodes have no place to meet; "": they have one, or nothing says
	// where.
	NoMeeting string
	// Restarts is how often the scheduler has started this job again.
	Restarts int
}

// Task is one of the processes that a scheduler started on one node for one job. A
// job has one agent a node, so all tasks but the first stand by.
type Task struct {
	Local, Count int    // 0 <= Local < Count; Count is 1 if a node has one task
	Key          string // the same for the tasks of one node and job, and for no others
}

// Host is what Find has to know of this machine besides its environment.
type Host struct {
	Name string // host name, as the kernel has it
	FQDN string // full name that /etc/hosts gives to this machine's own name; "": none
}

// Lookup reads one environment variable, like os.LookupEnv.
type Lookup func(name string) (value string, ok bool)

// Step names the step of a scheduler or of mpirun in which a process runs; "": none.
func Step(lookup Lookup) string {
	if job, _ := lookup("PMIX_NAMESPACE"); job != "" {
		return job
	}
	job, _ := lookup("SLURM_JOB_ID")
	step, _ := lookup("SLURM_STEP_ID")
	if job == "" {
		return ""
	}
	return job + "." + step
}

// IsNested reports whether a worker of gorun started this process in the worker's own
// step. Such a process is no node of the outer job. A step that a worker starts, by
// srun or sbatch, inherits the worker's variables and is a job of its own.
func IsNested(lookup Lookup) bool {
	run, _ := lookup(contract.EnvRunID)
	step, _ := lookup(contract.EnvStep)
	return run != "" && step == Step(lookup)
}

// Find recognises the surroundings. A process that a gorun worker started has none.
func Find(lookup Lookup, host Host) (Surroundings, error) {
	r := &reader{lookup: lookup}
	if IsNested(lookup) {
		return Surroundings{}, nil
	}
	// Open MPI may start its processes by srun: the inner one comes first.
	for _, find := range []func(*reader, Host) Surroundings{openMPI, hydra, slurmStep, slurmBatch, kubernetes} {
		s := find(r, host)
		if r.err != nil {
			return Surroundings{}, r.err
		}
		if s.Kind != None {
			return s, nil
		}
	}
	return Surroundings{}, nil
}

// reader reads variables and keeps the first error.
type reader struct {
	lookup Lookup
	err    error
}

// maxText bounds a variable, in bytes: a list of 65,536 nodes with long names.
const maxText = 1 << 22

// text returns a variable, or "" if it is not set.
func (r *reader) text(name string) string {
	text, _ := r.lookup(name)
	if len(text) > maxText {
		r.fail(name, "it has %d bytes, and at most %d are read", len(text), maxText)
		return ""
	}
	return text
}

// first returns the first variable of names that is set and not empty, and its name.
func (r *reader) first(names ...string) (text, from string) {
	for _, name := range names {
		if text := r.text(name); text != "" {
			return text, name
		}
	}
	return "", ""
}

func (r *reader) has(name string) bool { return r.text(name) != "" }

// number returns a variable that must be a whole number between min and max.
func (r *reader) number(name string, min, max int) int {
	n, err := strconv.Atoi(r.text(name))
	if err != nil || n < min || n > max {
		r.fail(name, "it is %s, no whole number from %d to %d", strconv.Quote(short(r.text(name))), min, max)
		return min
	}
	return n
}

// optional is number for a variable that may be missing; then it returns unset.
func (r *reader) optional(name string, min, max, unset int) int {
	if !r.has(name) {
		return unset
	}
	return r.number(name, min, max)
}

func (r *reader) fail(name, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("cannot use %s: %s; --surroundings none ignores it", name, fmt.Sprintf(format, args...))
	}
}

// short cuts a text for a message.
func short(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

// largest is the largest number of nodes or tasks that is read.
const largest = 1 << 20
