package compat_test

import (
	"os/exec"
	"strings"
)

// cpus returns how many CPUs this machine has, as Python's os.cpu_count.
func cpus() string {
	out, _ := exec.Command("getconf", "_NPROCESSORS_ONLN").Output()
	return "'" + strings.TrimSpace(string(out)) + "'"
}

// laterCases use what torchrun has got since 1.13, or depend on the machine.
func laterCases() []testCase {
	return []testCase{
		{name: "later/workers by CPU", args: "--nproc-per-node=cpu probe.py", want: outcome{"exit code": "0", "worker 0.0 WORLD_SIZE": cpus()}},
		{name: "later/workers by what is there", args: "--nproc-per-node=auto probe.py", want: outcome{"exit code": "0", "worker 0.0 WORLD_SIZE": cpus()}},
		{name: "later/virtual local rank", args: "--virtual-local-rank --nproc-per-node=2 probe.py", env: []string{"CUDA_VISIBLE_DEVICES=3,5"}, want: outcome{
			"exit code": "0", "worker 0.0 LOCAL_RANK": "'0'", "worker 1.0 LOCAL_RANK": "'0'", "worker 1.0 RANK": "'1'",
			"worker 0.0 CUDA_VISIBLE_DEVICES": "'3'", "worker 1.0 CUDA_VISIBLE_DEVICES": "'5'",
		}},
		{name: "later/virtual local rank with arguments", args: "--virtual_local_rank --nproc-per-node=2 probe.py ${local_rank}", env: []string{"CUDA_VISIBLE_DEVICES=3,5"}, want: outcome{
			"worker 0.0 argv": "probe.py\n0", "worker 1.0 argv": "probe.py\n1",
		}},
		{name: "later/local ranks filter", args: "--local-ranks-filter=0 --nproc-per-node=2 -t 3 --log-dir=@dir/logs probe.py say=x", want: outcome{
			"exit code": "0", "stdout": "[default0]:x", "file logs/none_*/attempt_0/1/stdout.log": "x\n",
		}},
		{name: "later/local ranks filter without tee", args: "--local-ranks-filter=1 --nproc-per-node=2 probe.py say=x", want: outcome{"exit code": "0", "stdout": "x"}},
		{name: "later/local ranks filter by variable", args: "--nproc-per-node=2 -t 1 probe.py say=x", env: []string{"PET_LOCAL_RANKS_FILTER=1"}, want: outcome{"stdout": "[default1]:x"}},
		{name: "later/wrong local ranks filter", args: "--local-ranks-filter=a probe.py", code: 2, want: outcome{"exit code": "2"}},
		{name: "later/duplicate stdout filters", args: "--duplicate-stdout-filters=loss,a,,b -t 3 --nproc-per-node=2 --log-dir=@dir/logs", more: []string{"probe.py", "say=loss 1", "say=other", "say=a,b", "say=ab"}, want: outcome{
			"exit code": "0", "file logs/none_*/attempt_0/filtered_stdout.log": "[default0]:a,b\n[default0]:loss 1\n[default1]:a,b\n[default1]:loss 1",
		}},
		{name: "later/duplicate stderr filters", args: "--duplicate-stderr-filters=wrong -t 3 --log-dir=@dir/logs probe.py err=wrong err=right", want: outcome{
			"exit code": "0", "file logs/none_*/attempt_0/filtered_stderr.log": "[default0]:probe: wrong",
		}},
		{name: "later/duplicate stdout filters without tee", args: "--duplicate-stdout-filters=loss -r 3 --log-dir=@dir/logs probe.py say=loss", want: outcome{
			"exit code": "0", "stdout": "", "file logs/none_*/attempt_0/filtered_stdout.log": "[default0]:loss", "file logs/none_*/attempt_0/0/stdout.log": "loss\n",
		}},
		{name: "later/prefix template", args: "--log-line-prefix-template=[${rank}/${local_rank}/${role_name}] -t 1 --log-dir=@dir/logs probe.py say=x", want: outcome{
			"exit code": "0", "stdout": "[0/0/default]x", "file logs/none_*/attempt_0/0/stdout.log": "x\n",
		}},
		{name: "later/prefix template by variable", args: "-t 1 --log-dir=@dir/logs probe.py say=x", env: []string{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=<${rank}>"}, want: outcome{"stdout": "<0>x"}},
		{name: "later/quotes in the configuration", args: "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5' probe.py", want: outcome{"exit code": "0", "worker 0.0 WORLD_SIZE": "'1'"}},
		{name: "later/no files", args: "--log-dir=/dev/null probe.py", want: outcome{"exit code": "0", "worker 0.0 TORCHELASTIC_ERROR_FILE": "''"}},
		{name: "later/signals to handle", args: "--signals-to-handle=SIGTERM,SIGUSR1 probe.py", want: outcome{"exit code": "0", "worker 0.0 TORCHELASTIC_SIGNALS_TO_HANDLE": "'SIGTERM,SIGUSR1'"}},
		{name: "later/shutdown timeout", args: "--shutdown-timeout=5 probe.py", want: outcome{"exit code": "0"}},
		{name: "later/wrong shutdown timeout", args: "--shutdown-timeout=x probe.py", want: outcome{"exit code": "2"}},
		{name: "later/shutdown timeout below zero", args: "--shutdown-timeout=-1 probe.py", want: outcome{"exit code": "2"}},
		{name: "later/events", args: "--event-log-handler=null probe.py", want: outcome{"exit code": "0"}},
		{name: "later/logs specs", args: "--logs-specs=default probe.py", want: outcome{"exit code": "0"}},
		{name: "later/wrong logs specs", args: "--logs-specs=nope probe.py", code: 2, want: outcome{"exit code": "2"}},
		{name: "later/local address", args: "--nnodes=1:1 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:@port --local-addr=127.0.0.1 probe.py", want: outcome{"exit code": "0", "worker 0.0 MASTER_ADDR": "'127.0.0.1'"}},
		{name: "later/completion", args: "--print-completion=bash", want: outcome{"exit code": "0"}},
		{name: "later/wrong completion", args: "--print-completion=nope", want: outcome{"exit code": "2"}},
		{name: "later/numa binding", args: "--numa-binding=nope probe.py", want: outcome{"exit code": "2", "error": "error: argument --numa_binding: invalid choice: 'nope' (choose from 'node', 'socket', 'exclusive', 'core-complex', 'none')"}},
	}
}
