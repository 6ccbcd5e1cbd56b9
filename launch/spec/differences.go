package spec

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/spec/surroundings"
)

// Parity says how a flag or a variable of torchrun compares with gorun's.
type Parity string

// These are the parities.
const (
	Same   Parity = "same"
	Worded Parity = "same, with a word"
	More   Parity = "more"
	Other  Parity = "other"
)

// Row is one line of the table of torchrun's flags and variables.
type Row struct {
	Name   string // "--nnodes" or "LOGLEVEL"
	Parity Parity
	Text   string // what is more or other, in Markdown; "" where it is the same
	// Applies returns the line for a command line that gorun treats otherwise than
	// torchrun, or "" if it does not; nil: never.
	applies func(asked) string
}

// asked is a command line with its meaning.
type asked struct {
	*input
	spec *Spec
}

// TorchrunTable lists every flag and every variable of torchrun, in the order of the
// documentation.
func TorchrunTable() (flags, variables []Row) {
	return torchrunFlagRows(), torchrunVariableRows()
}

// Differences returns what gorun does otherwise than torchrun for a command line that
// means s, one line each.
func (r Raw) Differences(lookup Lookup, s Spec) []string {
	a := asked{&input{raw: r, lookup: lookup}, &s}
	var lines []string
	flags, variables := TorchrunTable()
	for _, row := range slices.Concat(flags, variables) {
		if row.applies == nil {
			continue
		}
		if text := row.applies(a); text != "" {
			lines = append(lines, row.Name+": "+text)
		}
	}
	return append(append(lines, a.ownFlags()...), a.taken()...)
}

// ownFlags names the flags and variables that torchrun does not have.
func (a asked) ownFlags() []string {
	var lines []string
	names := slices.Concat(slices.Collect(maps.Keys(a.raw.Flags)), slices.Collect(maps.Keys(a.raw.Lists)))
	for _, name := range slices.Sorted(slices.Values(names)) {
		if GenerationOf(name) == GorunsOwn {
			lines = append(lines, fmt.Sprintf("--%s: torchrun has no such flag", strings.ReplaceAll(name, "_", "-")))
		}
	}
	for _, name := range slices.Sorted(slices.Values(a.raw.Environ)) {
		if strings.HasPrefix(name, VariablePrefix) && !surroundings.IsNested(surroundings.Lookup(a.lookup)) {
			lines = append(lines, name+": torchrun does not read it")
		}
	}
	return lines
}

// taken names the values that gorun takes from a scheduler.
func (a asked) taken() []string {
	var lines []string
	for _, u := range a.spec.Surroundings.Used {
		lines = append(lines, fmt.Sprintf("--%s: gorun takes %s from %s, torchrun has its own default; --surroundings none is as torchrun", u.Flag, u.Text, u.From))
	}
	return lines
}

// torchrunFlagRows lists torchrun's flags.
func torchrunFlagRows() []Row {
	return []Row{
		{Name: "--nnodes", Parity: More, Text: "from Slurm, Kubernetes or mpirun where no flag says it"},
		{Name: "--nproc-per-node", Parity: More, Text: "as for --nnodes; `cpu` counts the CPUs that gorun may use; there is no `xpu`"},
		{
			Name: "--rdzv-backend", Parity: Other, Text: "c10d is gorun's gossip, `etcd` and `etcd-v2` are etcd's v3 API: all nodes of a job run gorun. An endpoint for several nodes without a backend means c10d, for one node static",
			applies: backendDiffers,
		},
		{Name: "--rdzv-endpoint", Parity: More, Text: "several endpoints, names of several nodes, service records"},
		{Name: "--rdzv-id", Parity: Same},
		{
			Name: "--rdzv-conf", Parity: Other, Text: "`close_timeout`, `heartbeat_timeout`, `read_timeout`, `store_type`, `use_libuv` and `etcd_prefix` have no effect, with a line; a node is lost after 10 times 1 s of silence, not 3 times 5 s",
			applies: confDiffers,
		},
		{
			Name: "--standalone", Parity: Worded, Text: "a `--master-port` on the same command line counts",
			applies: func(a asked) string {
				if v := a.get("master_port"); a.isOn("standalone") && v.given && !v.env {
					return fmt.Sprintf("gorun serves the workers' store at port %d, torchrun ignores --master-port", a.spec.MasterPort)
				}
				return ""
			},
		},
		{
			Name: "--max-restarts", Parity: Other, Text: "counted for the whole job, not for each node",
			applies: func(a asked) string {
				if a.spec.MaxRestarts > 0 && a.spec.MaxNodes > 1 {
					return "gorun counts the restarts of the whole job, torchrun those of each node"
				}
				return ""
			},
		},
		{
			Name: "--monitor-interval", Parity: Worded, Text: "checked, without effect: gorun sees the end of a worker at once",
			applies: func(a asked) string {
				if a.get("monitor_interval").given {
					return "gorun sees the end of a worker at once, whatever the interval is"
				}
				return ""
			},
		},
		{
			Name: "--start-method", Parity: Worded, Text: "checked; each worker is a new process, as with `spawn`",
			applies: func(a asked) string {
				if v := a.get("start_method"); v.given && v.text != "spawn" && a.spec.RunPath {
					return fmt.Sprintf("gorun starts each worker as a new process, torchrun by %s", v.text)
				}
				return ""
			},
		},
		{Name: "--event-log-handler", Parity: Same},
		{Name: "--role", Parity: Same},
		{Name: "--module", Parity: Same},
		{Name: "--no-python", Parity: More, Text: "a Go package, an executable that is no Python script and a name on PATH are started directly without it"},
		{Name: "--run-path", Parity: Worded, Text: "the report names the script, not `run_script_path`"},
		{Name: "--log-dir", Parity: Same},
		{Name: "--redirects", Parity: Same},
		{Name: "--tee", Parity: Same},
		{Name: "--local-ranks-filter", Parity: Same},
		{Name: "--duplicate-stdout-filters", Parity: More, Text: "the file has the lines of ranks without --tee, too"},
		{Name: "--duplicate-stderr-filters", Parity: More, Text: "likewise"},
		{
			Name: "--node-rank", Parity: More, Text: "counts with every backend",
			applies: func(a asked) string {
				if v := a.fromUser("node_rank"); v.given && a.spec.NodeRank > 0 && (a.spec.Backend == Gossip || a.spec.Backend == EtcdV3) {
					return fmt.Sprintf("gorun gives this node group rank %d, torchrun ignores it with this backend", a.spec.NodeRank)
				}
				return ""
			},
		},
		{
			Name: "--master-addr", Parity: Worded, Text: "on one node an address that this machine does not have is ignored, with a line",
			applies: func(a asked) string {
				if v := a.get("master_addr"); v.given && a.spec.MaxNodes == 1 && isElsewhere(v.text) {
					return fmt.Sprintf("gorun ignores %s, an address that this machine does not have; torchrun's workers wait there for their store", v.text)
				}
				return ""
			},
		},
		{Name: "--master-port", Parity: More, Text: "where 29500 is only the default and is taken, the job gets another port; a port that was named and is taken is an error"},
		{Name: "--local-addr", Parity: Worded, Text: "a node whose endpoint is another of its addresses needs `--rdzv-conf is_host=1`"},
		{Name: "--logs-specs", Parity: Worded, Text: "`default`; there are no plugins, and torchrun's error for another name is a line"},
		{Name: "--numa-binding", Parity: More, Text: "without numactl; by the GPU that a worker has, whatever its local rank; PET_NUMA_BINDING and GORUN_NUMA_BINDING count"},
		{Name: "--signals-to-handle", Parity: Same},
		{Name: "--shutdown-timeout", Parity: More, Text: "for every stop; also `1m30s`"},
		{Name: "--virtual-local-rank", Parity: Same},
		{Name: "--log-line-prefix-template", Parity: Same},
		{Name: "--print-completion", Parity: Same},
		{Name: "--use-env", Parity: Worded, Text: "of `python -m torch.distributed.launch`, which is `gorun launch`"},
	}
}

// torchrunVariableRows lists the variables that torchrun sets and reads.
func torchrunVariableRows() []Row {
	return []Row{
		{Name: "LOCAL_RANK, RANK, GROUP_RANK, ROLE_RANK, ROLE_NAME", Parity: Same},
		{Name: "LOCAL_WORLD_SIZE, WORLD_SIZE, GROUP_WORLD_SIZE, ROLE_WORLD_SIZE", Parity: Same},
		{Name: "MASTER_ADDR, MASTER_PORT", Parity: Other, Text: "with c10d on several nodes gorun's own store on node 0, at a port of its own; else as there"},
		{Name: "TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS, TORCHELASTIC_RUN_ID", Parity: Same},
		{Name: "TORCHELASTIC_USE_AGENT_STORE", Parity: Worded, Text: "`True` for static and for c10d on several nodes, as under torchrun since 2.2; `False` for --standalone and c10d on one node, as under torchrun 1.13: rank 0 opens the store, and a worker's own `tcp://` store works"},
		{Name: "TORCHELASTIC_ERROR_FILE", Parity: Same, Text: "set for each worker, and read: the first failure of the job is copied there"},
		{Name: "TORCH_NCCL_ASYNC_ERROR_HANDLING", Parity: Same},
		{Name: "OMP_NUM_THREADS", Parity: More, Text: "1 for each of several workers, as there; `--omp cores`: a share of the cores"},
		{Name: "TORCHELASTIC_ENABLE_FILE_TIMER, TORCHELASTIC_TIMER_FILE", Parity: Same},
		{Name: "CUDA_VISIBLE_DEVICES", Parity: More, Text: "stays as it is where CUDA shows the right GPUs anyway; see --pin and --pin-by in [usage](usage.md#devices)"},
		{Name: "PET_<FLAG>", Parity: Worded, Text: "gorun prints a line for a variable that has no effect"},
		{Name: "PYTHON_EXEC", Parity: Same, Text: "without it `$VIRTUAL_ENV/bin/python`, then python3: gorun runs in no Python itself"},
		{
			Name: "LOGLEVEL", Parity: Other, Text: "gorun's own lines do not depend on it; the events of --event-log-handler do, as there",
			applies: func(a asked) string {
				if v, _ := a.lookup("LOGLEVEL"); v != "" && v != "WARNING" {
					return "gorun prints the same lines at every level"
				}
				return ""
			},
		},
		{Name: "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", Parity: Same},
		{Name: "TORCHELASTIC_SIGNALS_TO_HANDLE", Parity: Same},
		{Name: "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", Parity: Same},
		{
			Name: "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT", Parity: Other, Text: "not read: a node that is done waits for the others as long as they run",
			applies: func(a asked) string {
				if v, _ := a.lookup("TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT"); v != "" && a.spec.MaxNodes > 1 {
					return "in gorun a node that is done waits for the others as long as they run"
				}
				return ""
			},
		},
		{Name: "TORCH_ELASTIC_WORKER_IDENTICAL, TORCH_MP_PARALLEL_START", Parity: Other, Text: "not read: they make torchrun's own start faster"},
		{
			Name: "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", Parity: Other, Text: "not read: gorun serves the workers' store wherever it sets TORCHELASTIC_USE_AGENT_STORE=True",
			applies: func(a asked) string {
				if v, _ := a.lookup("TORCH_DISABLE_SHARE_RDZV_TCP_STORE"); v == "1" && a.spec.StoreOwner != RankZero {
					return "gorun serves the workers' store all the same"
				}
				return ""
			},
		},
		{Name: "TORCHELASTIC_HEALTH_CHECK_PORT", Parity: Other, Text: "not read; `--metrics-addr` answers `/healthz`"},
	}
}

// backendDiffers says what another rendezvous means for the user.
func backendDiffers(a asked) string {
	b := a.fromUser("rdzv_backend")
	switch {
	case a.spec.Backend == EtcdV3:
		return "gorun speaks etcd's v3 API, torchrun's etcd and etcd-v2 the v2 API"
	case !b.given && a.spec.Backend == Gossip && a.fromUser("rdzv_endpoint").given:
		return "without it gorun takes c10d for several nodes with an endpoint, torchrun static"
	case b.given && (b.text == string(Gossip) || b.text == string(Standalone)):
		return fmt.Sprintf("torchrun has no backend %s", b.text)
	}
	return ""
}

// confDiffers names the keys that only torchrun obeys.
func confDiffers(a asked) string {
	pairs, err := ParseConf(a.get("rdzv_conf").text)
	if err != nil {
		return ""
	}
	var keys []string
	for _, key := range []string{"close_timeout", "heartbeat_timeout", "read_timeout", "store_type", "use_libuv", "etcd_prefix"} {
		if _, given := pairs[key]; given {
			keys = append(keys, key)
		}
	}
	if keys == nil {
		return ""
	}
	return fmt.Sprintf("%s: no effect in gorun", strings.Join(keys, ", "))
}

// isElsewhere reports whether host is an address, not a name, that no interface of this
// machine has.
func isElsewhere(host string) bool {
	ip := net.ParseIP(host)
	addrs, err := net.InterfaceAddrs()
	if ip == nil || err != nil || ip.IsLoopback() {
		return false
	}
	return !slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
