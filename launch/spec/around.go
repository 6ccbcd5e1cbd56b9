package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/spec/surroundings"
)

// Surroundings is what started this process on several nodes, and what follows from
// it for the job.
type Surroundings struct {
	Kind     surroundings.Kind
	Name     string // for messages: "Slurm step 12.0"; "": none
	Nodes    int    // of the allocation or step; 0: unknown
	Task     surroundings.Task
	Restarts int    // how often the scheduler has started this job again
	Used     []Used // sorted by flag
	// TaskWorkers means that each task is the worker of its local rank
	// (--srun-tasks=workers).
	TaskWorkers bool
}

// IsSlurm reports whether Slurm started this process.
func (s Surroundings) IsSlurm() bool {
	return s.Kind == surroundings.SlurmStep || s.Kind == surroundings.SlurmBatch
}

// Used is the value of a flag that comes from the surroundings.
type Used struct {
	Flag string `json:"flag"` // without dashes in front: "nnodes"
	Text string `json:"value"`
	From string `json:"from"` // variables: "SLURM_STEP_NUM_NODES"
}

// surroundings decides which values of the surroundings apply: those that no flag and
// no variable of the user contradicts. It sets in.around.
func (in *input) surroundings() Surroundings {
	switch text := in.text("surroundings", "auto").text; text {
	case "auto":
	case "none":
		return Surroundings{}
	default:
		in.fail("--surroundings is %q: it must be auto or none", text)
		return Surroundings{}
	}
	if in.raw.Surroundings == nil {
		return Surroundings{}
	}
	found, err := in.raw.Surroundings(surroundings.Lookup(in.lookup))
	if in.check(err); err != nil || found.Kind == surroundings.None {
		return Surroundings{}
	}
	in.found = found
	s := Surroundings{Kind: found.Kind, Name: found.Name, Nodes: found.Nodes, Task: found.Task, Restarts: found.Restarts}
	in.around = in.fitting(found)
	if s.TaskWorkers = in.taskWorkers(found); s.TaskWorkers {
		in.around["nproc_per_node"] = surroundings.Value{Text: strconv.Itoa(found.Task.Count), From: "SLURM_STEP_TASKS_PER_NODE"}
	}
	for _, name := range slices.Sorted(maps.Keys(in.around)) {
		v := in.around[name]
		if !in.fromUser(name).given {
			s.Used = append(s.Used, Used{strings.ReplaceAll(name, "_", "-"), v.Text, v.From})
		}
	}
	return s
}

// taskWorkers reports whether each task is a worker. The scheduler then decides which
// CPUs and GPUs a worker has.
func (in *input) taskWorkers(found surroundings.Surroundings) bool {
	switch v := in.text("srun_tasks", "agent"); v.text {
	case "agent":
		return false
	case "workers":
		if found.Kind != surroundings.SlurmStep || in.raw.Check {
			return false
		}
		if local := in.fromUser("local_nodes"); local.given {
			in.fail("cannot use %s together with %s: each task is a worker of one node", local.from, v.from)
		}
		if n := in.fromUser("nproc_per_node"); n.given && n.text != strconv.Itoa(found.Task.Count) {
			in.fail("cannot use %s %s: with %s=workers each of the %d tasks of this node is a worker", n.from, n.text, v.from, found.Task.Count)
		}
		for _, name := range []string{"pin", "pin_by", "map", "gpus_per_worker", "numa_binding", "virtual_local_rank", "oversubscribe_gpus"} {
			if f := in.fromUser(name); f.given && f.text != "" && f.text != "0" && !(name == "pin" && f.text == "none") && !(name == "pin_by" && f.text == "auto") {
				in.fail("cannot use %s: with %s=workers Slurm binds each worker, by srun's --gpus-per-task, --gpu-bind and --cpu-bind", f.from, v.from)
			}
		}
		return true
	default:
		in.fail("%s is %q: it must be agent or workers", v.from, v.text)
		return false
	}
}

// fitting returns the values that fit what the user asks for. Number, rank, name and
// meeting place of the nodes belong together: they hold for the nodes of the
// allocation and for no other nodes.
func (in *input) fitting(found surroundings.Surroundings) map[string]surroundings.Value {
	values := maps.Clone(found.Values)
	if in.fromUser("local_nodes").given || in.isOn("standalone") {
		delete(values, "nnodes")
		dropMeeting(values)
		delete(values, "rdzv_id")
		return values
	}
	nodes, max := found.Nodes, found.Nodes // of the allocation, of the job
	asked := in.fromUser("nnodes")
	if asked.given {
		if _, n, err := ParseNodes(asked.text); err == nil {
			max = n
		}
	}
	switch {
	case !asked.given && found.Values["nnodes"].Text == "": // the job has one node
		max = 1
		dropMeeting(values)
	case found.Kind == surroundings.Kubernetes:
		// The index is that of a pod in its Job, and a job may have pods of several
		// Jobs. A user who says where they meet may mean all of them.
		if in.fromUser("rdzv_endpoint").given && in.text("rdzv_backend", "").text != string(Static) {
			dropMeeting(values)
			delete(values, "rdzv_id")
		}
	case max == 1 || max > nodes || found.Kind == surroundings.SlurmBatch: // this node alone, or a job of several allocations or starts
		dropMeeting(values)
		if max > 1 {
			delete(values, "rdzv_id")
		}
	}
	if rank, err := strconv.Atoi(values["node_rank"].Text); err == nil && rank >= max {
		delete(values, "node_rank")
	}
	if in.fromUser("rdzv_endpoint").given || in.fromUser("master_addr").given || in.fromUser("master_port").given {
		delete(values, "rdzv_endpoint")
	}
	switch in.text("rdzv_backend", "").text {
	case "", "c10d", string(Gossip):
	case string(Static):
		if v, ok := values["rdzv_endpoint"]; ok {
			v.Text, _, _ = strings.Cut(v.Text, ",")
			values["rdzv_endpoint"] = v
		}
	default:
		delete(values, "rdzv_endpoint")
	}
	return values
}

// dropMeeting removes what says how nodes meet.
func dropMeeting(values map[string]surroundings.Value) {
	delete(values, "node_rank")
	delete(values, "rdzv_endpoint")
}

// reportOn decides which nodes print the report: by default the first one where a
// program collects the output of all nodes in one place.
func (in *input) reportOn(s *Spec) {
	switch v := in.text("report_on", "auto"); v.text {
	case string(ReportAll), string(ReportFirst):
		s.ReportOn = ReportOn(v.text)
	case "auto":
		s.ReportOn = ReportAll
		switch s.Surroundings.Kind {
		case surroundings.SlurmStep, surroundings.OpenMPI, surroundings.Hydra:
			s.ReportOn = ReportFirst
		}
	default:
		in.fail("%s is %q: it must be all, first or auto", v.from, v.text)
	}
}

// requeueExitCode reads the exit code of an end after which another try may help. Codes
// above 125 have a meaning for shells, and 0 to 2 for gorun.
func (in *input) requeueExitCode(s *Spec) {
	code, v := in.number("requeue_exit_code", 0, 3)
	if code > 125 {
		in.fail("%s is %d: it must be 3 to 125", v.from, code)
	}
	s.RequeueExitCode = code
}

// nameNode sets the names under which the scheduler knows this node and another one.
func (in *input) nameNode(s *Spec) {
	if s.LocalNodes == 0 && s.MaxNodes > 1 {
		s.Network.Host, s.Network.Peer = in.found.Host, in.found.Peer
	}
}

// checkAllocation compares the number of nodes with that of the allocation. A job
// that leaves nodes idle gets a line; a job that would start on one node of several
// by mistake is refused.
func (in *input) checkAllocation(s *Spec, nnodes value) {
	found := in.found
	if n := s.Surroundings.Restarts; n > 0 && s.Surroundings.IsSlurm() {
		s.note("Slurm has started this job again %s (SLURM_RESTART_COUNT=%d)", times(n), n)
	}
	if in.isOn("standalone") && found.Task.Count > 1 {
		in.fail("cannot use --standalone: %s has %d tasks on this node, and one of them starts all workers; leave it out, or give --surroundings none to make each task a job of its own",
			found.Name, found.Task.Count)
	}
	if s.Surroundings.Kind == surroundings.None || s.LocalNodes > 0 || in.isOn("standalone") {
		return
	}
	if v := in.get("nproc_per_node"); v.from == "SLURM_CPUS_ON_NODE" && v.text != "1" {
		s.note("%s workers start on this node, one for each CPU that Slurm gives (SLURM_CPUS_ON_NODE); --nproc-per-node sets another number", v.text)
	}
	switch {
	case found.Kind == surroundings.SlurmBatch && found.Nodes > 1 && !nnodes.given:
		in.fail("%s has %d nodes, and without srun gorun runs on one of them: use srun, as in `%s %s`, or --nnodes 1 for this node alone",
			found.Name, found.Nodes, found.Srun, in.line())
	case found.Elsewhere:
		s.note("%s has other nodes than this one, and the workers start on this one; %s starts them there", found.Name, found.Srun)
	case found.Kind == surroundings.Kubernetes && !nnodes.given:
		s.note("%s runs as a job of its own, since nothing says how many pods belong together: set GORUN_NNODES to the number of pods, or to 1", found.Name)
	case found.Kind == surroundings.SlurmStep && found.Allocated > found.Nodes && !in.fromUser("nnodes").given:
		s.note("the Slurm job has %d nodes, and %s %d of them; %s takes all", found.Allocated, found.Name, found.Nodes, found.Srun)
	case found.Nodes > s.MaxNodes:
		s.note("%s has %d nodes, and the job uses %d of them (%s)", found.Name, found.Nodes, s.MaxNodes, nnodes.from)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// line returns the user's command line for messages.
func (in *input) line() string {
	words := append([]string{"gorun"}, ncclenv.ShownWords(in.raw.Line)...) // without credentials
	if text := term.Command(words...); len(text) <= 200 {
		return text
	}
	return fmt.Sprintf("gorun ... %s", term.Command(in.raw.Command[:min(1, len(in.raw.Command))]...))
}
