package catalogue

// selfTestRows returns the row about gorun's self-test. It comes before all others, whose
// words its verdict may repeat.
func selfTestRows() []Row {
	return []Row{
		{
			Key: RowSelfTest, Checks: ids("X-SELFTEST"), Kind: Root, Pattern: `(?:\bFAILED|the self-test failed) at the rung "[^"]*": (?:(?:the \d+ ranks of )?node \d+ \((?P<host>[^)\s]+)\)(?:(?:, node \d+ \([^)\s]+\))* and node \d+ \((?P<peer>[^)\s]+)\))? (?:fails?\b|has \d+ GPUs?\b)|rank (?P<rank>\d+) \([^)]*\) on (?P<host2>[^:\s]+)(?:: | fails | has NCCL |(?:, rank \d+ \([^)]*\) on [^:\s]+)* and rank (?P<rank2>\d+) \([^)]*\) on [^:\s]+ fail )|rank (?P<rank3>\d+) and rank (?P<rank4>\d+) on (?P<host3>\S+) have the same GPU)?`,
			Cause: "gorun's self-test found a fault before the program", Fix: "do what the line `fix:` of the self-test says; gorun selftest with the same flags repeats it", Seen: "gorun", Source: "docs/selftest.md",
		},
	}
}

// workerRows returns the rows about the program, its collectives and its ranks.
func workerRows() []Row {
	const (
		missing = "find out what that rank did last: a caught exception, a branch that skips the collective, a lost node, or slow work such as preprocessing (then do it before the job, or set a longer time-out: init_process_group(timeout=...), ddp_timeout)"
		start   = "find the node that did not start (gorun names it), and check that all nodes can reach MASTER_ADDR on node 0"
		desync  = "every rank must call the same collectives in the same order with the same sizes: look for `if rank == 0:` around one, uneven batches, unused parameters; TORCH_DISTRIBUTED_DEBUG=DETAIL names the first difference"
	)
	return []Row{
		{
			Key: "y73", Checks: ids("X-DESYNC"), Kind: Absence, Pattern: `\bdisagreement between rank\d+ and rank\d+: `,
			Cause: "the ranks came to different parts of the model: one of them wants other parameters of ZeRO than the others", Fix: "every rank must run the same layers: of mixtures of experts declare the blocks as leaf modules (set_z3_leaf_modules), and look for branches that depend on a rank's data", Seen: "DeepSpeed", Source: "deepspeed/runtime/zero/utils.py",
		},
		{
			Key: "x41", Checks: ids("X-DESYNC", "R03"), Kind: Primary, Pattern: `Detected mismatch between collectives on ranks\.? Rank (?P<rank>\d+) is running(?:.*but Rank (?P<rank2>\d+))?|Mismatched collective detected|(?:lagging/dead/)?mismatched ranks that caused the desync`,
			Cause: "ranks are in different collectives", Fix: desync, Seen: "torch, NCCL with checks", Source: "ProcessGroupWrapper.cpp, TraceUtils.h",
		},
		{
			Key: "x69", Checks: ids("X-HANG"), Kind: Root, Pattern: `^gorun(?:\[[^]]*\])?: .*?(?:(?:\brank (?P<rank>\d+)(?: \([^)]*\))? )?(?:never entered|do(?:es)? not go on in|never made the other end of|is in .*, not in the|is stopped by a signal)|no rank has made progress|ranks wait for each other|(?:is|are all) in .* none is behind).*; (?:stopping the workers|exit code 124)$`,
			Cause: "a rank did not make the call that the others wait in", Fix: missing, Seen: "gorun", Source: "docs/hangs.md",
		},
		{
			Key: RowDesync, Checks: ids("X-DESYNC", "R03"), Kind: Absence, Pattern: NoLine,
			Cause: "the watchdogs of the ranks wait in different collectives", Fix: desync, Seen: "torch", Source: "ProcessGroupNCCL.cpp; section 6.2",
		},
		{
			Key: RowMissing, Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: Absence, Pattern: `Ranks? (?P<rank>\d+)(?:, \d+)* failed to pass monitoredBarrier`,
			Cause: "a rank did not enter a collective for which the others wait", Fix: missing, Seen: "torch", Source: "ProcessGroupGloo.cpp; section 6.2",
		},
		{
			Key: "y96", Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: AbsenceOfAll, Pattern: `received errors while waiting for send/recv from rank (?P<rank>\d+)`,
			Cause: "a rank did not come to a monitored barrier; the rank that this one lost knows which", Fix: "read the output of the rank that the line names: it says which rank did not come", Seen: "torch", Source: "ProcessGroupGloo.cpp",
		},
		{
			Key: "y49", Checks: ids("X-ACTOR-DIED"), Kind: Symptom, Pattern: `Lost executor \d+ on (?P<host>[^\s:]+): `,
			Cause: "an executor of Spark ended", Fix: "read that executor's stderr (Spark's web page, yarn logs): exit code 137 or a limit of memory is the usual reason", Seen: "Spark", Source: "TaskSchedulerImpl",
		},
		{
			Key: "y46", Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: Absence, Pattern: `(?:Notify record|did not (?:receive|get) .{0,60}) from remote rank:? ?\[(?P<rank>\d{1,6})\]|\bEI000[26]: .*(?:times? out|timeout)|Getting socket times out`,
			Cause: "a rank did not come to a collective of HCCL, or no longer answered", Fix: missing, Seen: "CANN", Source: "hccl",
		},
		{
			Key: "y27", Checks: ids("X-TIMEOUT-MISSING-RANK", "R02"), Kind: Absence, Pattern: `ncclUniqueId from \[(?P<rank>\d+)\] via c10d key-value store.*(?:Timeout|timed out)`,
			Cause: "a rank did not start the communicator for which the others wait", Fix: missing, Seen: "torch", Source: "ProcessGroupNCCL.cpp",
		},
		{
			Key: "x50", Checks: ids("X-TIMEOUT-MISSING-RANK", "R02"), Kind: AbsenceOfAll, Pattern: `Timed out initializing process group in store based barrier`,
			Cause: "not all ranks entered the start of the process group", Fix: start, Seen: "torch", Source: "distributed_c10d.py",
		},
		{
			Key: RowClients, Checks: ids("X-TIMEOUT-MISSING-RANK", "R02"), Kind: Absence, Pattern: `Timed out after \d+ seconds waiting for (?:clients|workers)`,
			Cause: "not all processes came to the store at MASTER_ADDR:MASTER_PORT in time", Fix: "find the processes that did not start: compare the nodes and tasks that the scheduler or torchrun starts (--nodes, --ntasks-per-node, --nnodes, --nproc-per-node) with WORLD_SIZE, and check that their nodes reach MASTER_ADDR", Seen: "torch", Source: "TCPStore.cpp",
		},
		{
			Key: "y95", Checks: ids("R02", "I02", "I04", "X-TIMEOUT-MISSING-RANK"), Kind: Absence, Pattern: `client socket has timed out after \S+ while trying to connect to \(?(?P<peer>[^\s,)]+)|client socket has failed to connect to any network address|RuntimeError: connect\(\) timed out`,
			Cause: "this node could not reach the store at MASTER_ADDR:MASTER_PORT: the process that serves it (rank 0 or the agent of node 0) had not started or had ended, the address is another one, or a firewall drops the connection", Fix: "see on the node of that address whether its process runs and listens (`ss -ltn`), and from this node whether the port can be reached (`nc -vz HOST PORT`); open the ports between the nodes, or give an address that all of them reach", Seen: "torch", Source: "TCPStore.cpp",
		},
		{
			Key: "x47", Checks: ids("X-TIMEOUT-MISSING-RANK", "R02"), Kind: Absence, Pattern: `client socket has timed out|wait timeout after \d+ ?ms|(?:Error|error): Socket Timeout`,
			Cause: "a rank, or the store at MASTER_ADDR:MASTER_PORT, was not ready in time", Fix: start, Seen: "torch", Source: "TCPStore.cpp",
		},
		{
			Key: "x51", Checks: ids("R02"), Kind: Warning, Pattern: `client socket has failed to connect to (?P<peer>\S+)`,
			Cause: "nothing listened at MASTER_ADDR:MASTER_PORT yet, or it cannot be reached", Fix: start, Seen: "torch", Source: "socket.cpp",
		},
		{
			Key: RowAllWait, Checks: ids("X-TIMEOUT-MISSING-RANK", "I03"), Kind: Absence, Pattern: NoLine,
			Cause: "all ranks wait in the same collective: the network between them, or a GPU, makes no progress", Fix: "`gorun check` probes the network; look for Xid lines, and check the ports' counters; if the collective is only slow, set a longer time-out", Seen: "torch", Source: "ProcessGroupNCCL.cpp; section 6.2",
		},
		{
			Key: RowRAS, Checks: ids("V04", "X-SEGV"), Kind: Primary, Pattern: NoLine,
			Cause: "NCCL's RAS thread crashed: a known bug of 2.26 when RAS is queried while communicators are made (later ones in 2.27 to 2.29)", Fix: "upgrade NCCL to 2.29.2 or later and do not query RAS while the job starts, or set NCCL_RAS_ENABLE=0", Seen: "2.24-2.29", Source: "nccl#1669, #1718, #1762, #1996, #2346",
		},
		{
			Key: RowKilled, Checks: ids("X-HOSTOOM", "L07"), Kind: Clue, Pattern: NoLine,
			Cause: "the worker was killed by SIGKILL and nothing else explains it: most often the OOM killer", Fix: "check dmesg -T | grep -i oom on that node, memory.events of its cgroup, and the scheduler's records of the job", Seen: "torchrun, gorun", Source: "section 6.5",
		},
		{
			Key: "x54", Checks: ids("X-TIMELIMIT"), Kind: Stop, Pattern: `(?:\*\*\* (?:STEP|JOB) \S+ ON (?P<host>[\w.-]+) )?CANCELLED AT \S+ DUE TO TIME LIMIT|job killed: walltime|\bjob\b.{0,40}\b(?:exceeded|reached|over|hit)\b.{0,20}\b(?:wall ?time|wall ?clock)|TERM_RUNLIMIT|exceeded job hard limit "h_rt"|qmaster enforced h_rt|^CPU time limit exceeded`,
			Cause: "the job's time limit was reached", Fix: "if the last lines are much older than the limit, the job hung: look there; otherwise use a longer --time, or write checkpoints from which the next job can continue (sbatch --signal=USR1@300 sends a signal 300 s before the end)", Seen: "Slurm, PBS, LSF, SGE", Source: "slurmstepd, pbs_mom",
		},
		{
			Key: "x55", Checks: ids("X-PREEMPTED"), Kind: Stop, Pattern: `CANCELLED AT \S+ DUE TO (?:PREEMPTION|JOB REQUEUE)`,
			Cause: "the job had to make room for another one, or was put back into the queue (Slurm)", Fix: "the program is in order: continue from the last checkpoint (sbatch --requeue), or ask for a partition or QOS that is not preempted", Seen: "Slurm", Source: "slurmstepd",
		},
		{
			Key: RowNodeFailed, Checks: ids("X-NODE-LOST"), Kind: Stop, Pattern: `CANCELLED AT \S+ DUE TO NODE (?:(?P<host2>\S+) )?FAILURE|srun: error: Node failure on (?P<host>[^\s,]+)|node failure on (?P<host3>[\w.-]*\w) \(shell rank`,
			Cause: "a node failed or no longer answered (Slurm)", Fix: "`scontrol show node` and `sacct -j` show the node and the reason; --exclude= the node until it is repaired", Seen: "Slurm", Source: "srun, slurmstepd",
		},
		{
			Key: RowException, Topical: true, Checks: ids("X-PYEXC"), Kind: Catchable, Pattern: NoLine,
			Cause: "the worker raised an exception", Fix: "do what the message says, if it names a file, a server, a setting or a version; otherwise check the program at that line, and what it passes on there", Seen: "Python", Source: "traceback",
		},
		{
			Key: RowLauncherException, Topical: true, Checks: ids("X-PYEXC"), Kind: Vague, Pattern: NoLine,
			Cause: "the launcher raised an exception, and no line shows one of a worker", Fix: "read the launcher's last line; if a worker ended before, read that worker's own output (torchrun -r 3, gorun -t 3 keep it)", Seen: "torchrun", Source: "traceback",
		},
		{
			Key: "x49", Topical: true, Checks: ids("X-PYEXC"), Kind: Primary, Pattern: `^panic: |\bpanic: runtime error: |^fatal error: all goroutines are asleep|terminate called after throwing an instance of 'std::(?:runtime_error|logic_error|out_of_range|invalid_argument)`,
			Cause: "the worker ended itself with an error", Fix: "correct the program; the stack is below the line", Seen: "Go, C++", Source: "stderr",
		},
		{
			Key: RowNoReason, Checks: ids("X-PYEXC"), Kind: Ending, Pattern: NoLine,
			Cause: "the worker ended with an exit code and its reason is not in this log", Fix: "read that worker's own output (torchrun -r 3, gorun -t 3 keep it)", Seen: "torchrun, gorun", Source: "report",
		},
		{
			Key: RowNoStderr, Checks: ids("X-PYEXC"), Kind: Ending, Pattern: NoLine,
			Cause: "the worker ended with an exit code and its reason is not in this log", Fix: "the worker wrote nothing to stderr; read its stdout (gorun -t 3)", Seen: "gorun", Source: "report",
		},
		{
			Key: RowLastLine, Topical: true, Checks: ids("X-PYEXC"), Kind: Ending, Pattern: NoLine,
			Cause: "the worker ended with an exit code; this is its last line on stderr", Fix: "correct the program, its arguments or its files, as that line says", Seen: "gorun", Source: "report",
		},
		{
			Key: RowLastWords, Topical: true, Checks: ids("X-PYEXC"), Kind: Ending, Pattern: NoLine,
			Cause: "the worker ended with an exit code; this is the last line before its end", Fix: "correct the program, its arguments or its files, as that line says", Seen: "torchrun, srun, DeepSpeed", Source: "report",
		},
		{
			Key: RowAborted, Topical: true, Checks: ids("X-ERROR"), Kind: Ending, Pattern: NoLine,
			Cause: "the program ended the job itself (MPI_Abort); this is the last line before", Fix: "correct the program, its input or its files, as that line says; the lines before it, of the same rank, show what led to it", Seen: "MPI", Source: "MPI_Abort(3)",
		},
		{
			Key: RowTwiceRank, Checks: ids("R01"), Kind: Primary, Pattern: NoLine,
			Cause: "several nodes or tasks start the same ranks, so that others never come", Fix: "give each node its own rank (--node-rank, NODE_RANK), unset ranks that an image or a prolog sets for all, and start as many tasks per node as the program expects; gorun numbers nodes and ranks itself", Seen: "Lightning, others", Source: "pytorch-lightning#4389",
		},
		{
			Key: "y87", Checks: ids("X-ARGS"), Kind: Clue, Pattern: `unrecognized arguments: .*--local[-_]rank=`,
			Cause: "the program does not accept the argument that torch.distributed.launch adds", Fix: "start it with gorun or torchrun and read LOCAL_RANK from the environment, or let its parser accept both --local-rank and --local_rank", Seen: "torch", Source: "torch/distributed/launch.py",
		},
		{
			Key: "x60", Checks: ids("X-ARGS"), Kind: Clue, Pattern: `^error: (?:unrecognized arguments|argument \S+: |the following arguments are required)|(?:^|\s)\S+: error: (?:the following arguments are required|unrecognized arguments|argument \S+: |one of the arguments |ambiguous option)`,
			Cause: "the program does not accept its arguments", Fix: "correct the arguments after PROGRAM; the launcher's own flags come before it", Seen: "Python", Source: "argparse",
		},
		{
			Key: RowNoModule, Checks: ids("X-MODULE"), Kind: Catchable, Pattern: `(?:^|\s)\S*python[.\d]*: (?:No module named |Error while finding module specification for )`,
			Cause: "the Python interpreter does not find a module", Fix: "install it for that interpreter (PYTHON -m pip install NAME), or name an interpreter that has it: PYTHON_EXEC=/path/to/python gorun ... on that node", Seen: "Python", Source: "traceback",
		},
		{
			Key: RowNoFile, Checks: ids("X-FILE"), Kind: Catchable, Pattern: NoLine,
			Cause: "the program did not find a file on this node, or may not use it", Fix: missingFile, Seen: "Python", Source: "traceback",
		},
		{
			Key: RowPeerExited, Checks: ids("X-PEER-EXITED"), Kind: Clue, Pattern: NoLine,
			Cause: "a rank ended without an error while the others still needed it", Fix: "every rank must run the same number of steps and call destroy_process_group (or a barrier) before it ends: look for uneven data and early returns", Seen: "torch", Source: "ProcessGroupNCCL.cpp",
		},
		{
			Key: RowHostID, Checks: ids("H01", "D01"), Kind: Primary, Explains: ids("D01"), Pattern: NoLine,
			Cause: "NCCL takes two hosts for one, and their GPUs for the same", Fix: "give each node or container its own hostname, and do not set NCCL_HOSTID to one value for all", Seen: "2.5.6+", Source: "nccl#879",
		},
		{
			Key: RowNotFound, Checks: ids("X-START"), Kind: Clue, Pattern: NoLine,
			Cause: "the shell did not find the program, or may not run it (exit code 127 or 126)", Fix: "put the same program and interpreter at the same path on every node (ls -l PATH there), or name the path in full", Seen: "shells", Source: "sh(1)",
		},
		{
			Key: RowInterrupted, Checks: ids("X-STOPPED"), Kind: Vague, Pattern: NoLine,
			Cause: "somebody interrupted the program (Ctrl-C, SIGINT); no line shows a failure before", Fix: "nothing, if that was intended; otherwise look into the records of the scheduler or the shell that started it", Seen: "Python", Source: "traceback",
		},
		{
			Key: "x52", Checks: ids("X-NODE-LOST"), Kind: Primary, Pattern: `gorun\S*: .*node (?P<host>\S+) .*was lost\b`,
			Cause: "a node was lost: it failed, its gorun was killed, or the network to it broke", Fix: "check that node's console, kernel log and power, and the scheduler's records of it", Seen: "gorun", Source: "report",
		},
		{
			Key: "x53", Checks: ids("X-USAGE"), Kind: Primary, Pattern: `gorun\S*: rank (?P<rank>\d+) on .* could not be started`,
			Cause: "the program could not be started on a node", Fix: "put the same program and interpreter at the same path on every node", Seen: "gorun", Source: "report",
		},
	}
}

// lostRows returns the rows about ranks that failed because another one had.
func lostRows() []Row {
	const (
		earlier = "look for the earliest error of another rank"
		peer    = "find out why that peer ended: read its own log, or the first errors of the other ranks"
	)
	lost := func(key, pattern, cause, fix, seen, source string) Row {
		return Row{Key: key, Checks: ids("X-PEER-LOST"), Kind: PeerLost, Pattern: pattern, Cause: cause, Fix: fix, Seen: seen, Source: source}
	}
	aborted := func(key, pattern, cause, seen, source string) Row {
		return Row{Key: key, Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: pattern, Cause: cause, Fix: earlier, Seen: seen, Source: source}
	}
	peerLost := func(r Row) Row { r.Kind = PeerLost; return r }
	return []Row{
		peerLost(aborted("66", `NCCL (?:WARN|INFO) .*Accept failed Resource temporarily unavailable`, "NCCL was aborted while it accepted connections; the text about a resource is left from an earlier call", "2.12.7-2.29.7", "nccl#1668, #1610; src/proxy.cc")),
		peerLost(aborted("67", `Could not receive type from localRank \d+, res=3`, "the communicator of this node was aborted", "2.12.7+", "src/proxy.cc")),
		aborted("68a", `Failed to execute operation \w+ from rank \d+, retcode 3`, "NCCL's helper thread was stopped by an abort", "2.12.7+", "src/proxy.cc"),
		{
			Key: "68b", Checks: ids("X-ABORTED"), Kind: Symptom, Pattern: `Failed to execute operation \w+ from rank \d+, retcode \d+|Error encountered progressing operation=\w+, res=[124-9]`,
			Cause: "an operation of NCCL's helper thread failed", Fix: "the line above it has the reason; NCCL_DEBUG=INFO shows more", Seen: "2.12.7+", Source: "src/proxy.cc",
		},
		lost("69", `Connection closed by remote peer ?(?P<peer>\S*)`, "the connection's peer had ended or aborted", peer, "2.3.7+", "src/misc/socket.cc:58"),
		lost("70", `Call to \w+ (?:from|to) (?P<peer>\S+) failed ?: `+ConnectionClosed, "the connection's peer had ended or aborted, or a firewall reset the connection", peer, "2.8+", "socket.cc:30"),
		peerLost(aborted("71", `Socket recv failed while polling for opId`, "NCCL's helper thread of a rank on this node had ended", "2.17.1+", "src/proxy.cc")),
		lost("73", `remote process exited or there was a network error|ncclRemoteError`, "a peer had ended or could not be reached", peer, "2.13.4+", "nccl#795; src/init.cc"),
		{
			Key: "y28", Checks: ids("R05"), Kind: Harmless, Pattern: `Unknown command \d+ from localRank`,
			Cause: "something that is no rank sent a message to NCCL's helper: a port scanner or a health probe", Fix: "nothing to do", Seen: "2.12.7+", Source: "nccl#851; src/proxy.cc",
		},
		{
			Key: "74", Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: PeerLost, Pattern: `Watchdog caught collective operation timeout`,
			Cause: "a collective did not end in time: another rank did not enter it, or is behind", Fix: "compare SeqNum and OpType of the ranks, and look for a rank that is behind or prints none", Seen: "torch", Source: "ProcessGroupNCCL.cpp",
		},
		{
			Key: "75", Checks: ids("X-ABORTED"), Kind: Harmless, Pattern: `Abort COMPLETE`,
			Cause: "the program aborted its communicator", Fix: earlier, Seen: "INFO", Source: "nccl#1668",
		},
		lost("x80", `gloo/transport/\S+:\d+\].*`+ConnectionClosed, "a peer of Gloo had ended", peer, "gloo", "gloo/transport/tcp/pair.cc"),
		lost("x81", `gloo/transport/\S+:\d+\] Timed out waiting \d+ ?ms for (?:recv|send) operation`, "a peer of Gloo did not answer in time", peer, "gloo", "gloo/transport/tcp/unbound_buffer.cc"),
		lost("x82", `NCCL communicator was aborted on rank`, "torch aborted the communicator", earlier, "torch", "ProcessGroupNCCL.cpp"),
		lost("x83", `dump signal .*(?:from|by) (?:another |other )?rank`, "another rank's watchdog had timed out", earlier, "torch", "ProcessGroupNCCL.cpp"),
		lost("x84", `Connection was likely closed\. Did the remote server shutdown or crash|failed to recv, got 0 bytes|This may indicate a possible application crash on rank 0`, "the store's process (rank 0 under torchrun) had ended", peer, "torch", "TCPStore.cpp"),
		lost("x8a", `The connection to the C10d store has failed`, "the store of the rendezvous could not be reached, or was lost: the agent on its node had not started or had ended, or the network to it broke", peer, "torchrun", "c10d_rendezvous_backend.py"),
		lost("x85", `store->\w+\(.*got error: .*`+ConnectionClosed, "the store's process had ended", peer, "torch", "ProcessGroupNCCL.cpp"),
		lost("x86", `TCPStore.*`+ConnectionClosed, "the store's process had ended", peer, "torch", "TCPStore.cpp"),
		lost("x87", `Stop_waiting response is expected`, "the store's process had ended", peer, "torch", "TCPStore.cpp"),
		lost("x88", `\bgorun: aborted: `, "gorun had stopped the worker", earlier, "gorun", "package worker"),
		lost("x89", `\bgorun: .* failed: rank (?P<peer>\d+) (?:is gone|gave up|cannot be reached)`, "a peer of the worker had ended", peer, "gorun", "package worker"),
		{
			Key: "x90", Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: `Some NCCL operations have failed or timed out|we are taking the entire process down|watchdog thread terminated with exception`,
			Cause: "torch's watchdog ended the process", Fix: earlier, Seen: "torch", Source: "ProcessGroupNCCL.cpp",
		},
		{
			Key: "y48", Checks: ids("X-NCCL"), Kind: Vague, Pattern: `Hccl\w+(?:, error code is| failed: \d)|ACL stream synchronize failed|error code:? ?(?:is )?(?:107020|507048|507046)\b|runtime result = (?:107020|507048|507046)\b|reason=\[(?:task|stream sync) timeout\]`,
			Cause: "a collective of HCCL failed or did not end", Fix: "read the device's log (~/ascend/log), and the first error of the other ranks", Seen: "CANN", Source: "hccl",
		},
		{
			Key: "x91", Checks: ids("X-NCCL"), Kind: Vague, Pattern: `NCCL error in: |NCCL operation \w.{0,200} failed: (?:internal|unhandled|remote|invalid|system)|NCCL_ERROR_\w+|unhandled system error|ncclSystemError\b|ncclInternalError\b|ncclInvalidUsage\b|ncclInvalidArgument\b`,
			Cause: "a call of NCCL failed", Fix: "run again with NCCL_DEBUG=INFO and NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log, then `gorun explain` these files", Seen: "torch", Source: "ProcessGroupNCCL.cpp",
		},
		{
			Key: RowStopped, Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: `CANCELLED AT [-:T\d]+ \*\*\*|Sending process \d+ closing signal|SignalException: Process \d+ got signal`,
			Cause: "a launcher or scheduler stopped the worker", Fix: earlier, Seen: "Slurm, torchrun", Source: "torch/distributed/elastic",
		},
		{
			Key: RowStopException, Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: NoLine,
			Cause: "the worker was stopped from outside", Fix: earlier, Seen: "Python", Source: "traceback",
		},
		lost(RowPeerException, NoLine, "the worker's exception shows that a peer had ended", peer, "torch", "traceback"),
	}
}
