package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// jobFlag describes one flag of run, check or env on the command line. Package spec
// reads its value.
type jobFlag struct {
	name, short string
	arg         string // what the value is called in the help; "" for a switch
	usage       string
	many        bool     // true: it may be given several times
	list        bool     // true: its value is a list, with commas
	values      []string // values that completion offers, besides the words of arg
}

// flagGroup is a paragraph of the help.
type flagGroup struct {
	title string
	flags []jobFlag
}

// addFlags gives a command the flags of groups, with their completion.
func addFlags(cmd *cobra.Command, groups ...flagGroup) {
	cmd.Flags().AddFlagSet(flagSet(groups...))
	for _, g := range groups {
		for _, f := range g.flags {
			if f.arg != "" && f.arg != "FILE" && f.arg != "DIR" {
				_ = cmd.RegisterFlagCompletionFunc(f.name, f.complete) // fails if the flag has one
			}
		}
	}
}

// flagSet returns the flags of groups in their order.
func flagSet(groups ...flagGroup) *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	for _, g := range groups {
		for _, f := range g.flags {
			switch {
			case f.arg == "":
				set.BoolP(f.name, f.short, false, f.usage)
			case f.many:
				set.VarP(&listValue{arg: f.arg}, f.name, f.short, f.usage)
			default:
				set.VarP(&textValue{arg: f.arg}, f.name, f.short, f.usage)
			}
		}
	}
	return set
}

// textValue is a flag's value as text. Its Type returns the help's name for the value.
type textValue struct{ arg, text string }

func (v *textValue) Type() string          { return v.arg }
func (v *textValue) String() string        { return v.text }
func (v *textValue) Set(text string) error { v.text = text; return nil }

// listValue is the value of a flag that may be given several times, a pflag.SliceValue.
type listValue struct {
	arg   string
	texts []string
}

func (v *listValue) Type() string                 { return v.arg }
func (v *listValue) String() string               { return strings.Join(v.texts, " ") }
func (v *listValue) Set(text string) error        { return v.Append(text) }
func (v *listValue) Append(text string) error     { v.texts = append(v.texts, text); return nil }
func (v *listValue) Replace(texts []string) error { v.texts = texts; return nil }
func (v *listValue) GetSlice() []string           { return v.texts }

// teeValues are the values of -r and -t.
func teeValues() []string { return []string{"0\tnone", "1\tstdout", "2\tstderr", "3\tboth"} }

// jobFlags lists every flag of a job, in the order of the help.
func jobFlags() []flagGroup {
	return []flagGroup{
		{"Nodes and workers", []jobFlag{
			{name: "nnodes", arg: "N|MIN:MAX", usage: "number of nodes, or its bounds for an elastic job (default 1)"},
			{name: "nproc-per-node", arg: "N|auto|gpu|cpu", usage: "workers on this node; auto: one per GPU, else per CPU (default 1)"},
			{name: "node-rank", arg: "RANK", usage: "rank of this node (default: 0 with static, else decided when the nodes meet)"},
			{name: "local-nodes", arg: "N", usage: "start N nodes on this machine, to try a job of several nodes"},
			{name: "max-restarts", arg: "N", usage: "how often the workers are started again after a failure (default 0)"},
			{name: "surroundings", arg: "auto|none", usage: "auto: nodes, rank, workers and meeting place come from Slurm, Kubernetes or mpirun where no flag says them (default auto)"},
			{name: "srun-tasks", arg: "agent|workers", usage: "several tasks a node: the first one runs all workers, or each is a worker that Slurm binds to its CPUs and GPUs (default agent)"},
			{name: "role", arg: "NAME", usage: "name of the workers' role, in ROLE_NAME and in prefixes of output (default \"default\")"},
		}},
		{"Rendezvous", []jobFlag{
			{name: "rdzv-endpoint", arg: "HOST[:PORT],...", usage: "where the nodes meet, or etcd's own; several keep working when one is lost (default port 29400, etcd 2379)"},
			{name: "rdzv-backend", arg: "NAME", usage: "gossip (or c10d), etcd, static or standalone (default: what the other flags imply)", values: []string{"gossip", "c10d", "etcd", "static", "standalone"}},
			{name: "rdzv-id", arg: "ID", usage: "name of the job; nodes of one name meet (default \"none\")"},
			{name: "rdzv-conf", arg: "KEY=VALUE,...", usage: "join_timeout, last_call_timeout, keep_alive_interval (seconds), keep_alive_max_attempt, is_host; static: timeout, rank; etcd: ttl, lost_timeout, prefix", list: true, values: []string{"join_timeout=", "last_call_timeout=", "keep_alive_interval=", "keep_alive_max_attempt=", "is_host=", "timeout=", "rank=", "ttl=", "lost_timeout=", "prefix="}},
			{name: "on-join", arg: "restart|wait", usage: "a node that comes while an elastic job runs starts the next round, or waits for it (default restart)"},
			{name: "standalone", usage: "run on this node alone, whatever the other rendezvous flags say"},
			{name: "local-addr", arg: "ADDR", usage: "address of this node that the others reach (default: found out)"},
			{name: "master-addr", arg: "ADDR", usage: "static, or one node: address of the node with rank 0 (default 127.0.0.1)"},
			{name: "master-port", arg: "PORT", usage: "static, or one node: port on that node (default 29500; one node: any, if that is taken)"},
			{name: "port-range", arg: "A-B", usage: "open ports in this range only"},
			{name: "store-open", usage: "the workers' store answers any address, not only those of the job's nodes"},
			{name: "secret-file", arg: "FILE", usage: "file with a secret that the job's nodes share; nodes without it are refused (or GORUN_SECRET)"},
		}},
		{"etcd", []jobFlag{
			{name: "etcd-cacert", arg: "FILE", usage: "authorities that the servers' certificates must come from (or ETCDCTL_CACERT)"},
			{name: "etcd-cert", arg: "FILE", usage: "this client's certificate (or ETCDCTL_CERT)"},
			{name: "etcd-key", arg: "FILE", usage: "its key (or ETCDCTL_KEY)"},
			{name: "etcd-server-name", arg: "NAME", usage: "name in the servers' certificates (default: that of the endpoint)"},
			{name: "etcd-user", arg: "USER[:PASSWORD]", usage: "user to log in as (or ETCDCTL_USER)"},
			{name: "etcd-password", arg: "PASSWORD", usage: "its password; other users see it in the list of processes, unlike ETCDCTL_PASSWORD"},
		}},
		{"Program", []jobFlag{
			{name: "module", short: "m", usage: "run the program as a Python module, like python -m"},
			{name: "no-python", usage: "run the program directly, even if it looks like a Python script"},
			{name: "run-path", usage: "run the script by Python's runpy, as __main__; wins over --no-python"},
			{name: "start-method", arg: "spawn|fork|forkserver", usage: "accepted for torchrun's sake: each worker is a new process (default spawn)"},
		}},
		{"Devices", []jobFlag{
			{name: "pin", arg: "order|exclusive|none", usage: "each worker has a GPU of its own and sees all, in one order; sees only its own; or nothing is set (default order)"},
			{name: "pin-by", arg: "auto|uuid", usage: "how CUDA_VISIBLE_DEVICES names GPUs: as the user does, or by UUIDs (default auto)"},
			{name: "gpus-per-worker", arg: "K", usage: "how many GPUs each worker owns (default 1)"},
			{name: "map", arg: "gpu=0,2,1,3", usage: "the GPUs of local rank 0, 1, ..., as positions among the visible ones", list: true, values: []string{"gpu="}},
			{name: "oversubscribe-gpus", usage: "workers may share GPUs"},
			{name: "virtual-local-rank", usage: "every worker is local rank 0 and sees one GPU"},
			{name: "numa-binding", arg: "MODE", usage: "bind workers to CPUs and memory next to their GPUs: node, socket, exclusive, core-complex or none", values: []string{"node", "socket", "exclusive", "core-complex", "none"}},
			{name: "on-gpu-error", arg: "abort|warn", usage: "what a critical error of a worker's GPU does (default abort)"},
			{name: "gpu-release-timeout", arg: "SECONDS", usage: "how long a stop waits until the workers' GPUs are free; 0: not at all (default 50)"},
		}},
		{"Environment", []jobFlag{
			{name: "export", short: "x", arg: "NAME[=VALUE]", usage: "give every node's workers this value, or this node's; also 'NCCL_*'; node=I:NAME and role=R:NAME for some nodes", many: true},
			{name: "env-file", arg: "FILE", usage: "likewise for the NAME=VALUE lines of a file", many: true},
			{name: "unset", arg: "NAME", usage: "remove it from every node's workers", many: true},
			{name: "env-conflict", arg: "first|error", usage: "variables that must agree and do not: all get what the first node has, or the job is refused (default first)"},
			{name: "omp", arg: "torchrun|cores", usage: "what OMP_NUM_THREADS is where it is not set and a node has several workers: 1, or a fair share of the cores (default torchrun)"},
			{name: "flight-recorder", arg: "on|off", usage: "let PyTorch record the collectives of workers on GPUs, so that a hang is explained; what you set yourself stays (default on)"},
		}},
		{"Preflight", []jobFlag{
			{name: "preflight", arg: "error|warn|off", usage: "what a failed check does: it refuses the job, or is only printed; off: no checks (default error)"},
			{name: "selftest", usage: "before the program starts its ranks compute together and check every value; the first fault is named (docs/selftest.md)"},
			{name: "ignore", arg: "ID,...", usage: "checks whose findings do not count, such as V01,I05", list: true},
			{name: "iface", arg: "auto|NAME|CIDR", usage: "interface for NCCL, Gloo, TensorPipe and UCX on every node, each by its own name for it"},
		}},
		{"Output and end", []jobFlag{
			{name: "log-dir", arg: "DIR", usage: "folder for log files (default: a new one under the temporary folder)"},
			{name: "redirects", short: "r", arg: "WHAT", usage: "streams to files: 0 none, 1 stdout, 2 stderr, 3 both; per local rank: 0:3,1:0 (default 0)", values: teeValues()},
			{name: "tee", short: "t", arg: "WHAT", usage: "as --redirects, and to the terminal too (default 0)", values: teeValues()},
			{name: "log-line-prefix-template", arg: "TEXT", usage: "what stands before each line of --tee, with ${role_name}, ${local_rank}, ${rank} and ${hostname} (default [${role_name}${local_rank}]:)"},
			{name: "local-ranks-filter", arg: "RANK,...", usage: "only these local ranks' output reaches the terminal; files get all", list: true},
			{name: "duplicate-stdout-filters", arg: "TEXT,...", usage: "lines of stdout with one of the texts are in filtered_stdout.log, too; ,, is a comma", list: true},
			{name: "duplicate-stderr-filters", arg: "TEXT,...", usage: "likewise for stderr and filtered_stderr.log", list: true},
			{name: "logs-specs", arg: "NAME", usage: "torchrun's plugin for log files; gorun has only default", values: []string{"default"}},
			{name: "event-log-handler", arg: "null|console", usage: "where the job's events go, as JSON (default null)"},
			{name: "report", arg: "FILE", usage: "write how the job ended to FILE, as JSON"},
			{name: "report-on", arg: "all|first|auto", usage: "nodes that print the report and the job's warnings; auto: the first one under srun and mpirun, else all (default auto)"},
			{name: "requeue-exit-code", arg: "N", usage: "exit code when another try may help: a node or a GPU was lost, the nodes did not meet, or SIGTERM came (default: as without)"},
			{name: "metrics-addr", arg: "HOST:PORT", usage: "answer /healthz, /readyz and /metrics (Prometheus) there; :PORT: at all addresses (default: nowhere)"},
			{name: "monitor-interval", arg: "SECONDS", usage: "accepted for torchrun's sake: gorun sees the end of a worker at once"},
			{name: "signals-to-handle", arg: "NAME,...", usage: "signals to gorun that end the job (default SIGTERM,SIGINT,SIGHUP,SIGQUIT)", list: true},
			{name: "shutdown-timeout", arg: "SECONDS", usage: "time between SIGTERM and SIGKILL (default 30)"},
			{name: "hang-timeout", arg: "SECONDS", usage: "a job in which no rank makes progress for so long hangs, and gorun says which rank is behind; 0: off (default 300)"},
			{name: "on-hang", arg: "report|abort|restart", usage: "what to do then; abort and restart need to know a collective in which ranks wait (default report)"},
			{name: "dry-run", usage: "let the nodes meet, print world, commands and environment, and start nothing"},
			{name: completionFlag, arg: "bash|zsh|fish", usage: "print what gorun completion prints, and end"},
		}},
	}
}
