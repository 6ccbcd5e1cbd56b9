package diagnose

// launchRows returns the rows about programs that could not be started, and about
// launchers and schedulers that ended them.
func launchRows() []Row {
	const (
		start = "put the same program and interpreter at the same path on every node (ls -l PATH there), or name the path in full"
		ssh   = "ssh to that host must work without a password from the node of the launcher (ssh HOST true), or start one gorun on each node, which needs no ssh"
		evict = "ask for what the program uses (resources.requests of memory and ephemeral-storage), and write caches and checkpoints to a volume"
	)
	return []Row{
		{
			Key: "y01", Checks: ids("X-START"), Kind: Primary, Pattern: `slurmstepd: error: execve\(\): \S+ ?: |srun: error: Task launch for \S+ failed on node (?P<host>[^\s:]+)`,
			Cause: "the program could not be started on a node", Fix: start, Seen: "Slurm", Source: "srun, slurmstepd",
		},
		{
			Key: "y02", Checks: ids("X-START"), Kind: Primary, Pattern: `OCI runtime (?:create|exec) failed: |executable file not found in \$PATH`,
			Cause: "the container's program is not in its image", Fix: "name a program that the image has: docker run --rm -it --entrypoint sh IMAGE shows them", Seen: "docker, containerd", Source: "runc",
		},
		{
			Key: "v10", Checks: ids("X-START"), Kind: Clue, Explains: ids("X-SEGV"), Pattern: `(?:could not|couldn't|failed to) start (?:the )?container|container (?:creation|start) failed`,
			Cause: "a container could not be started on a node", Fix: "the lines beside it say why: an image, a folder to mount or a program that this node lacks", Seen: "pyxis, Apptainer, Podman", Source: "their sources",
		},
		{
			Key: "y03", Checks: ids("X-START"), Kind: CatchableClue, Pattern: `(?:bash|sh|zsh|line \d+): (?:line \d+: )?\S+: (?:command not found|Permission denied|cannot execute)|(?:orted|prted): command not found`,
			Cause: "the shell could not start a program", Fix: start + "; load its module or environment in the job's script (shells without login read no profile)", Seen: "bash", Source: "bash",
		},
		{
			Key: "y17", Checks: ids("X-START"), Kind: SystemError, Pattern: `(?:bash|line \d+): (?:line \d+: )?\S+: No such file or directory`,
			Cause: "the shell did not find a file of the job's script", Fix: start, Seen: "bash", Source: "bash",
		},
		{
			Key: "y04", Checks: ids("X-START"), Kind: CatchableClue, Pattern: `ErrImagePull|ImagePullBackOff|Back-off pulling image`,
			Cause: "the node could not pull the container's image", Fix: "check the image's name and the pull secret: kubectl describe pod", Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: "y05", Checks: ids("X-SSH"), Kind: Primary, Pattern: `(?:@(?P<host3>[^\s:]+): )?Permission denied \((?:publickey|password|gssapi|keyboard)|ssh: connect to host (?P<host>\S+) port \d+: |Host key verification failed|host=(?P<host2>\S+) was not reachable via ssh`,
			Cause: "the launcher could not log in to a host over ssh", Fix: ssh, Seen: "OpenSSH, DeepSpeed, mpirun", Source: "ssh(1)",
		},
		{
			Key: "y06", Checks: ids("X-SSH"), Kind: Clue, Pattern: `pdsh@\S+: (?P<host>\S+): ssh exited with exit code 255`,
			Cause: "the connection over ssh to a host failed or broke", Fix: ssh, Seen: "pdsh", Source: "pdsh",
		},
		{
			Key: "y07", Checks: ids("X-EVICTED", "L07"), Kind: Root, Pattern: `Evicted\s.*kubelet|Reason:\s+Evicted\b|The node was low on resource: |Pod ephemeral local storage usage exceeds|workers are evicted`,
			Cause: "Kubernetes evicted a pod: its node ran out of disk or memory", Fix: evict, Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: "y08", Checks: ids("X-NODE-LOST"), Kind: Primary, Pattern: `Remote daemon: \[\[\d+,\d+\],\d+\] on node (?P<host>\S+)`,
			Cause: "mpirun lost its daemon on a node: the node or the network to it failed", Fix: "check that node's console, kernel log and power, and the scheduler's records of it", Seen: "Open MPI", Source: "help-errmgr-base.txt",
		},
		{
			Key: "y09", Checks: ids("X-STOPPED"), Kind: Vague, Pattern: `Received (?:\d+|SIG\w+) death signal, shutting down workers`,
			Cause: "a signal from outside stopped the launcher; no worker had failed before, as far as this log shows", Fix: "signal 1 comes from a terminal that closed: use tmux, sbatch or setsid; 15 from a scheduler or a user: look into its records (sacct -j, kubectl get events)", Seen: "torchrun", Source: "torch/distributed/elastic/agent",
		},
		{
			Key: "y10", Checks: ids("X-NODE-LOST"), Kind: Clue, Pattern: `task:(?P<rank>\d+) has been set to ERROR in coordination service|Task /job:\S+/task:(?P<rank2>\d+) heartbeat timeout`,
			Cause: "a task of the job no longer sent heartbeats: it ended, hangs, or cannot be reached", Fix: "read that task's own log for an earlier error", Seen: "JAX", Source: "coordination_service.cc",
		},
		{
			Key: "y11", Quote: "FAILED: ", Checks: ids("X-BUILD"), Kind: Catchable, Explains: ids("X-PYEXC", "X-MODULE", "X-FILE"), Pattern: `FAILED: \S+\.(?:o|so|cu)\b|ninja: build stopped: |Error building extension '`,
			Cause: "an extension of the program could not be compiled on this node", Fix: "read the compiler's error above: install what it misses (gcc, nvcc of torch's CUDA version, headers), or build the extension beforehand", Seen: "torch", Source: "torch/utils/cpp_extension.py",
		},
		{
			Key: "y12", Checks: ids("X-ARGS"), Kind: Clue, Pattern: `^Error: (?:No such option|Missing (?:option|argument|parameter)|Invalid value|Got unexpected extra argument)|^Could not override '|^Key '\S+' is not in struct`,
			Cause: "the program does not accept its arguments", Fix: "correct the arguments after PROGRAM; the launcher's own flags come before it", Seen: "click, hydra", Source: "click, hydra",
		},
		{
			Key: "y13", Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: Clue, Pattern: `\[missing ranks: ?(?P<rank>\d+)`,
			Cause: "a rank did not submit a tensor for which the others wait", Fix: "find out what that rank did last; every rank must submit the same tensors", Seen: "Horovod", Source: "stall_inspector.cc",
		},
		{
			Key: "y14", Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: Absence, Pattern: `waiting for remainder of ranks for more than \d+ seconds`,
			Cause: "some ranks did not submit a tensor for which the others wait", Fix: "the ready ranks are listed: look at the others; every rank must submit the same tensors", Seen: "Horovod", Source: "stall_inspector.cc",
		},
		{
			Key: "y15", Checks: ids("X-HOSTOOM", "L07"), Kind: Root, Pattern: `Task was killed due to the node running low on memory|Workers \(tasks / actors\) killed due to memory pressure \(OOM\)(?:.*IP: (?P<host2>[^\s,)]+))?|Memory on the node \(IP: (?P<host>[^\s,]+)`,
			Cause: "Ray killed a worker because its node ran out of memory", Fix: "start fewer tasks on that node (num_cpus), give them less to hold, or use nodes with more memory", Seen: "Ray", Source: "node_manager.cc",
		},
		{
			Key: "y16", Checks: ids("I02", "I01"), Kind: Clue, Pattern: `btl_tcp_endpoint\.c.*connect\(\) to (?P<peer>\S+) failed`,
			Cause: "MPI cannot reach a peer's address: it chose another network than the nodes share", Fix: "name the common network: mpirun --mca btl_tcp_if_include eth0", Seen: "Open MPI", Source: "btl_tcp_endpoint.c",
		},
	}
}
