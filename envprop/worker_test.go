package envprop

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/worker/contract"
)

// vars has a different value in every field.
func vars() Vars {
	return Vars{
		Ranks: Ranks{
			Rank: 5, LocalRank: 1, GroupRank: 2, RoleRank: 6,
			WorldSize: 8, LocalWorldSize: 3, GroupWorldSize: 4, RoleWorldSize: 7, RoleName: "trainer",
		},
		Round: Round{
			RunID: "job", Number: 12, RestartCount: 10, MaxRestarts: 11,
			MasterAddr: "127.0.0.9", MasterPort: 29511, WorldToken: "t",
		},
		Devices:   Devices{Device: "GPU-1"},
		ErrorFile: "/tmp/e.json", WorkerSocket: "/run/w.sock", NodeAddr: "127.0.0.8", Ports: "20000-20100",
	}
}

func asMap(t *testing.T, env []string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := m[name]; twice || !ok {
			t.Errorf("%q is doubled or malformed", entry)
		}
		m[name] = value
	}
	return m
}

func TestWorkerSetsEverything(t *testing.T) {
	got := asMap(t, NewBase([]string{"SENTINEL=1"}).Worker(vars()))
	want := map[string]string{
		"RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "2", "ROLE_RANK": "6", "ROLE_NAME": "trainer",
		"LOCAL_WORLD_SIZE": "3", "WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "4", "ROLE_WORLD_SIZE": "7",
		"MASTER_ADDR": "127.0.0.9", "MASTER_PORT": "29511",
		"TORCHELASTIC_RESTART_COUNT": "10", "TORCHELASTIC_MAX_RESTARTS": "11", "TORCHELASTIC_RUN_ID": "job",
		"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_ERROR_FILE": "/tmp/e.json",
		"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1",
		contract.EnvSocket: "/run/w.sock", contract.EnvRunID: "job", contract.EnvRound: "12",
		contract.EnvDevice: "GPU-1", contract.EnvAddr: "127.0.0.8", contract.EnvPorts: "20000-20100", contract.EnvToken: "t",
		"SENTINEL": "1",
	}
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s is %q (set: %v), want %q", name, v, ok, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d variables, want %d: %v", len(got), len(want), got)
	}
}

// TestStoreOfRankZero checks that rank 0 may open the store, beside gorun's.
func TestStoreOfRankZero(t *testing.T) {
	v := vars()
	v.AgentStore = "127.0.0.9:7"
	got := asMap(t, NewBase(nil).Worker(v))
	if got["TORCHELASTIC_USE_AGENT_STORE"] != "False" || got["MASTER_PORT"] != "29511" || got[contract.EnvStore] != "127.0.0.9:7" {
		t.Errorf("%v", got)
	}
	if _, set := asMap(t, NewBase([]string{contract.EnvStore + "=outer"}).Worker(vars()))[contract.EnvStore]; set {
		t.Error("the store of an outer job stays")
	}
}

// torch's own test script fails when one of these is missing.
func TestTorchTestScript(t *testing.T) {
	got := asMap(t, NewBase([]string{"TEST_SENTINEL_PARENT=FOOBAR"}).Worker(vars()))
	for name := range strings.FieldsSeq(`LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE
		ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
		TORCHELASTIC_RUN_ID OMP_NUM_THREADS TORCHELASTIC_ERROR_FILE TEST_SENTINEL_PARENT GROUP_WORLD_SIZE
		TORCHELASTIC_USE_AGENT_STORE TORCH_NCCL_ASYNC_ERROR_HANDLING`) {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestWorkerInherits(t *testing.T) {
	one := vars()
	one.LocalWorldSize = 1
	bare := vars()
	bare.WorkerSocket, bare.Device, bare.NodeAddr, bare.Ports, bare.WorldToken, bare.ErrorFile = "", "", "", "", "", ""
	tests := []struct {
		name   string
		base   []string
		vars   Vars
		has    []string
		hasNot []string // names
	}{
		{
			"user's values stay",
			[]string{"OMP_NUM_THREADS=4", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3"},
			vars(),
			[]string{"OMP_NUM_THREADS=4", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3"},
			nil,
		},
		{
			"set but empty counts as set",
			[]string{"OMP_NUM_THREADS=", "TORCH_NCCL_ASYNC_ERROR_HANDLING="},
			vars(),
			[]string{"OMP_NUM_THREADS=", "TORCH_NCCL_ASYNC_ERROR_HANDLING="},
			nil,
		},
		{"one worker keeps its threads", nil, one, nil, []string{"OMP_NUM_THREADS"}},
		{
			"outer launcher's values go",
			[]string{"RANK=99", "MASTER_PORT=1", "TORCHELASTIC_ERROR_FILE=/outer", "GORUN_ROUND=7"},
			vars(),
			[]string{"RANK=5", "MASTER_PORT=29511", "TORCHELASTIC_ERROR_FILE=/tmp/e.json", "GORUN_ROUND=12"},
			nil,
		},
		{
			"no leftovers of an outer gorun",
			[]string{"GORUN_WORKER_SOCKET=/outer", "GORUN_DEVICE=x", "GORUN_NODE_ADDR=y", "GORUN_WORLD_TOKEN=z"},
			bare,
			[]string{"TORCHELASTIC_ERROR_FILE="},
			[]string{contract.EnvSocket, contract.EnvDevice, contract.EnvAddr, contract.EnvPorts, contract.EnvToken},
		},
		{
			"internals and the secret go",
			[]string{"GORUN_INTERNAL_KEEPER=1", "GORUN_SECRET=s"},
			vars(),
			nil,
			[]string{"GORUN_INTERNAL_KEEPER", "GORUN_SECRET"},
		},
		{
			"the rest stays",
			[]string{"PATH=/bin", "PET_NNODES=2", "CUDA_VISIBLE_DEVICES=1", "GORUN_MINE=1", "EMPTY=", "EQ=a=b", "PYTHONPATH=x"},
			vars(),
			[]string{"PATH=/bin", "PET_NNODES=2", "CUDA_VISIBLE_DEVICES=1", "GORUN_MINE=1", "EMPTY=", "EQ=a=b", "PYTHONPATH=x"},
			nil,
		},
		{"the later of two wins", []string{"A=1", "B=2", "A=3"}, vars(), []string{"A=3", "B=2"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := NewBase(tt.base).Worker(tt.vars)
			got := asMap(t, env)
			for _, entry := range tt.has {
				if !slices.Contains(env, entry) {
					t.Errorf("%q is missing from %q", entry, env)
				}
			}
			for _, name := range tt.hasNot {
				if v, ok := got[name]; ok {
					t.Errorf("%s=%q must not be there", name, v)
				}
			}
		})
	}
}

func TestWorkerIsPure(t *testing.T) {
	base := []string{"B=1", "A=2", "RANK=9", "", "B=3"}
	given := slices.Clone(base)
	first := NewBase(base).Worker(vars())
	if !slices.Equal(first, NewBase(base).Worker(vars())) {
		t.Error("two calls give different results")
	}
	if !slices.Equal(base, given) {
		t.Error("base was changed")
	}
	if first[0] != "A=2" || first[1] != "B=3" || first[2] != "LOCAL_RANK=1" {
		t.Errorf("unexpected order: %q", first[:3])
	}
}

// TestWorkerPinned checks that what a worker's devices decide counts over all else, and
// is in an environment once.
func TestWorkerPinned(t *testing.T) {
	v := vars()
	v.Pinned = []Variable{{"CUDA_VISIBLE_DEVICES", ""}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"LOCAL_RANK", "0"}, {"OMP_NUM_THREADS", "2"}}
	asked := Assignment{Set: []Setting{{"CUDA_VISIBLE_DEVICES", NewValue("CUDA_VISIBLE_DEVICES", "7"), Source{Kind: FromFlag}}}}
	b := NewBase([]string{"A=1", "CUDA_VISIBLE_DEVICES=0,1", "B=2"}).Apply(asked)
	conf := ncclenv.File{Entries: []ncclenv.Entry{{Name: "CUDA_DEVICE_ORDER", Value: "FASTEST_FIRST"}}}
	env := asMap(t, b.Worker(v))
	sources := map[string]Source{}
	for _, s := range b.Explain(v, conf) {
		sources[s.Name] = s.Source
		if got, ok := env[s.Name]; !ok || got != s.Value.Reveal() {
			t.Errorf("%s=%q is explained as %+v", s.Name, got, s)
		}
	}
	for _, want := range v.Pinned {
		if got, ok := env[want.Name]; !ok || got != want.Value {
			t.Errorf("%s=%q, want %q", want.Name, got, want.Value)
		}
		if s := sources[want.Name]; s.Kind != FromGorun || s.Rule != "its devices, see --pin" {
			t.Errorf("%s comes from %+v", want.Name, s)
		}
	}
	if env["A"] != "1" || env["B"] != "2" || env["RANK"] != "5" || len(sources) != len(env) {
		t.Errorf("%v", env)
	}
}

// TestWorkerInATask checks that a worker in a scheduler's task has the task's own
// variables in place of the node's, and keeps what users and gorun decide.
func TestWorkerInATask(t *testing.T) {
	base := NewBase([]string{"SLURM_PROCID=0", "CUDA_VISIBLE_DEVICES=0", "ONLY_FIRST=1", "REMOVED=1", "NCCL_DEBUG=INFO"}).Apply(Assignment{
		Set:   []Setting{{Name: "NCCL_DEBUG", Value: NewValue("NCCL_DEBUG", "WARN"), Source: Source{Kind: FromFirst}}},
		Unset: []Removal{{Name: "REMOVED", Source: Source{Kind: FromUnset}}},
	})
	v := vars()
	v.Task = []string{
		"SLURM_PROCID=3", "CUDA_VISIBLE_DEVICES=1", "ONLY_TASK=1", "REMOVED=1", "NCCL_DEBUG=TRACE", "RANK=9",
		"GORUN_SECRET=s", "GORUN_INTERNAL_X=1", "OMP_NUM_THREADS=4",
	}
	got := asMap(t, base.Worker(v))
	for name, want := range map[string]string{
		"SLURM_PROCID": "3", "CUDA_VISIBLE_DEVICES": "1", "ONLY_TASK": "1", "NCCL_DEBUG": "WARN", "RANK": "5", "OMP_NUM_THREADS": "4",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"ONLY_FIRST", "REMOVED", "GORUN_SECRET", "GORUN_INTERNAL_X"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %q", name, v)
		}
	}
	v.Task = nil
	if got := asMap(t, base.Worker(v)); got["SLURM_PROCID"] != "0" || got["ONLY_FIRST"] != "1" {
		t.Errorf("without a task: %v", got)
	}
}

// TestWithDefaults checks that a default counts only where nothing sets the variable, and
// that gorun env says why it is there.
func TestWithDefaults(t *testing.T) {
	user := NewBase([]string{"SET=user", "HOME=/h"}).Apply(Assignment{Unset: []Removal{{Name: "GONE_*", Source: Source{Kind: FromUnset}}}})
	b := user.WithDefaults("a rule", []Variable{{"SET", "gorun"}, {"GONE_1", "gorun"}, {"NEW", "gorun"}})
	env := b.Worker(Vars{})
	for name, want := range map[string]string{"SET": "user", "GONE_1": "", "NEW": "gorun"} {
		if got := environ.Get(env, name); got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	for _, s := range b.Explain(Vars{}) {
		if s.Name == "NEW" && (s.Source.Kind != FromGorun || s.Source.Rule != "a rule") {
			t.Errorf("%+v", s)
		}
	}
	if slices.Contains(user.Worker(Vars{}), "NEW=gorun") {
		t.Error("the base itself changed")
	}
	task := b.Worker(Vars{Task: []string{"NEW=task"}})
	if n := len(slices.DeleteFunc(task, func(e string) bool { return nameOf(e) != "NEW" })); n != 1 {
		t.Errorf("a task has the variable %d times", n)
	}
}
