package compat_test

import "syscall"

// testCase is one command line. In args, more and env @port is a free port, @dir the
// working folder, and @node the number of the node. probe.py does what its arguments say.
type testCase struct {
	name   string
	args   string         // separated by spaces
	more   []string       // further arguments, with spaces of their own
	env    []string       // variables of the launcher
	launch bool           // python -m torch.distributed.launch
	nodes  int            // launchers that are started; 0: one
	signal syscall.Signal // sent to the launchers when the workers run
	starts int            // workers that have started by then
	alone  bool           // the case uses port 29500
	like   string         // the case that has the same outcome; torchrun 1.13 lacks a spelling
	code   int            // gorun's exit code where torchrun's is 1: the failed worker's, or 2 for a wrong command line
	loose  string         // a pattern of keys that differ from run to run
	want   outcome        // what comes of a case that torchrun 1.13 does not know: these texts, and others
}

// cases lists what is compared.
func cases() []testCase {
	var all []testCase
	for _, family := range [][]testCase{
		startCases(), flagCases(), variableCases(), wrongCases(), programCases(), logCases(), endCases(),
		errorFileCases(), signalCases(), restartCases(), nodeCases(), launchCases(), laterCases(),
	} {
		all = append(all, family...)
	}
	return all
}

// startCases start one node in every form.
func startCases() []testCase {
	return []testCase{
		{name: "start/one worker", args: "probe.py"},
		{name: "start/default port", args: "probe.py", alone: true},
		{name: "start/two workers", args: "--nproc_per_node=2 probe.py"},
		{name: "start/three workers", args: "--nproc_per_node 3 probe.py"},
		{name: "start/standalone", args: "--standalone --nproc_per_node=2 probe.py"},
		{name: "start/standalone beats the others", args: "--standalone --rdzv_backend=static --rdzv_endpoint=nowhere:1 --rdzv_id=x probe.py"},
		{name: "start/standalone without its port", args: "--standalone probe.py", env: []string{"MASTER_PORT=1", "MASTER_ADDR=nowhere"}},
		{name: "start/arguments", args: "probe.py --lr 0.1 -x --nproc_per_node=3 --standalone -- -m a=b"},
		{name: "start/arguments with blanks", args: "probe.py", more: []string{"a b", "", "  ", "--x=y z", "é", "a\nb"}},
		{name: "start/double dash", args: "-- probe.py a"},
		{name: "start/local rank in arguments", args: "--nproc_per_node=2 probe.py --rank=${local_rank} $local_rank $$x ${other} $5 ${local_rank}${local_rank}"},
		{name: "start/program by local rank", args: "--nproc_per_node=2 w${local_rank}.py a"},
		{name: "start/role", args: "--role=trainer --nproc_per_node=2 probe.py"},
		{name: "start/run id", args: "--rdzv_id=job7 probe.py"},
		{name: "start/output", args: "--nproc_per_node=2 probe.py say=out err=wrong say=more"},
		{name: "start/output that is no text", args: "probe.py bytes=x"},
		{name: "start/one node as a range", args: "--nnodes=1:1 probe.py"},
		{name: "start/elastic on one node", args: "--nnodes=1:2 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:@port --rdzv_conf=last_call_timeout=1 --nproc_per_node=2 probe.py"},
		{name: "start/c10d on one node", args: "--nnodes=1 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:@port probe.py"},
		{name: "start/c10d at any port", args: "--nnodes=1 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:0 --rdzv_id=x probe.py"},
		{name: "start/c10d at localhost", args: "--rdzv_backend=c10d --rdzv_endpoint=localhost:@port --rdzv_id=x --nproc_per_node=2 probe.py"},
		{name: "start/static at an endpoint", args: "--rdzv_endpoint=127.0.0.1:@port probe.py"},
		{name: "start/static by name", args: "--rdzv_backend=static --rdzv_endpoint=localhost:@port --nproc_per_node=2 probe.py"},
		{name: "start/static without a port", args: "--rdzv_backend=static --rdzv_endpoint=127.0.0.1 probe.py"},
		{name: "start/static over IPv6", args: "--master_addr=::1 probe.py"},
		{name: "start/static at an endpoint over IPv6", args: "--rdzv_backend=static --rdzv_endpoint=[::1]:@port probe.py"},
		{name: "start/static with a run id", args: "--rdzv_backend=static --rdzv_endpoint=127.0.0.1:@port --rdzv_id=j --max_restarts=2 --role=r probe.py"},
		{name: "start/c10d with blanks", args: "--nnodes=1 --rdzv_backend=c10d --rdzv_conf=join_timeout=60,is_host=1", more: []string{"--rdzv_endpoint= 127.0.0.1:@port ", "probe.py"}},
		{name: "start/c10d that is host", args: "--nnodes=1 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:@port --rdzv_conf=is_host=true,timeout=60 probe.py"},
		{name: "wrong/backend in capitals", args: "--nnodes=1 --rdzv_backend=C10D --rdzv_endpoint=127.0.0.1:@port probe.py", code: 2},
		{name: "start/many workers", args: "--nproc_per_node=12 --master_addr=127.0.0.1 probe.py"},
		{name: "start/master", args: "--master_addr=127.0.0.1 --master_port=@port probe.py"},
		{name: "start/master by name", args: "--master_addr localhost --master_port @port --nproc_per_node=2 probe.py"},
	}
}

// flagCases give flags in their spellings.
func flagCases() []testCase {
	return []testCase{
		{name: "flag/dashes", args: "--nproc-per-node=2 --max-restarts=1 --rdzv-id=x probe.py", like: "flag/underscores"},
		{name: "flag/underscores", args: "--nproc_per_node=2 --max_restarts=1 --rdzv_id=x probe.py"},
		{name: "flag/mixed", args: "--nproc_per-node=2 --max-restarts=1 --rdzv_id=x probe.py", like: "flag/underscores"},
		{name: "flag/values apart", args: "--nproc_per_node 2 --max_restarts 1 --rdzv_id x probe.py", like: "flag/underscores"},
		{name: "flag/prefix nproc", args: "--nproc=2 probe.py"},
		{name: "flag/prefix np", args: "--np 2 probe.py"},
		{name: "flag/prefix redirect", args: "--redirect=3 --log_dir=@dir/logs probe.py say=x err=y"},
		{name: "flag/prefix max", args: "--max=1 probe.py"},
		{name: "flag/prefix log", args: "--log=@dir/logs -r1 probe.py say=x"},
		{name: "flag/prefix stand", args: "--stand probe.py"},
		{name: "flag/prefix ro", args: "--ro=x probe.py"},
		{name: "flag/prefix rdzv_i", args: "--rdzv_i=x probe.py"},
		{name: "flag/prefix te", args: "--te=1 --log_dir=@dir/logs probe.py say=x"},
		{name: "flag/prefix mod", args: "--mod probe"},
		{name: "flag/prefix master_p", args: "--master_p=@port probe.py"},
		{name: "flag/twice", args: "--nproc_per_node=3 --nproc_per_node=2 probe.py"},
		{name: "flag/monitor interval", args: "--monitor_interval=0.5 probe.py"},
		{name: "flag/monitor interval as a whole number", args: "--monitor_interval=1 probe.py"},
		{name: "flag/start method", args: "--start_method=fork probe.py"},
		{name: "flag/start method forkserver", args: "--start_method forkserver probe.py"},
		{name: "flag/node rank of one", args: "--node_rank=0 probe.py"},
		{name: "flag/rendezvous configuration", args: "--rdzv_conf=timeout=30,join_timeout=60 probe.py"},
		{name: "flag/unknown configuration", args: "--rdzv_conf=a=b,c=d probe.py"},
		{name: "flag/empty configuration", args: "--rdzv_conf= probe.py"},
		{name: "flag/blanks in a number", args: "probe.py", more: nil, env: []string{"PET_NPROC_PER_NODE= 2 "}},
		{name: "flag/many restarts", args: "--max_restarts=1000 probe.py"},
		{name: "flag/empty role", args: "--role= probe.py"},
		{name: "flag/cluster", args: "-mr1 --log_dir=@dir/logs probe say=x"},
		{name: "flag/short with its value", args: "-r3 -t1 --log_dir=@dir/logs probe.py say=x err=y"},
		{name: "flag/short with equals", args: "-r=3 --log_dir=@dir/logs probe.py say=x err=y"},
		{name: "flag/redirects of one rank twice", args: "-r 0:1,0:2 --log_dir=@dir/logs probe.py say=x err=y"},
		{name: "flag/redirects out of order", args: "-r 1:3,0:1 --nproc_per_node=2 --log_dir=@dir/logs probe.py say=x err=y"},
		{name: "flag/tee and redirects by rank and not", args: "-t 3 -r 0:1 --nproc_per_node=2 --log_dir=@dir/logs probe.py say=x err=y"},
		{name: "flag/run id with signs", args: "--rdzv_id=a.b-c_d:e@f -r1 --log_dir=@dir/logs probe.py say=x"},
		{name: "flag/role with blanks", args: "-t1 --log_dir=@dir/logs", more: []string{"--role=my role", "probe.py", "say=x"}},
		{name: "flag/log folder with blanks", args: "-r1", more: []string{"--log_dir=@dir/logs/a b", "probe.py", "say=x"}},
		{name: "flag/log folder with a slash", args: "-r1 --log_dir=@dir/logs/ probe.py say=x"},
		{name: "flag/max restarts with a sign", args: "--max_restarts=+1 probe.py"},
		{name: "flag/monitor interval in science", args: "--monitor_interval=1e-1 probe.py"},
		{name: "flag/nproc with zeros", args: "--nproc_per_node=02 probe.py"},
		{name: "flag/nnodes with blanks", args: "", more: []string{"--nnodes= 1 : 1 ", "probe.py"}},
		{name: "flag/empty endpoint", args: "--rdzv_endpoint= probe.py"},
		{name: "flag/conf with blanks", args: "", more: []string{"--rdzv_conf= timeout = 30 , a = b ", "probe.py"}},
		{name: "flag/conf with an equals sign", args: "--rdzv_conf=a=b=c probe.py"},
		{name: "flag/short apart", args: "-r 3 -t 2 --log_dir @dir/logs probe.py say=x err=y"},
	}
}

// variableCases give the variables that torchrun reads.
func variableCases() []testCase {
	return []testCase{
		{name: "variable/nproc", args: "probe.py", env: []string{"PET_NPROC_PER_NODE=2"}},
		{name: "variable/flag wins", args: "--nproc_per_node=1 probe.py", env: []string{"PET_NPROC_PER_NODE=2"}},
		{name: "variable/nnodes", args: "probe.py", env: []string{"PET_NNODES=1:1"}},
		{name: "variable/run id", args: "probe.py", env: []string{"PET_RDZV_ID=from-variable"}},
		{name: "variable/rendezvous", args: "probe.py", env: []string{"PET_RDZV_BACKEND=c10d", "PET_RDZV_ENDPOINT=127.0.0.1:@port", "PET_RDZV_CONF=join_timeout=60"}},
		{name: "variable/standalone on", args: "probe.py", env: []string{"PET_STANDALONE=1"}},
		{name: "variable/standalone off", args: "probe.py", env: []string{"PET_STANDALONE=0"}},
		{name: "variable/max restarts", args: "probe.py exit=3#0", env: []string{"PET_MAX_RESTARTS=1"}},
		{name: "variable/monitor interval", args: "probe.py", env: []string{"PET_MONITOR_INTERVAL=0.2"}},
		{name: "variable/start method", args: "probe.py", env: []string{"PET_START_METHOD=spawn"}},
		{name: "variable/unknown start method", args: "probe.py", env: []string{"PET_START_METHOD=thread"}},
		{name: "variable/role", args: "probe.py", env: []string{"PET_ROLE=r2"}},
		{name: "variable/module on", args: "probe", env: []string{"PET_MODULE=1"}},
		{name: "variable/module off", args: "probe.py", env: []string{"PET_MODULE=0"}},
		{name: "variable/no python", args: "./probe.py", env: []string{"PET_NO_PYTHON=1"}},
		{name: "variable/no python off", args: "probe.py", env: []string{"PET_NO_PYTHON=0"}},
		{name: "variable/run path off", args: "probe.py", env: []string{"PET_RUN_PATH=0"}},
		{name: "variable/logs", args: "probe.py say=x err=y", env: []string{"PET_LOG_DIR=@dir/logs", "PET_REDIRECTS=1", "PET_TEE=2"}},
		{name: "variable/node rank", args: "probe.py", env: []string{"PET_NODE_RANK=0"}},
		{name: "variable/master", args: "probe.py", env: []string{"PET_MASTER_ADDR=localhost"}},
		{name: "variable/one without a flag", args: "probe.py", env: []string{"PET_NOTHING=1"}},
		{name: "variable/OMP_NUM_THREADS given", args: "--nproc_per_node=2 probe.py", env: []string{"OMP_NUM_THREADS=3"}},
		{name: "variable/OMP_NUM_THREADS empty", args: "--nproc_per_node=2 probe.py", env: []string{"OMP_NUM_THREADS="}},
		{name: "variable/OMP_NUM_THREADS of one", args: "probe.py", env: []string{"OMP_NUM_THREADS=5"}},
		{name: "variable/PYTHON_EXEC", args: "probe.py", env: []string{"PYTHON_EXEC=/usr/bin/../bin/python3"}},
		{name: "variable/NCCL error handling", args: "probe.py", env: []string{"NCCL_ASYNC_ERROR_HANDLING=0", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0"}},
		{name: "variable/of an outer job", args: "--nproc_per_node=2 probe.py", env: []string{"RANK=7", "LOCAL_RANK=7", "WORLD_SIZE=9", "MASTER_ADDR=nowhere", "MASTER_PORT=1", "GROUP_RANK=3", "TORCHELASTIC_RUN_ID=outer", "TORCHELASTIC_RESTART_COUNT=4"}},
		{name: "variable/strange", args: "probe.py", env: []string{"STRANGE=a b=c\nd", "EMPTY=", "with.dot=1"}},
		{name: "variable/LOGLEVEL", args: "probe.py", env: []string{"LOGLEVEL=ERROR"}},
		{name: "variable/devices", args: "--nproc_per_node=2 probe.py", env: []string{"CUDA_VISIBLE_DEVICES="}},
	}
}

// wrongCases are refused.
func wrongCases() []testCase {
	all := []testCase{
		{name: "wrong/no program", args: "--nproc_per_node=2"},
		{name: "wrong/nothing"},
		{name: "wrong/unknown flag", args: "--nope=1 probe.py"},
		{name: "wrong/restarts no number", args: "--max_restarts=x probe.py"},
		{name: "wrong/restarts a fraction", args: "--max_restarts=1.5 probe.py"},
		{name: "wrong/restarts empty", args: "--max_restarts= probe.py"},
		{name: "wrong/restarts below zero", args: "--max_restarts=-1 probe.py"},
		{name: "wrong/restarts without a value", args: "probe.py", env: []string{"PET_MAX_RESTARTS=x"}},
		{name: "wrong/interval no number", args: "--monitor_interval=soon probe.py"},
		{name: "wrong/node rank no number", args: "--node_rank=first probe.py"},
		{name: "wrong/port no number", args: "--master_port=http probe.py"},
		{name: "wrong/port a fraction", args: "--master_port=1.0 probe.py"},
		{name: "wrong/start method", args: "--start_method=thread probe.py"},
		{name: "wrong/missing value", args: "--nnodes"},
		{name: "wrong/missing value before a flag", args: "--role --nnodes=1 probe.py"},
		{name: "wrong/ambiguous prefix", args: "--rdzv=x probe.py"},
		{name: "wrong/ambiguous prefix n", args: "--n=1 probe.py"},
		{name: "wrong/ambiguous prefix master", args: "--master=x probe.py"},
		{name: "wrong/ambiguous prefix mo", args: "--mo probe"},
		{name: "wrong/switch with a value", args: "--standalone=yes probe.py"},
		{name: "wrong/nnodes in three parts", args: "--nnodes=1:2:3 probe.py"},
		{name: "wrong/nnodes no number", args: "--nnodes=many probe.py"},
		{name: "wrong/nnodes upside down", args: "--nnodes=3:2 probe.py"},
		{name: "wrong/no nodes", args: "--nnodes=0 probe.py"},
		{name: "wrong/nproc", args: "--nproc_per_node=some probe.py"},
		{name: "wrong/gpus without one", args: "--nproc_per_node=gpu probe.py"},
		{name: "wrong/backend", args: "--rdzv_backend=nope --rdzv_endpoint=127.0.0.1:@port probe.py"},
		{name: "wrong/configuration", args: "--rdzv_conf=timeout probe.py"},
		{name: "wrong/redirects", args: "-r 4 probe.py"},
		{name: "wrong/redirects by rank", args: "-r 0:1;1:2 probe.py"},
		{name: "wrong/tee", args: "--tee=both probe.py"},
		{name: "wrong/module without Python", args: "--no_python -m probe"},
		{name: "wrong/switch by variable", args: "probe.py", env: []string{"PET_STANDALONE=yes"}},
		{name: "wrong/no workers", args: "--nproc_per_node=0 probe.py"},
		{name: "wrong/workers below zero", args: "--nproc_per_node=-1 probe.py"},
		{name: "wrong/interval by variable", args: "probe.py", env: []string{"PET_MONITOR_INTERVAL=x"}},
		{name: "wrong/short flag", args: "-z probe.py"},
	}
	for i := range all {
		all[i].code = 2
	}
	return all
}

// programCases start programs in other ways.
func programCases() []testCase {
	return []testCase{
		{name: "program/module", args: "-m probe a b"},
		{name: "program/module in full", args: "--module --nproc_per_node=2 probe"},
		{name: "program/no python", args: "--no_python ./probe.py a"},
		{name: "program/no python on PATH", args: "--no_python --nproc_per_node=2 python3 probe.py a"},
		{name: "program/shell", args: "--no_python --nproc_per_node=2 sh -c", more: []string{`echo "$RANK of $WORLD_SIZE"`}},
		{name: "program/no python by local rank", args: "--no_python --nproc_per_node=2 ./w${local_rank}.py", code: 2},
		{name: "program/module of a package", args: "-m pkg.mod a"},
		{name: "program/package", args: "-m pkg a"},
		{name: "program/folder", args: "pkg a"},
		{name: "program/script without .py", args: "script a"},
		{name: "program/name with blanks", more: []string{"a script.py", "a"}},
		{name: "program/in a folder of its own", args: "sub/probe.py a"},
		{name: "program/shell by its path", args: "--no_python /bin/sh -c", more: []string{`echo "$0 $LOCAL_RANK"`}},
		{name: "program/with local rank in a shell", args: "--no_python --nproc_per_node=2 sh -c", more: []string{`echo "${local_rank} $$ $LOCAL_RANK"`}},
		{name: "program/missing", args: "--no_python missing-program", code: 2},
		{name: "program/not executable", args: "--no_python ./script", code: 2},
		{name: "program/missing script", args: "missing.py", code: 2},
		{name: "program/missing module", args: "-m missing_module"},
		{name: "program/in a folder", args: "tmp/../probe.py a"},
		{name: "program/full path", args: "@dir/probe.py a"},
		{name: "program/run path", args: "--run_path @dir/probe.py a --b=c"},
		{name: "program/run path wins", args: "--run_path --no_python @dir/probe.py say=x"},
	}
}

// logCases write files.
func logCases() []testCase {
	const both = " --nproc_per_node=2 --log_dir=@dir/logs probe.py say=out err=wrong"
	return []testCase{
		{name: "log/nothing", args: both},
		{name: "log/redirect stdout", args: "-r 1" + both},
		{name: "log/redirect stderr", args: "-r 2" + both},
		{name: "log/redirect both", args: "-r 3" + both},
		{name: "log/redirect 0", args: "-r 0" + both},
		{name: "log/redirects in full", args: "--redirects=3" + both},
		{name: "log/tee stdout", args: "-t 1" + both},
		{name: "log/tee stderr", args: "-t 2" + both},
		{name: "log/tee both", args: "-t 3" + both},
		{name: "log/tee in full", args: "--tee 3" + both},
		{name: "log/redirect and tee", args: "-r 1 -t 2" + both},
		{name: "log/tee what is redirected", args: "-r 3 -t 1" + both},
		{name: "log/by rank", args: "-r 0:1,1:2" + both},
		{name: "log/by rank, one only", args: "-r 1:3" + both},
		{name: "log/tee by rank", args: "-t 0:1,1:2" + both},
		{name: "log/tee and redirect by rank", args: "-r 0:3 -t 1:3" + both},
		{name: "log/a rank that is not", args: "-r 0:3,7:3" + both},
		{name: "log/temporary folder", args: "-r 3 --nproc_per_node=2 probe.py say=out err=wrong"},
		{name: "log/temporary folder and tee", args: "-t 3 probe.py say=out err=wrong"},
		{name: "log/folder is made", args: "-r 3 --log_dir=@dir/logs/a/b probe.py say=x"},
		{name: "log/folder of the working folder", args: "-r 3 --log_dir=logs probe.py say=x"},
		{name: "log/run id", args: "-r 1 --rdzv_id=job-7 --log_dir=@dir/logs probe.py say=x"},
		{name: "log/role before lines", args: "-t 1 --role=trainer --log_dir=@dir/logs probe.py say=x"},
		{name: "log/restart", args: "-r 3 --max_restarts=1 --log_dir=@dir/logs --nproc_per_node=2 probe.py say=x err=y exit=3@1#0 sleep=60#0"},
		{name: "log/bytes", args: "-r 3 --log_dir=@dir/logs probe.py bytes=x"},
		{name: "log/tee bytes", args: "-t 3 --log_dir=@dir/logs probe.py bytes=x"},
		{name: "log/many lines", args: "-t 1 --log_dir=@dir/logs probe.py say=1 say=2 say=3 say=4 say=5 say=6"},
		{name: "log/standalone", args: "--standalone -r 1 --log_dir=@dir/logs probe.py say=x"},
	}
}

// endCases end in every way.
func endCases() []testCase {
	return []testCase{
		{name: "end/code 1", args: "probe.py exit=1"},
		{name: "end/code 3", args: "probe.py exit=3", code: 3},
		{name: "end/code 255", args: "probe.py exit=255", code: 255},
		{name: "end/text", args: "probe.py leave=reason"},
		{name: "end/exception", args: "probe.py fail=boom"},
		{name: "end/SIGKILL", args: "probe.py kill=9", code: 137},
		{name: "end/SIGSEGV", args: "probe.py kill=11", code: 139},
		{name: "end/SIGABRT", args: "probe.py kill=6", code: 134},
		{name: "end/SIGTERM", args: "probe.py kill=15", code: 143},
		{name: "end/one of two", args: "--nproc_per_node=2 probe.py exit=3@1 sleep=60", code: 3},
		{name: "end/the first of two", args: "--nproc_per_node=2 probe.py exit=3@0 sleep=60", code: 3},
		{name: "end/one of three by a signal", args: "--nproc_per_node=3 probe.py kill=9@2 sleep=60", code: 137},
		{name: "end/two at once", args: "--nproc_per_node=2 probe.py killall=9@0 sleep=60", code: 137},
		{name: "end/three at once", args: "--nproc_per_node=3 probe.py killall=11@2 sleep=60", code: 139},
		{name: "end/all by an error file", args: "--nproc_per_node=2", more: []string{"probe.py", `file={"message":{"message":"E: a","extraInfo":{"py_callstack":"T\nE: a","timestamp":"1605774850"}}}@0`, `file={"message":{"message":"E: b","extraInfo":{"py_callstack":"T\nE: b","timestamp":"1605774840"}}}@1`, "killall=9@0", "sleep=60"}, code: 137, loose: "log"},
		{name: "end/after another was done", args: "--nproc_per_node=2 probe.py exit=0@0 sleep=1@1 exit=4@1", code: 4},
		{name: "end/the others end by themselves", args: "--nproc_per_node=2 probe.py trap=0@0 exit=3@1 sleep=60", code: 3},
		{name: "end/the others have codes", args: "--nproc_per_node=2 probe.py trap=7@0 exit=3@1 sleep=60", code: 3},
		{name: "end/the others do not end", args: "--nproc_per_node=2 probe.py ignore=15@0 exit=3@1 sleep=60", env: []string{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=1"}, code: 3},
		{name: "end/with a child", args: "probe.py child=1 exit=3", code: 3},
		{name: "end/module", args: "-m probe exit=3", code: 3},
		{name: "end/no python", args: "--no_python ./probe.py exit=3", code: 3},
		{name: "end/standalone", args: "--standalone --nproc_per_node=2 probe.py exit=3@1 sleep=60", code: 3},
		{name: "end/role", args: "--role=trainer probe.py exit=3", code: 3},
	}
}

// errorFileCases leave error files of all forms.
func errorFileCases() []testCase {
	write := func(name, text string) testCase {
		return testCase{name: "error file/" + name, args: "--log_dir=@dir/logs", more: []string{"probe.py", "write=" + text}, env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}}
	}
	return []testCase{
		write("as @record", `{"message":{"message":"RuntimeError: foo","extraInfo":{"py_callstack":"Traceback:\n  a\nRuntimeError: foo","timestamp":"1605774851"}}}`),
		write("time as a number", `{"message":{"message":"E: foo","extraInfo":{"py_callstack":"Traceback:\n  a\nE: foo","timestamp":1605774851}}}`),
		write("text", `{"message":"it broke","timestamp":10}`),
		write("text with its time as text", `{"message":"it broke","timestamp":"10"}`),
		write("text without a time", `{"message":"it broke"}`),
		write("several lines", `{"message":"it broke\nand more\n","timestamp":"10"}`),
		write("no message", `{"other":1}`),
		write("no call stack", `{"message":{"message":"E: foo","extraInfo":{"timestamp":"10"}}}`),
		write("no extraInfo", `{"message":{"message":"E: foo"}}`),
		write("half-written", `{"message":{"message":"RuntimeError: foo","extraIn`),
		write("empty", ``),
		write("no JSON", `oops`),
		write("a list", `[1,2]`),
		write("null", `{"message":null}`),
		write("a number", `{"message":7}`),
		write("more keys", `{"message":{"message":"E: foo","errorCode":9,"extraInfo":{"py_callstack":"x","timestamp":"10"}},"y":[1]}`),
		{name: "error file/@record", args: "--log_dir=@dir/logs -r 3 probe.py record=boom", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}},
		{name: "error file/@record of one of two", args: "--nproc_per_node=2 --log_dir=@dir/logs probe.py record=boom@1 sleep=60"},
		{name: "error file/replaces an older file", args: "--log_dir=@dir/logs probe.py record=boom", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/w0.py"}},
		{name: "error file/in a folder that is not", args: "--log_dir=@dir/logs probe.py record=boom", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/none/error.json"}},
		{name: "error file/of a worker that succeeds", args: "--log_dir=@dir/logs", more: []string{"probe.py", `file={"message":"x"}`}, env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}},
		{name: "error file/and a signal", args: "--log_dir=@dir/logs", more: []string{"probe.py", `file={"message":"x","timestamp":"10"}`, "kill=9"}, env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}, code: 137},
		{name: "error file/not ASCII", args: "--log_dir=@dir/logs", more: []string{"probe.py", `write={"message":{"message":"Fehler: Ü","extraInfo":{"py_callstack":"Spur\nÜ ✓","timestamp":"10"}}}`}, env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}},
		{name: "error file/empty text", args: "--log_dir=@dir/logs", more: []string{"probe.py", `write={"message":""}`}, env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}},
		{name: "error file/empty call stack", args: "--log_dir=@dir/logs", more: []string{"probe.py", `write={"message":{"message":"E: foo","extraInfo":{"py_callstack":"","timestamp":"10"}}}`}},
		{name: "error file/none", args: "--log_dir=@dir/logs probe.py exit=3", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}, code: 3},
		{name: "error file/none, by a signal", args: "--log_dir=@dir/logs probe.py kill=9", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}, code: 137},
		{name: "error file/none needed", args: "--log_dir=@dir/logs probe.py", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}},
	}
}

// signalCases send signals to the launcher.
func signalCases() []testCase {
	return []testCase{
		{name: "signal/SIGTERM", args: "--nproc_per_node=2 probe.py sleep=60", signal: syscall.SIGTERM, starts: 2, code: 143},
		{name: "signal/SIGINT", args: "--nproc_per_node=2 probe.py sleep=60", signal: syscall.SIGINT, starts: 2, code: 130},
		{name: "signal/SIGHUP", args: "--nproc_per_node=2 probe.py sleep=60", signal: syscall.SIGHUP, starts: 2, code: 129},
		{name: "signal/SIGQUIT", args: "--nproc_per_node=2 probe.py sleep=60", signal: syscall.SIGQUIT, starts: 2, code: 131},
		{name: "signal/standalone", args: "--standalone probe.py sleep=60", signal: syscall.SIGTERM, starts: 1, code: 143},
		{name: "signal/workers that handle it", args: "probe.py trap=0 sleep=60", signal: syscall.SIGTERM, starts: 1, code: 143},
		{name: "signal/restarts do not follow", args: "--max_restarts=3 probe.py sleep=60", signal: syscall.SIGTERM, starts: 1, code: 143},
	}
}

// restartCases start workers again.
func restartCases() []testCase {
	return []testCase{
		{name: "restart/once", args: "--max_restarts=1 --nproc_per_node=2 probe.py exit=3@1#0 sleep=60#0"},
		{name: "restart/twice", args: "--max_restarts=2 probe.py exit=3#0 exit=4#1"},
		{name: "restart/in vain", args: "--max_restarts=1 --nproc_per_node=2 probe.py exit=3@1 sleep=60", code: 3},
		{name: "restart/by a signal", args: "--max_restarts=1 probe.py kill=9#0"},
		{name: "restart/standalone", args: "--standalone --max_restarts=2 --nproc_per_node=2 probe.py exit=1@0#0 sleep=60#0"},
		{name: "restart/one of two fails each time", args: "--max_restarts=2 --nproc_per_node=2 probe.py exit=3@0#0 sleep=60#0 exit=4@1#1 sleep=60#1"},
		{name: "restart/with tee", args: "--max_restarts=1 -t 1 --log_dir=@dir/logs probe.py say=x exit=3#0"},
		{name: "restart/in vain with files", args: "--max_restarts=1 -r 3 --log_dir=@dir/logs probe.py say=x record=boom", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}},
		{name: "restart/not needed", args: "--max_restarts=2 probe.py"},
		{name: "restart/with an error file", args: "--max_restarts=1 --log_dir=@dir/logs probe.py record=boom#0", env: []string{"TORCHELASTIC_ERROR_FILE=@dir/error.json"}},
		{name: "restart/all at once", args: "--max_restarts=1 --nproc_per_node=2 probe.py killall=9@0#0 sleep=60#0"},
	}
}

// nodeCases start two nodes on this machine.
func nodeCases() []testCase {
	const c10d = "--nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:@port --rdzv_id=x --nproc_per_node=2 "
	const static = "--nnodes=2 --node_rank=@node --master_addr=127.0.0.1 --master_port=@port --nproc_per_node=2 "
	return []testCase{
		{name: "nodes/static", args: static + "probe.py", nodes: 2},
		{name: "nodes/static at an endpoint", args: "--nnodes=2 --node_rank=@node --rdzv_endpoint=127.0.0.1:@port probe.py", nodes: 2},
		{name: "nodes/static with a role", args: static + "--role=r@node probe.py", nodes: 2},
		{name: "nodes/static by variables", args: "probe.py", env: []string{"PET_NNODES=2", "PET_NODE_RANK=@node", "PET_MASTER_ADDR=127.0.0.1"}, nodes: 2},
		{name: "nodes/static with a prefix", args: static + "-t 1 --log_dir=@dir/logs/@node probe.py say=x", nodes: 2},
		{name: "nodes/c10d", args: c10d + "probe.py", nodes: 2},
		{name: "nodes/c10d, elastic", args: "--nnodes=1:2 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:@port --rdzv_conf=last_call_timeout=20 probe.py", nodes: 2},
		{name: "nodes/c10d, both fail", args: "--nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:@port --rdzv_id=x probe.py sleep=1@1 exit=3", nodes: 2, code: 3, loose: "node ? log"},
		{name: "nodes/c10d with files", args: c10d + "-r 3 --log_dir=@dir/logs probe.py say=x", nodes: 2},
		{name: "nodes/c10d, restart", args: c10d + "--max_restarts=1 probe.py exit=3#0", nodes: 2, loose: "node ? log"},
	}
}

// launchCases use the older program.
func launchCases() []testCase {
	return []testCase{
		{name: "launch/local rank", args: "--nproc_per_node=2 probe.py a", launch: true},
		{name: "launch/use_env", args: "--use_env --nproc_per_node=2 probe.py a", launch: true},
		{name: "launch/prefix", args: "--use --nproc=2 probe.py", launch: true},
		{name: "launch/dashes", args: "--use-env --nproc-per-node=2 probe.py a", launch: true, like: "launch/use_env"},
		{name: "launch/module", args: "-m probe a", launch: true},
		{name: "launch/no python", args: "--no_python --use_env ./probe.py a", launch: true},
		{name: "launch/no python without use_env", args: "--no_python ./probe.py a", launch: true, code: 2},
		{name: "launch/wrong value", args: "--node_rank=x probe.py", launch: true},
		{name: "launch/failure", args: "--nproc_per_node=2 probe.py exit=3@1 sleep=60", launch: true, code: 3},
		{name: "launch/master", args: "--master_addr=localhost --master_port=@port probe.py", launch: true},
		{name: "launch/two nodes", args: "--nnodes=2 --node_rank=@node --master_addr=127.0.0.1 --master_port=@port probe.py", launch: true, nodes: 2},
	}
}
