package spec

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/spec/surroundings"
)

func found(s surroundings.Surroundings) func(surroundings.Lookup) (surroundings.Surroundings, error) {
	return func(surroundings.Lookup) (surroundings.Surroundings, error) { return s, nil }
}

// slurmStep is a task of srun on node 1 of 4.
func slurmStep() surroundings.Surroundings {
	v := func(text, from string) surroundings.Value { return surroundings.Value{Text: text, From: from} }
	return surroundings.Surroundings{
		Kind: surroundings.SlurmStep, Name: "Slurm step 12.0", Nodes: 4, Task: surroundings.Task{Count: 1},
		Values: map[string]surroundings.Value{
			"nnodes": v("4", "SLURM_STEP_NUM_NODES"), "node_rank": v("1", "SLURM_NODEID"), "rdzv_id": v("12.0", "SLURM_JOB_ID"),
			"rdzv_endpoint": v("n1:17188,n2:17188,n3:17188", "SLURM_STEP_NODELIST"), "nproc_per_node": v("8", "SLURM_GPUS_ON_NODE"),
		},
	}
}

// pod is pod 1 of an Indexed Job.
func pod() surroundings.Surroundings {
	return surroundings.Surroundings{
		Kind: surroundings.Kubernetes, Name: "pod 1 of an Indexed Job", Task: surroundings.Task{Count: 1},
		Values: map[string]surroundings.Value{
			"node_rank": {Text: "1", From: "JOB_COMPLETION_INDEX"}, "rdzv_id": {Text: "train", From: "the pod's name"},
			"rdzv_endpoint": {Text: "train-0.svc", From: "the pod's name"},
		},
	}
}

func batch(nodes int) surroundings.Surroundings {
	return surroundings.Surroundings{
		Kind: surroundings.SlurmBatch, Name: "Slurm job 12", Nodes: nodes, Allocated: nodes, Srun: "srun", Task: surroundings.Task{Count: 1},
		Values: map[string]surroundings.Value{"rdzv_id": {Text: "12", From: "SLURM_JOB_ID"}},
	}
}

// workersByCPU is a step without GPUs and with one task a node.
func workersByCPU(n string) surroundings.Surroundings {
	s := slurmStep()
	s.Values["nproc_per_node"] = surroundings.Value{Text: n, From: "SLURM_CPUS_ON_NODE"}
	return s
}

func elsewhere() surroundings.Surroundings {
	s := batch(1)
	s.Elsewhere = true
	return s
}

// TestSurroundings checks which values of the surroundings a job takes, beside the
// flags and variables of its user.
func TestSurroundings(t *testing.T) {
	all := []string{"nnodes", "node-rank", "nproc-per-node", "rdzv-endpoint", "rdzv-id"}
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(names, n) })
	}
	tests := []struct {
		name    string
		around  surroundings.Surroundings
		flags   flags
		env     env
		used    []string
		nodes   int
		rank    int
		backend Backend
		notes   int
	}{
		{name: "srun says all", around: slurmStep(), used: all, nodes: 4, rank: 1, backend: Gossip},
		{name: "turned off", around: slurmStep(), flags: flags{"surroundings": "none"}, nodes: 1, backend: Standalone},
		{name: "turned off by a variable", around: slurmStep(), env: env{"GORUN_SURROUNDINGS": "none"}, nodes: 1, backend: Standalone},
		{name: "flags win", around: slurmStep(), flags: flags{"nproc_per_node": "2", "rdzv_id": "mine", "node_rank": "3"}, used: without("nproc-per-node", "rdzv-id", "node-rank"), nodes: 4, rank: 3, backend: Gossip},
		{name: "variables win", around: slurmStep(), env: env{"PET_NPROC_PER_NODE": "2", "GORUN_RDZV_ID": "mine"}, used: without("nproc-per-node", "rdzv-id"), nodes: 4, rank: 1, backend: Gossip},
		{name: "today's line of torchrun", around: slurmStep(), flags: flags{"nnodes": "4", "rdzv_backend": "c10d", "rdzv_endpoint": "n1:29500", "rdzv_id": "7"}, used: without("nnodes", "rdzv-endpoint", "rdzv-id"), nodes: 4, rank: 1, backend: Gossip},
		{name: "a master", around: slurmStep(), flags: flags{"nnodes": "4", "master_addr": "n1"}, used: without("nnodes", "rdzv-endpoint"), nodes: 4, rank: 1, backend: Static},
		{name: "the static rendezvous meets at the first node", around: slurmStep(), flags: flags{"rdzv_backend": "static"}, used: all, nodes: 4, rank: 1, backend: Static},
		{name: "one node of the step", around: slurmStep(), flags: flags{"nnodes": "1"}, used: without("nnodes", "node-rank", "rdzv-endpoint"), nodes: 1, backend: Standalone, notes: 1},
		{name: "fewer nodes than the step has", around: slurmStep(), flags: flags{"nnodes": "2"}, used: without("nnodes"), nodes: 2, rank: 1, backend: Gossip, notes: 1},
		{name: "an elastic job", around: slurmStep(), flags: flags{"nnodes": "2:4"}, used: without("nnodes"), nodes: 4, rank: 1, backend: Gossip},
		{name: "local nodes", around: slurmStep(), flags: flags{"local_nodes": "2"}, used: []string{"nproc-per-node"}, nodes: 2, rank: -1, backend: Gossip},
		{name: "standalone", around: slurmStep(), flags: flags{"standalone": "1"}, used: []string{"nproc-per-node"}, nodes: 1, backend: Standalone},
		{name: "a pod whose job says how many", around: pod(), env: env{"GORUN_NNODES": "2"}, used: []string{"node-rank", "rdzv-endpoint", "rdzv-id"}, nodes: 2, rank: 1, backend: Gossip},
		{name: "pods of several Jobs", around: pod(), env: env{"GORUN_NNODES": "4", "PET_RDZV_ENDPOINT": "train-workers-0-0.train"}, nodes: 4, rank: -1, backend: Gossip},
		{name: "standalone is off", around: slurmStep(), env: env{"GORUN_STANDALONE": "0"}, used: all, nodes: 4, rank: 1, backend: Gossip},
		{name: "a batch script that starts one of two nodes", around: batch(2), flags: flags{"nnodes": "2", "rdzv_endpoint": "n1"}, nodes: 2, rank: -1, backend: Gossip},
		{name: "a pod alone", around: pod(), used: []string{"rdzv-id"}, nodes: 1, backend: Standalone, notes: 1},
		{name: "a batch script of one node", around: batch(1), used: []string{"rdzv-id"}, nodes: 1, backend: Standalone},
		{name: "one worker a CPU", around: workersByCPU("16"), used: all, nodes: 4, rank: 1, backend: Gossip, notes: 1},
		{name: "one CPU", around: workersByCPU("1"), used: all, nodes: 4, rank: 1, backend: Gossip},
		{name: "a shell of salloc on a login node", around: elsewhere(), used: []string{"rdzv-id"}, nodes: 1, backend: Standalone, notes: 1},
		{name: "a batch script that means its node", around: batch(2), flags: flags{"nnodes": "1"}, used: []string{"rdzv-id"}, nodes: 1, backend: Standalone, notes: 1},
		{name: "a worker that starts gorun", env: env{"GORUN_RUN_ID": "x", "GORUN_LOCAL_NODES": "3", "GORUN_NNODES": "2"}, nodes: 1, backend: Standalone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Raw{Flags: tt.flags, Command: []string{"train.py"}, Surroundings: found(tt.around)}.Resolve(func(name string) (string, bool) {
				v, ok := tt.env[name]
				return v, ok
			})
			if err != nil {
				t.Fatal(err)
			}
			var used []string
			for _, u := range s.Surroundings.Used {
				used = append(used, u.Flag)
			}
			if !slices.Equal(used, tt.used) || s.MaxNodes != tt.nodes || s.NodeRank != tt.rank || s.Backend != tt.backend || len(s.Notes) != tt.notes {
				t.Errorf("used %q, %d nodes, rank %d, %s, notes %q; want %q, %d, %d, %s, %d notes",
					used, s.MaxNodes, s.NodeRank, s.Backend, s.Notes, tt.used, tt.nodes, tt.rank, tt.backend, tt.notes)
			}
		})
	}
}

// TestReportOn checks that one node reports where all nodes print to one place.
func TestReportOn(t *testing.T) {
	for _, tt := range []struct {
		around surroundings.Surroundings
		flag   string
		want   ReportOn // "": refused
	}{
		{slurmStep(), "", ReportFirst},
		{slurmStep(), "all", ReportAll},
		{pod(), "auto", ReportAll},
		{surroundings.Surroundings{}, "", ReportAll},
		{surroundings.Surroundings{}, "first", ReportFirst},
		{surroundings.Surroundings{}, "last", ""},
	} {
		s, err := Raw{Flags: flags{"report_on": tt.flag}, Command: []string{"train.py"}, Surroundings: found(tt.around)}.Resolve(func(string) (string, bool) { return "", false })
		if s.ReportOn != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s, %q: %q, %v", tt.around.Name, tt.flag, s.ReportOn, err)
		}
	}
}

// TestStepOfFewerNodes checks the line of a step that leaves nodes of its job idle.
func TestStepOfFewerNodes(t *testing.T) {
	around := slurmStep()
	around.Allocated, around.Srun = 6, "srun --het-group=0-1"
	for nnodes, want := range map[string][]string{
		"":  {"the Slurm job has 6 nodes, and Slurm step 12.0 4 of them; srun --het-group=0-1 takes all"},
		"4": nil,
	} {
		r := Raw{Flags: flags{"nnodes": nnodes}, Command: []string{"train.py"}, Surroundings: found(around)}
		if nnodes == "" {
			r.Flags = nil
		}
		s, err := r.Resolve(func(string) (string, bool) { return "", false })
		if err != nil || !slices.Equal(s.Notes, want) {
			t.Errorf("--nnodes %q: %q, %v; want %q", nnodes, s.Notes, err, want)
		}
	}
}

// TestSlurmsRestartsAreShown checks the line about SLURM_RESTART_COUNT.
func TestSlurmsRestartsAreShown(t *testing.T) {
	for restarts, want := range map[int][]string{
		0: nil,
		1: {"Slurm has started this job again once (SLURM_RESTART_COUNT=1)"},
		3: {"Slurm has started this job again 3 times (SLURM_RESTART_COUNT=3)"},
	} {
		around := slurmStep()
		around.Restarts = restarts
		s, err := Raw{Command: []string{"train.py"}, Surroundings: found(around)}.Resolve(func(string) (string, bool) { return "", false })
		if err != nil || !slices.Equal(s.Notes, want) {
			t.Errorf("%d: %q, %v; want %q", restarts, s.Notes, err, want)
		}
	}
}

// TestForgottenSrun checks that a batch script of several nodes is refused with the
// line to type.
func TestForgottenSrun(t *testing.T) {
	_, err := Raw{Command: []string{"train.py"}, Line: []string{"train.py", "--lr", "1 2"}, Surroundings: found(batch(2))}.Resolve(func(string) (string, bool) { return "", false })
	if err == nil || !strings.Contains(err.Error(), "`srun gorun train.py --lr '1 2'`") {
		t.Errorf("%v", err)
	}
}

// TestForgottenSrunHidesCredentials checks that the line to type has no credential.
func TestForgottenSrunHidesCredentials(t *testing.T) {
	_, err := Raw{Command: []string{"train.py"}, Line: []string{"-x", "HF_TOKEN=hunter2", "train.py"}, Surroundings: found(batch(2))}.Resolve(func(string) (string, bool) { return "", false })
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// TestStandaloneTasks checks that tasks of one node are not taken for one job where the
// user wants each to be alone.
func TestStandaloneTasks(t *testing.T) {
	around := slurmStep()
	around.Task.Count = 4
	_, err := Raw{Flags: flags{"standalone": "1"}, Command: []string{"train.py"}, Surroundings: found(around)}.Resolve(func(string) (string, bool) { return "", false })
	if err == nil || !strings.Contains(err.Error(), "--surroundings none") {
		t.Errorf("%v", err)
	}
}

// TestEachFlagHasAVariable checks that GORUN_<NAME> gives the default of each flag,
// and wins over PET_<NAME>.
func TestEachFlagHasAVariable(t *testing.T) {
	variables := env{
		"GORUN_NNODES": "2", "PET_NNODES": "3", "GORUN_RDZV_ENDPOINT": "a:1", "GORUN_PREFLIGHT": "warn", "GORUN_EXPORT": "A=1 NCCL_*",
		"GORUN_OMP": "cores", "GORUN_STORE_OPEN": "true", "GORUN_VIRTUAL_LOCAL_RANK": "false",
	}
	s, err := resolve(nil, variables)
	if err != nil {
		t.Fatal(err)
	}
	if s.MaxNodes != 2 || s.Preflight != PreflightWarn || !slices.Equal(s.Env.Export, []string{"A=1", "NCCL_*"}) || !s.Env.OMPCores || !s.StoreOpen {
		t.Errorf("%+v", s)
	}
	nested := maps.Clone(variables)
	nested["GORUN_RUN_ID"] = "outer"
	if s, err = resolve(flags{"rdzv_endpoint": "a:1"}, nested); err != nil || s.MaxNodes != 3 || s.Preflight != PreflightError {
		t.Errorf("a worker: %+v, %v", s, err)
	}
}
