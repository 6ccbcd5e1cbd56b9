package surroundings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// firstReservedStep is the first of Slurm's step ids that are no steps of srun: the
// interactive step (the shell of salloc), the batch script and others.
const firstReservedStep = 0xfffffffa

// slurmStep recognises a task of srun. The variables of the step beat those of the
// job, since a step may have fewer nodes. A heterogeneous step has one list of all
// its nodes.
func slurmStep(r *reader, _ Host) Surroundings {
	if !r.has("SLURM_STEP_ID") || !r.has("SLURM_STEP_NODELIST") || !r.has("SLURM_PROCID") {
		return Surroundings{}
	}
	job, step := r.slurmJob(), r.text("SLURM_STEP_ID")
	if n, err := strconv.ParseUint(step, 10, 32); err == nil && n >= firstReservedStep {
		return Surroundings{}
	}
	s := Surroundings{
		Kind: SlurmStep, Name: fmt.Sprintf("Slurm step %s.%s", short(job), short(step)),
		Nodes:    r.number("SLURM_STEP_NUM_NODES", 1, largest),
		Restarts: r.optional("SLURM_RESTART_COUNT", 0, largest, 0),
	}
	s.Allocated, s.Srun = r.slurmNodes()
	node := r.number("SLURM_NODEID", 0, s.Nodes-1)
	tasks, err := countOf(r.text("SLURM_STEP_TASKS_PER_NODE"), node)
	if err != nil {
		r.fail("SLURM_STEP_TASKS_PER_NODE", "%v", err)
	}
	s.Task = Task{
		Local: r.number("SLURM_LOCALID", 0, max(tasks-1, 0)), Count: tasks,
		Key: fmt.Sprintf("slurm-%s.%s-%s", job, step, r.text("SLURMD_NODENAME")),
	}
	hosts, err := ParseHosts(r.text("SLURM_STEP_NODELIST"))
	if err == nil && len(hosts) != s.Nodes {
		err = fmt.Errorf("it names %d hosts, and SLURM_STEP_NUM_NODES is %d", len(hosts), s.Nodes)
	}
	if err != nil {
		r.fail("SLURM_STEP_NODELIST", "%v", err)
		return s
	}
	s.Host = hosts[node]
	if s.Nodes > 1 {
		s.Peer = hosts[(node+1)%s.Nodes]
	}
	port := slurmPort(job, step)
	s.Values = map[string]Value{
		"nnodes":         {strconv.Itoa(s.Nodes), "SLURM_STEP_NUM_NODES"},
		"node_rank":      {strconv.Itoa(node), "SLURM_NODEID"},
		"rdzv_id":        {job + "." + step, "SLURM_JOB_ID and SLURM_STEP_ID"},
		"rdzv_endpoint":  {endpoints(hosts, port), "SLURM_STEP_NODELIST, SLURM_JOB_ID and SLURM_STEP_ID"},
		"nproc_per_node": r.slurmWorkers(tasks),
	}
	return s
}

// slurmBatch recognises a batch script and the shell of salloc: a process that has
// an allocation and is no task of a step.
func slurmBatch(r *reader, host Host) Surroundings {
	if !r.has("SLURM_JOB_ID") || !r.has("SLURM_JOB_NUM_NODES") {
		return Surroundings{}
	}
	job := r.slurmJob()
	s := Surroundings{
		Kind: SlurmBatch, Name: "Slurm job " + short(job),
		Restarts: r.optional("SLURM_RESTART_COUNT", 0, largest, 0),
		Task:     Task{Count: 1},
		Values:   map[string]Value{"rdzv_id": {job, "SLURM_JOB_ID"}},
	}
	s.Allocated, s.Srun = r.slurmNodes()
	s.Nodes = s.Allocated
	if r.has("SLURM_PROCID") { // not in the shell of salloc, which may run on a login node
		s.Values["nproc_per_node"] = r.slurmWorkers(1)
	} else if hosts, err := ParseHosts(r.text("SLURM_JOB_NODELIST")); err == nil && len(hosts) > 0 && host.Name != "" {
		name, _, _ := strings.Cut(host.Name, ".")
		s.Elsewhere = !slices.ContainsFunc(hosts, func(h string) bool {
			h, _, _ = strings.Cut(h, ".")
			return h == name
		})
	}
	return s
}

// maxComponents bounds the components of a heterogeneous job; Slurm allows 128.
const maxComponents = 128

// slurmNodes returns the number of nodes of the job, and the srun that takes all of
// them: a heterogeneous job has components, and srun alone takes the first.
func (r *reader) slurmNodes() (nodes int, srun string) {
	components := r.optional("SLURM_HET_SIZE", 0, maxComponents, 0)
	for i := range components {
		nodes += r.optional(fmt.Sprintf("SLURM_JOB_NUM_NODES_HET_GROUP_%d", i), 1, largest, 0)
	}
	if components > 1 && nodes > 1 {
		return nodes, fmt.Sprintf("srun --het-group=0-%d", components-1)
	}
	return r.optional("SLURM_JOB_NUM_NODES", 1, largest, 0), "srun"
}

// slurmJob returns the id of the job. The components of a heterogeneous job have ids
// of their own and share that of the first.
func (r *reader) slurmJob() string {
	job, name := r.first("SLURM_HET_JOB_ID", "SLURM_JOB_ID_PACK_GROUP_0", "SLURM_JOB_ID")
	if _, err := strconv.ParseUint(job, 10, 32); err != nil {
		r.fail(cmp.Or(name, "SLURM_JOB_ID"), "it is %q, no number of a job", short(job))
	}
	return job
}

// slurmWorkers returns how many workers this node has: one a GPU that Slurm gives to
// it, else one a task, else one a CPU.
func (r *reader) slurmWorkers(tasks int) Value {
	if r.has("SLURM_GPUS_ON_NODE") {
		// Old releases give a list of types: "tesla:2,volta:1".
		n := 0
		for part := range strings.SplitSeq(r.text("SLURM_GPUS_ON_NODE"), ",") {
			k, err := strconv.Atoi(part[strings.LastIndexByte(part, ':')+1:])
			if err != nil || k < 0 || k > largest {
				r.fail("SLURM_GPUS_ON_NODE", "%q is no number of GPUs", short(part))
				return Value{}
			}
			n += k
		}
		// The user may hide GPUs; Slurm itself sets the variable to what it gives.
		if visible := r.text("CUDA_VISIBLE_DEVICES"); visible != "" && strings.Count(visible, ",")+1 < n {
			return Value{strconv.Itoa(strings.Count(visible, ",") + 1), "CUDA_VISIBLE_DEVICES"}
		}
		if n > 0 {
			return Value{strconv.Itoa(n), "SLURM_GPUS_ON_NODE"}
		}
	}
	if tasks > 1 {
		return Value{strconv.Itoa(tasks), "SLURM_STEP_TASKS_PER_NODE"}
	}
	return Value{strconv.Itoa(r.optional("SLURM_CPUS_ON_NODE", 1, largest, 1)), "SLURM_CPUS_ON_NODE"}
}

// Ports of endpoints that are derived from a job's number lie below the ports that
// the kernel gives to clients (32768 and above).
const (
	firstPort = 16384
	portCount = 16381 // a prime, so that similar numbers give different ports
)

// slurmPort returns the port at which the nodes of a step meet. Two steps have the
// same port only if their numbers differ by a multiple of 16381 steps, 67 steps
// counting as one job. So jobs and steps that share a node do not clash.
func slurmPort(job, step string) int {
	j, _ := strconv.ParseUint(job, 10, 32) // slurmJob has checked it
	s, _ := strconv.ParseUint(step, 10, 32)
	return firstPort + int((67*j+s)%portCount)
}

// maxEndpoints is the number of hosts that serve an endpoint: with three, the nodes
// can still meet when one host is lost.
const maxEndpoints = 3

// endpoints names the first hosts as endpoints: three of them, or one if there are
// fewer than three, because a majority of the endpoints has to be there.
func endpoints(hosts []string, port int) string {
	n := 1
	if len(hosts) >= maxEndpoints {
		n = maxEndpoints
	}
	var list []string
	for _, h := range hosts[:min(n, len(hosts))] {
		list = append(list, fmt.Sprintf("%s:%d", h, port))
	}
	return strings.Join(list, ",")
}
