package surroundings

import (
	"maps"
	"net/netip"
	"strings"
	"testing"
)

// env makes a Lookup of NAME=VALUE words.
func env(words string) Lookup {
	vars := map[string]string{}
	for _, w := range strings.Fields(words) {
		name, value, _ := strings.Cut(w, "=")
		vars[name] = value
	}
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

// step holds what Slurm 22.05 gives to the second of two tasks on the second node.
const step = "SLURM_JOB_ID=12 SLURM_STEP_ID=3 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NODEID=1 " +
	"SLURM_JOB_NUM_NODES=4 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_TASKS_PER_NODE=2(x2) " +
	"SLURM_CPUS_ON_NODE=8 SLURMD_NODENAME=n2 "

// openMPI4 holds what Open MPI 4.1 gives to a process beside mpirun's machine.
const openMPI4 = "PMIX_NAMESPACE=188 OMPI_MCA_orte_hnp_uri=187.0;tcp://127.0.0.1,169.254.0.1,10.0.0.1,172.17.0.1:7;tcp6://[fd00::1]:8 " +
	"OMPI_MCA_orte_local_daemon_uri=187.1;tcp://10.0.0.2:9 PMIX_HOSTNAME=b "

func TestFind(t *testing.T) {
	tests := []struct {
		name      string
		env       string
		host      Host
		kind      Kind
		nodes     int
		task      Task
		noMeeting bool
		values    map[string]string // text (from)
	}{
		{name: "nothing", env: "PATH=/bin"},
		{
			name: "a task of srun", env: step, kind: SlurmStep, nodes: 2, task: Task{1, 2, "slurm-12.3-n2"},
			values: map[string]string{
				"nnodes": "2 (SLURM_STEP_NUM_NODES)", "node_rank": "1 (SLURM_NODEID)", "nproc_per_node": "2 (SLURM_STEP_TASKS_PER_NODE)",
				"rdzv_id":       "12.3 (SLURM_JOB_ID and SLURM_STEP_ID)",
				"rdzv_endpoint": "n1:17191 (SLURM_STEP_NODELIST, SLURM_JOB_ID and SLURM_STEP_ID)",
			},
		},
		{
			name: "GPUs of this node, one task, three endpoints", kind: SlurmStep, nodes: 4, task: Task{0, 1, "slurm-12.3-n2"},
			env: step + "SLURM_GPUS_ON_NODE=4 SLURM_STEP_TASKS_PER_NODE=1(x4) SLURM_STEP_NUM_NODES=4 SLURM_STEP_NODELIST=n[2-4],m SLURM_LOCALID=0 SLURM_NODEID=3",
			values: map[string]string{
				"nnodes": "4 (SLURM_STEP_NUM_NODES)", "node_rank": "3 (SLURM_NODEID)", "nproc_per_node": "4 (SLURM_GPUS_ON_NODE)",
				"rdzv_id":       "12.3 (SLURM_JOB_ID and SLURM_STEP_ID)",
				"rdzv_endpoint": "n2:17191,n3:17191,n4:17191 (SLURM_STEP_NODELIST, SLURM_JOB_ID and SLURM_STEP_ID)",
			},
		},
		{
			name: "CPUs of this node", env: step + "SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_LOCALID=0 SLURM_HET_JOB_ID=11 SLURM_GPUS_ON_NODE=0", kind: SlurmStep, nodes: 2, task: Task{0, 1, "slurm-11.3-n2"},
			values: map[string]string{
				"nnodes": "2 (SLURM_STEP_NUM_NODES)", "node_rank": "1 (SLURM_NODEID)", "nproc_per_node": "8 (SLURM_CPUS_ON_NODE)",
				"rdzv_id":       "11.3 (SLURM_JOB_ID and SLURM_STEP_ID)",
				"rdzv_endpoint": "n1:17124 (SLURM_STEP_NODELIST, SLURM_JOB_ID and SLURM_STEP_ID)",
			},
		},
		{
			name: "a batch script", env: "SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_GPUS_ON_NODE=tesla:2,volta:1", kind: SlurmBatch, nodes: 2, task: Task{0, 1, ""},
			values: map[string]string{"rdzv_id": "12 (SLURM_JOB_ID)", "nproc_per_node": "3 (SLURM_GPUS_ON_NODE)"},
		},
		{
			name: "the shell of salloc", env: "SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2", kind: SlurmBatch, nodes: 2, task: Task{0, 1, ""},
			values: map[string]string{"rdzv_id": "12 (SLURM_JOB_ID)"},
		},
		{name: "a worker of gorun in a step", env: step + "GORUN_RUN_ID=x GORUN_STEP=12.3"},
		{name: "a worker of gorun without a scheduler", env: "GORUN_RUN_ID=x JOB_COMPLETION_INDEX=2"},
		{
			name: "a batch script that a worker submitted", env: "GORUN_RUN_ID=x GORUN_STEP=11.0 SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2", kind: SlurmBatch, nodes: 2, task: Task{0, 1, ""},
			values: map[string]string{"rdzv_id": "12 (SLURM_JOB_ID)"},
		},
		{
			name: "the shell of salloc as a step", env: step + "SLURM_STEP_ID=4294967290", kind: SlurmBatch, nodes: 4, task: Task{0, 1, ""},
			values: map[string]string{"rdzv_id": "12 (SLURM_JOB_ID)", "nproc_per_node": "8 (SLURM_CPUS_ON_NODE)"},
		},
		{
			name: "a user who hides GPUs", env: "SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1 SLURM_PROCID=0 SLURM_GPUS_ON_NODE=8 CUDA_VISIBLE_DEVICES=0,3", kind: SlurmBatch, nodes: 1, task: Task{0, 1, ""},
			values: map[string]string{"rdzv_id": "12 (SLURM_JOB_ID)", "nproc_per_node": "2 (CUDA_VISIBLE_DEVICES)"},
		},
		{
			name: "a pod with a name", env: "JOB_COMPLETION_INDEX=2", host: Host{"train-2", "train-2.train.default.svc.cluster.local"}, kind: Kubernetes, task: Task{0, 1, ""},
			values: map[string]string{
				"node_rank": "2 (JOB_COMPLETION_INDEX)", "rdzv_id": "train (the pod's name)",
				"rdzv_endpoint": "train-0.train.default.svc.cluster.local (the pod's name and JOB_COMPLETION_INDEX)",
			},
		},
		{
			name: "a pod of a JobSet", env: "JOB_COMPLETION_INDEX=1 JOBSET_NAME=train", host: Host{"train-workers-3-1", "train-workers-3-1.pods.default.svc.cluster.local"},
			kind: Kubernetes, task: Task{0, 1, ""}, values: map[string]string{
				"rdzv_id": "train (JOBSET_NAME)", "rdzv_endpoint": "pods.default.svc.cluster.local (the pod's name and JOBSET_NAME)",
			},
		},
		{
			name: "of one without names", env: "JOB_COMPLETION_INDEX=1 JOBSET_NAME=train", host: Host{Name: "train-workers-3-1"},
			kind: Kubernetes, task: Task{0, 1, ""}, values: map[string]string{"rdzv_id": "train (JOBSET_NAME)"},
		},
		{name: "a pod without a service", env: "JOB_COMPLETION_INDEX=2", host: Host{Name: "train-2-x7k2p"}, kind: Kubernetes, task: Task{0, 1, ""}, values: map[string]string{"node_rank": "2 (JOB_COMPLETION_INDEX)"}},
		{
			name: "mpirun -N 1 under srun", env: step + openMPI4 + "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1",
			kind: OpenMPI, nodes: 3, task: Task{0, 1, "openmpi-188-187.1;tcp://10.0.0.2:9"}, values: map[string]string{
				"nnodes": "3 (OMPI_COMM_WORLD_SIZE)", "node_rank": "1 (OMPI_COMM_WORLD_RANK)", "rdzv_id": "188 (PMIX_NAMESPACE)",
				"rdzv_endpoint": "10.0.0.1:17917 (OMPI_MCA_orte_hnp_uri and PMIX_NAMESPACE)",
			},
		},
		{
			name: "mpirun of Open MPI 4 with several processes a node", env: openMPI4 + "OMPI_MCA_orte_node_regex=a,[1:b]2@0(2) OMPI_MCA_orte_num_nodes=2 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=5 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
			kind: OpenMPI, nodes: 2, task: Task{0, 2, "openmpi-188-187.1;tcp://10.0.0.2:9"}, values: map[string]string{
				"nnodes": "2 (OMPI_MCA_orte_num_nodes)", "node_rank": "1 (OMPI_MCA_orte_local_daemon_uri)", "nproc_per_node": "2 (OMPI_COMM_WORLD_LOCAL_SIZE)", "rdzv_id": "188 (PMIX_NAMESPACE)",
				"rdzv_endpoint": "10.0.0.1:17917 (OMPI_MCA_orte_hnp_uri and PMIX_NAMESPACE)",
			},
		},
		{
			name: "mpirun of Open MPI 4 with a node in the list that has no process", env: openMPI4 + "OMPI_MCA_orte_node_regex=a,[1:b]2-3@0(3) OMPI_MCA_orte_num_nodes=2 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
			kind: OpenMPI, nodes: 2, task: Task{0, 2, "openmpi-188-187.1;tcp://10.0.0.2:9"}, values: map[string]string{
				"nnodes": "2 (OMPI_MCA_orte_num_nodes)", "nproc_per_node": "2 (OMPI_COMM_WORLD_LOCAL_SIZE)", "rdzv_id": "188 (PMIX_NAMESPACE)",
				"rdzv_endpoint": "10.0.0.1:17917 (OMPI_MCA_orte_hnp_uri and PMIX_NAMESPACE)",
			},
		},
		{
			name: "mpirun of Open MPI 4 whose machine has no process", env: openMPI4 + "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1", host: Host{Name: "b"},
			kind: OpenMPI, nodes: 2, task: Task{0, 1, "openmpi-188-187.1;tcp://10.0.0.2:9"}, noMeeting: true, values: map[string]string{
				"nnodes": "2 (OMPI_COMM_WORLD_SIZE)", "node_rank": "0 (OMPI_COMM_WORLD_RANK)", "rdzv_id": "188 (PMIX_NAMESPACE)",
			},
		},
		{
			name: "mpirun of Open MPI 5, two a node", env: "PMIX_NAMESPACE=prterun-a-b-12@1 PMIX_HOSTNAME=a-b OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2", host: Host{Name: "a-b.example"},
			kind: OpenMPI, nodes: 2, task: Task{0, 2, "openmpi-prterun-a-b-12@1-a-b"}, values: map[string]string{
				"nnodes": "2 (OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_LOCAL_SIZE)", "node_rank": "0 (OMPI_COMM_WORLD_RANK)", "nproc_per_node": "2 (OMPI_COMM_WORLD_LOCAL_SIZE)",
				"rdzv_id": "prterun-a-b-12@1 (PMIX_NAMESPACE)", "rdzv_endpoint": "a-b:21163 (PMIX_NAMESPACE)",
			},
		},
		{name: "Slurm's PMI-2", env: step + "PMI_FD=6 PMI_RANK=1 PMI_SIZE=2 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_LOCALID=0", kind: SlurmStep, nodes: 2, task: Task{0, 1, "slurm-12.3-n2"}, values: map[string]string{
			"nnodes": "2 (SLURM_STEP_NUM_NODES)", "node_rank": "1 (SLURM_NODEID)", "nproc_per_node": "8 (SLURM_CPUS_ON_NODE)",
			"rdzv_id": "12.3 (SLURM_JOB_ID and SLURM_STEP_ID)", "rdzv_endpoint": "n1:17191 (SLURM_STEP_NODELIST, SLURM_JOB_ID and SLURM_STEP_ID)",
		}},
		{
			name: "mpiexec of Hydra, after the exchange", env: "GORUN_INTERNAL_PMI=kvs_1|2|1|10.0.0.1:99 PMI_RANK=3 PMI_SIZE=4 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1",
			kind: Hydra, nodes: 2, task: Task{1, 2, "hydra-kvs_1-1"}, values: map[string]string{
				"nnodes": "2 (PMI_FD)", "node_rank": "1 (PMI_FD)", "rdzv_id": "kvs_1 (PMI_FD)", "rdzv_endpoint": "10.0.0.1:99 (PMI_FD)", "nproc_per_node": "2 (MPI_LOCALNRANKS)",
			},
		},
		{
			name: "mpiexec of Hydra", env: "PMI_FD=6 PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=1 MPI_LOCALRANKID=0",
			kind: Hydra, nodes: 2, task: Task{0, 1, ""}, values: map[string]string{"nnodes": "2 (PMI_SIZE)", "node_rank": "1 (PMI_RANK)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Find(env(tt.env), tt.host)
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]string{}
			for name, v := range got.Values {
				values[name] = v.Text + " (" + v.From + ")"
			}
			if got.Kind != tt.kind || got.Nodes != tt.nodes || got.Task != tt.task || (got.NoMeeting != "") != tt.noMeeting || !maps.Equal(values, tt.values) {
				t.Errorf("%+v\nwant %s, %d nodes, %+v, %v", got, tt.kind, tt.nodes, tt.task, tt.values)
			}
		})
	}
}

// TestFindRefuses checks that a text that cannot be understood is an error that
// names its variable.
func TestFindRefuses(t *testing.T) {
	for name, value := range map[string]string{
		"SLURM_STEP_NUM_NODES": "two", "SLURM_STEP_NODELIST": "n[1-", "SLURM_NODEID": "2", "SLURM_LOCALID": "-1",
		"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_JOB_ID": "x", "SLURM_CPUS_ON_NODE": "0",
	} {
		words := step
		if name == "SLURM_CPUS_ON_NODE" {
			words += "SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_LOCALID=0 "
		}
		_, err := Find(env(words+name+"="+value), Host{})
		if err == nil || !strings.HasPrefix(err.Error(), "cannot use "+name+": ") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

func TestFullName(t *testing.T) {
	const pod = "127.0.0.1\tlocalhost\n# Kubernetes-managed hosts file.\n10.1.2.3\ttrain-2.train.default.svc.cluster.local\ttrain-2\n"
	for _, tt := range []struct{ hosts, name, want string }{
		{pod, "train-2", "train-2.train.default.svc.cluster.local"},
		{pod, "train-1", ""},
		{"10.1.2.3 train-2\n", "train-2", ""},
		{"", "", ""},
	} {
		if got := fullName([]byte(tt.hosts), tt.name); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSlurmPort checks that steps that may share a node have ports of their own.
func TestSlurmPort(t *testing.T) {
	seen := map[int]string{}
	for job := range 200 {
		for s := range 60 {
			j, st := itoa(100000+job), itoa(s)
			p := slurmPort(j, st)
			if p < 1024 || p >= 32768 {
				t.Fatalf("port %d", p)
			}
			if other := seen[p]; other != "" {
				t.Fatalf("%s.%s and %s have port %d", j, st, other, p)
			}
			seen[p] = j + "." + st
		}
	}
}

// TestSlurmAllocation checks the number of nodes of the whole job, and what takes them.
func TestSlurmAllocation(t *testing.T) {
	const het = "SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=1 SLURM_JOB_NUM_NODES_HET_GROUP_1=2 "
	for _, tt := range []struct {
		env   string
		nodes int
		srun  string
	}{
		{step, 4, "srun"},
		{step + het, 3, "srun --het-group=0-1"},
		{"SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2", 2, "srun"},
		{"SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1 " + het, 3, "srun --het-group=0-1"},
	} {
		s, err := Find(env(tt.env), Host{})
		if err != nil || s.Allocated != tt.nodes || s.Srun != tt.srun {
			t.Errorf("%s: %d nodes by %q, %v", tt.env, s.Allocated, s.Srun, err)
		}
	}
}

// TestElsewhere checks that the shell of salloc on a host that the job has not is
// recognised, and that a batch script never is one.
func TestElsewhere(t *testing.T) {
	job := "SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=n[1-2] "
	for _, tt := range []struct {
		env, host string
		want      bool
	}{
		{job, "login", true},
		{job, "n2.cluster.example", false},
		{job, "", false},
		{job + "SLURM_PROCID=0 SLURM_CPUS_ON_NODE=1", "login", false},
		{"SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1", "login", false},
	} {
		s, err := Find(env(tt.env), Host{Name: tt.host})
		if err != nil || s.Kind != SlurmBatch || s.Elsewhere != tt.want {
			t.Errorf("%s on %q: %+v, %v; want elsewhere %v", tt.env, tt.host, s, err, tt.want)
		}
	}
}

func FuzzHeads(f *testing.F) {
	f.Add("1.0;tcp://10.0.0.1,172.17.0.1:52059;tcp6://[fd00::1]:1")
	f.Add("prterun-a-b-12@1")
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := headAddress(text); err == nil {
			if _, err := netip.ParseAddr(a); err != nil {
				t.Errorf("address %q of %q", a, text)
			}
		}
		if name, ok := headName(text); ok && (name == "" || !isName(name)) {
			t.Errorf("name %q of %q", name, text)
		}
	})
}
