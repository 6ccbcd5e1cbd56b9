package catalogue

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
			Key: "t09", Checks: ids("X-START", "X-AUTH"), Kind: Primary, Pattern: `(?:on node (?P<host>[^\s:]+): )?Job credential expired|Munge decode failed: (?:Expired|Rewound) credential`,
			Cause: "a node refused Slurm's credential of the job: its clock differs from the others', or munge or slurmd lags there", Fix: "compare the clocks (date on both nodes; chronyc tracking), correct NTP, and restart munge and slurmd on that node", Seen: "Slurm", Source: "slurmd, munge",
		},
		{
			Key: "t05", Checks: ids("X-START"), Kind: Primary, Pattern: `execve\(\): (?:mkdir|rm|cp|ls|cat|echo|sleep|date|env|sh|bash|hostname): No such file`,
			Cause: "the variable PATH lacks the folders of the system's programs", Fix: "the script sets PATH and drops its old value: export PATH=/new/folder:$PATH", Seen: "Slurm", Source: "srun(1)",
		},
		{
			Key: "t06", Checks: ids("X-START"), Kind: Clue, Pattern: `(?:cannot create directory|failed to create|mkdir) ['"\x60‘]?/\S*enroot\S*['"’]?: Permission denied`,
			Cause: "the user may not write enroot's folder on a node, so that no container starts there", Fix: "an administrator must give each user a folder there: ENROOT_RUNTIME_PATH, ENROOT_CACHE_PATH and ENROOT_DATA_PATH in enroot.conf, made by the prolog", Seen: "enroot, pyxis", Source: "enroot.conf",
		},
		{
			Key: "y18", Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: `Task launch for \S+ failed on node \S+: No such process`,
			Cause: "the step could not start on another node", Fix: "look for the node of which srun gives another reason", Seen: "Slurm", Source: "srun",
		},
		{
			Key: "y19", Checks: ids("X-FILE"), Kind: Warning, Pattern: `slurmstepd\S*: error: couldn't chdir to`,
			Cause: "a node lacks the job's folder, and Slurm went on in /tmp", Fix: "create or mount that folder on every node, or use --chdir", Seen: "Slurm", Source: "slurmstepd",
		},
		{
			Key: "y33", Checks: ids("X-START"), Kind: Primary, Pattern: `(?:mpirun|mpiexec|prterun|orterun) was unable to (?:find the specified executable|launch the specified application|start the specified application)`,
			Cause: "mpirun could not start the program on a node", Fix: start, Seen: "Open MPI", Source: "help-orterun.txt",
		},
		{
			Key: "y01", Checks: ids("X-START"), Kind: Primary, Pattern: `slurmstepd\S*: error: execve\(\): \S+ ?: |srun: error: tasks? (?P<rank>\d+)\S* launch failed: |srun: error: Task launch for \S+ failed on node (?P<host>[^\s:]+)`,
			Cause: "the program could not be started on a node", Fix: start, Seen: "Slurm", Source: "srun, slurmstepd",
		},
		{
			Key: "y40", Quote: "nvidia-container-cli: ", Checks: ids("X-START"), Kind: Primary, Pattern: `nvidia-container-cli: \w|error running (?:prestart |createRuntime )?hook|no runtime for "nvidia" is configured`,
			Cause: "the NVIDIA container toolkit could not give the GPUs to the container", Fix: "nvidia-smi on that node must work, with one version of the driver's module and library (else reboot it), and the toolkit (nvidia-container-cli) be installed there; docker run --rm --gpus all IMAGE nvidia-smi tests the toolkit", Seen: "nvidia-container-toolkit", Source: "libnvidia-container",
		},
		{
			Key: "y91", Checks: ids("X-NODE-LOST"), Kind: Primary, Pattern: `The raylet exited immediately because the Ray agent failed`,
			Cause: "Ray's agent on a node ended, and its raylet with it", Fix: "dashboard_agent.log and raylet.err in the logs of Ray's session on that node say why: its memory, a missing package, or a port in use", Seen: "Ray", Source: "agent_manager.cc",
		},
		{
			Key: "y92", Checks: ids("X-MPI", "V05", "X-LIBRARY"), Kind: Primary, Pattern: `pmi/pmix: can ?not load PMIx library|Couldn't load specified plugin name for mpi/`,
			Cause: "srun cannot load the plugin of MPI that --mpi or MpiDefault names", Fix: "srun --mpi=list shows what works; on every node install the PMIx that Slurm was built with, or use --mpi=pmi2 with an MPI that was built for it", Seen: "Slurm", Source: "src/plugins/mpi/pmix",
		},
		{
			Key: "y88", Checks: ids("G04", "N05"), Kind: Root, Pattern: `mlx5_core \S+ (?:device's health compromised|.*\birisc not responding)`,
			Cause: "the firmware of a network adapter failed", Fix: "take the node out of the job and restart it; update the adapter's firmware (mlxfwmanager), and give dmesg to its vendor", Seen: "kernel", Source: "drivers/net/ethernet/mellanox/mlx5/core/health.c",
		},
		{
			Key: "y89", Checks: ids("X-ACTOR-DIED", "X-NODE-LOST"), Kind: Catchable, Pattern: `(?:TID \d+, (?P<host>[\w.-]+), executor \d+\): )?ExecutorLostFailure .*Executor heartbeat timed out|Lost executor \d+ on (?P<host2>[^\s:]+): Executor heartbeat timed out|Removing executor \d+ with no recent heartbeats`,
			Cause: "an executor of Spark sent no more heartbeats: it hung, paused, or its node was lost", Fix: "read that executor's stderr and dmesg on its host; long pauses are those of the garbage collection or of a GPU: more memory, or a longer spark.network.timeout", Seen: "Spark", Source: "HeartbeatReceiver",
		},
		{
			Key: "t02", Checks: ids("X-HOSTOOM", "L07", "X-EVICTED"), Kind: Clue, Pattern: `command terminated with exit code 137\b`,
			Cause: "a container was killed by SIGKILL: its limit of memory, an eviction, or its pod was deleted", Fix: "kubectl describe pod and kubectl get events say which of them; give the pod more memory, or look why its node evicted it", Seen: "kubectl exec (MPIJob)", Source: "kubectl", Explains: ids("X-NODE-LOST"),
		},
		{
			Key: RowNoRendezvous, Checks: ids("R02", "X-TIMEOUT-MISSING-RANK", "I02"), Kind: AbsenceOfAll, Pattern: NoLine,
			Cause: "not all nodes came to torchrun's rendezvous in time", Fix: "start all nodes within the join timeout, with the same --rdzv-id (without it each node makes one of its own), --rdzv-endpoint and --nnodes; each node must reach that endpoint", Seen: "torchrun", Source: "dynamic_rendezvous.py",
		},
		{
			Key: "y86", Checks: ids("X-MPI", "V05"), Kind: Clue, Pattern: `\bOPAL ERROR: \w[\w ]* in file ext\w+_client\.c`,
			Cause: "the program's MPI could not talk to the launcher that started it (PMIx)", Fix: "the MPI of the program or its container and that of mpirun or srun must be of one release, or use one PMIx: compare ompi_info --version inside and outside, and srun --mpi=list", Seen: "Open MPI", Source: "opal/mca/pmix",
		},
		{
			Key: "y77", Checks: ids("X-START"), Kind: Harmless, Pattern: `spank: \S+\.so: Plugin file not found`,
			Cause: "an optional plugin of Slurm is missing", Fix: "none is needed; plugstack.conf of Slurm names it", Seen: "Slurm", Source: "src/common/spank.c",
		},
		{
			Key: "y78", Checks: ids("X-MPI"), Kind: Primary, Pattern: `PMII_singinit: execv failed|This singleton init program attempted to access some feature`,
			Cause: "the program's MPI found no launcher that it knows, so that each process ran alone", Fix: "start it with the mpiexec of that MPI, or with srun --mpi=pmi2 or pmix (srun --mpi=list) if that MPI was built for it", Seen: "MPICH", Source: "src/pmi/simple_pmi.c",
		},
		{
			Key: "y79", Checks: ids("X-DISK", "X-MPI"), Kind: Primary, Pattern: `File locking failed in ADIOI_Set_lock|ADIOI_Set_lock:: `,
			Cause: "MPI-IO could not lock a file, because the file system has no locks", Fix: "mount Lustre with flock, NFS with lockd and noac, or write to another file system; the hint romio_ds_write=disable avoids most locks", Seen: "ROMIO", Source: "adio/common/lock.c",
		},
		{
			Key: "y80", Checks: ids("X-NODE-LOST", "X-CONNECT"), Kind: Clue, Pattern: `\bsend to MOM '(?P<host>[^']+)' failed|cannot send job to mom, state=`,
			Cause: "the scheduler could not hand the job to a node", Fix: "pbsnodes NODE, and the log of pbs_mom there, say why: the service, its network or its disk; qrls JOB releases the job afterwards", Seen: "Torque, PBS", Source: "src/server/req_runjob.c",
		},
		{
			Key: "y81", Checks: ids("X-CONNECT"), Kind: Clue, Pattern: `Timed out connecting Nanny .* to scheduler '(?P<peer>[^']+)'`,
			Cause: "a worker of Dask could not reach its scheduler in time", Fix: "nc -vz HOST PORT from that node must work: name the common network (--interface), look for firewalls, and whether the other side has ended", Seen: "Dask", Source: "distributed/nanny.py",
		},
		{
			Key: "y82", Checks: ids("X-NODE-LOST"), Kind: Catchable, Pattern: `Heartbeat of TaskManager with id (?P<host>[\w.-]+):\S* timed out`,
			Cause: "a task manager of Flink sent no more heartbeats: it ended, hangs, or cannot be reached", Fix: "read the end of its own log, and dmesg on its host: it may have been killed for its memory, or paused by its garbage collection", Seen: "Flink", Source: "HeartbeatManagerImpl",
		},
		{
			Key: "y83", Checks: ids("X-DATALOADER", "X-HOSTOOM", "L07"), Kind: Catchable, Pattern: `One of the subprocesses has abruptly died during map`,
			Cause: "a process of datasets.map was killed, most often for its memory", Fix: "dmesg -T | grep -i oom on that node, and memory.events of its cgroup, show it; use a smaller num_proc; num_proc=1 shows an error of the function itself", Seen: "datasets", Source: "datasets/utils/py_utils.py",
		},
		{
			Key: "y84", Checks: ids("X-HOSTOOM", "L07", "X-ACTOR-DIED"), Kind: Catchable, Pattern: `Container (?:marked as failed|from a bad node): \S+ on host: (?P<host>[\w.-]+)\. Exit status: 137\b`,
			Cause: "the container of an executor was killed by SIGKILL, most often for its memory", Fix: "give executors more (spark.executor.memoryOverhead, spark.executor.memory), or use more and smaller partitions; yarn logs -applicationId shows what the node manager said", Seen: "Spark on YARN", Source: "YarnAllocator",
		},
		{
			Key: "y85", Checks: ids("X-CONNECT"), Kind: CatchableClue, Pattern: `\bslurm_\w+ error: (?:Unable to contact|Socket timed out|Zero Bytes|Connection (?:refused|timed out))`,
			Cause: "Slurm's controller did not answer", Fix: "scontrol ping shows whether slurmctld runs; ask it less often (squeue in loops), and try again with a longer wait", Seen: "Slurm", Source: "slurm_load_jobs(3)",
		},
		{
			Key: "y76", Checks: ids("X-START"), Kind: Clue, Pattern: `\bProlog failure on node (?P<host>[\w.-]+)|\berror: prolog failed: .*|\bprolog failed\b.{0,20}\brc:\d+`,
			Cause: "Slurm's prolog failed on a node, so that the job did not start", Fix: "an administrator reads slurmd's log on that node, and what its prolog checks (GPUs, file systems); sbatch --exclude=NODE leaves the node out", Seen: "Slurm", Source: "slurmd, prolog",
		},
		{
			Key: "y72", Checks: ids("X-START"), Kind: Clue, Pattern: `\bError: (?:secrets?|configmaps?) "[^"]+" not found|\bcouldn't find key \S+ in (?:Secret|ConfigMap)\b`,
			Cause: "a secret or a config map that the pod refers to does not exist in its namespace", Fix: "kubectl get secret,configmap -n NAMESPACE shows what is there; create it before the job, or correct its name or key in the pod", Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: RowContainer, Checks: ids("X-START"), Kind: Vague, Pattern: `FailedCreatePodSandBox|Failed to create pod sandbox|CreateContainer(?:Config)?Error|RunContainerError|UnexpectedAdmissionError|FailedPostStartHook`,
			Cause: "Kubernetes could not start a pod's container on its node", Fix: "kubectl describe pod names the reason: a secret or config map that does not exist, a runtime class, a device plugin without healthy GPUs", Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: "y42", Checks: ids("X-NODE-LOST"), Kind: Stop, Pattern: `job killed: node \d+ \((?P<host>[^)\s]+)\) requested job (?:terminate|die)|\bjob (?:was )?(?:preempted|cancelled|canceled|killed|aborted|deleted|requeued)\b.{0,40}\bnode failure\b(?:.*\bMOM on (?P<host2>[\w.-]+))?`,
			Cause: "a node of the job failed or no longer answered (PBS, Moab)", Fix: "pbsnodes -v HOST and tracejob show the node and the reason", Seen: "PBS", Source: "pbs_mom",
		},
		{
			Key: "y02", Checks: ids("X-START"), Kind: Primary, Pattern: `executable file not found in \$PATH|unable to start container process: exec: `,
			Cause: "the container's program is not in its image", Fix: "name a program that the image has: docker run --rm -it --entrypoint sh IMAGE shows them", Seen: "docker, containerd", Source: "runc",
		},
		{
			Key: "y43", Checks: ids("X-START"), Kind: Primary, Pattern: `OCI runtime (?:create|exec) failed: `,
			Cause: "the container runtime could not start the container", Fix: "do what the end of that line says: a folder to mount, a device, a limit or a security profile that this node lacks", Seen: "docker, containerd", Source: "runc",
		},
		{
			Key: "y45", Checks: ids("X-ARGS"), Kind: Primary, Pattern: `Open MPI has detected that a parameter given to a command line|(?:mpirun|mpiexec\S*|prterun|orterun|srun|sbatch|salloc|jsrun|aprun|qsub|bsub|torchrun|deepspeed|accelerate|horovodrun|ray)(?:\[\d+\])?: (?:error: )?(?:unrecogni[sz]ed |invalid option|unknown option|bad option|option requires an argument|option '?\S+'? requires)|match_arg \(.*unrecognized argument`,
			Cause: "the launcher does not accept its own options", Fix: "correct the launcher's command line; its --help lists the options", Seen: "Open MPI, Hydra, Slurm", Source: "help-orterun.txt",
		},
		{
			Key: "y60", Checks: ids("X-START"), Kind: Primary, Pattern: `Error from \S*@(?P<host>[\w.-]+): Failed to execute `,
			Cause: "the program could not be started on a node (HTCondor)", Fix: start, Seen: "HTCondor", Source: "condor_starter",
		},
		{
			Key: "y93", Checks: ids("V05", "X-LIBRARY"), Kind: Primary, Pattern: `\b(?:PRTE|ORTE|PMIx) detected a mismatch in versions`,
			Cause: "mpirun and its daemon on another node are of different releases", Fix: "the node's default path has another Open MPI: ssh NODE mpirun --version shows it; load the same environment there, or mpirun --prefix DIR", Seen: "Open MPI", Source: "help-oob-base.txt",
		},
		{
			Key: "y62", Checks: ids("X-LIBRARY", "V05"), Kind: CatchableClue, Pattern: `\bmismatch in versions\b|\bversions? mismatch(?:ed)?\b|\bincompatible versions? of |\bversions? (?:differ|do not match)\b`,
			Cause: "two processes of the job have different versions of a program or library", Fix: "install the same release on all nodes, and look which one a login without a shell finds there (ssh NODE PROGRAM --version); end a server or cluster of another environment that still runs (ray stop), or do not connect to it", Seen: "PRRTE, others", Source: "its words",
		},
		{
			Key: "y63", Checks: ids("X-PEER-EXITED"), Kind: Absence, Pattern: `srun: StepId=\S+ tasks? (?P<rank>\d+)[-,\d]*: exited(?:\s*$|\s+(?:[^a]|a[^b]))`,
			Cause: "a task ended well, and srun stopped the others because they went on for longer than --wait allows", Fix: "srun --wait=0 lets the others end in their own time; otherwise look why this task had less work", Seen: "Slurm", Source: "srun(1)",
		},
		{
			Key: "r05", Checks: ids("X-START", "X-MPI"), Kind: Clue, Pattern: `mpi/(?:pmi\w*|cray\w*)\b.*(?:invalid|unknown|unsupported|unrecognized|illegal)\b.*\b(?:command|cmd|request|version)\b|\bPMI[12x]?\b.*\b(?:version|protocol)\b.*\b(?:mismatch|not supported|unsupported|incompatible)`,
			Cause: "the program's MPI and srun's --mpi speak different versions of PMI", Fix: "srun --mpi=list shows what Slurm has; use the one for which that MPI was built (pmi2, pmix), or start it with its own mpiexec", Seen: "Slurm", Source: "mpi_pmi2, mpi_pmix",
		},
		{
			Key: "y61", Checks: ids("X-START"), Kind: Primary, Pattern: `OMPI was not built with SLURM's PMI|direct launched using "srun",.*PMI`,
			Cause: "this Open MPI cannot be started by srun, because it has no PMI of Slurm", Fix: "srun --mpi=list shows what Slurm has: use srun --mpi=pmix with an Open MPI that was built with PMIx, or start it with mpirun", Seen: "Open MPI", Source: "help-mpi-runtime.txt",
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
			Key: RowRegistry, Checks: ids("X-START", "X-AUTH"), Kind: Primary, Pattern: `\[ERROR\] URL \S+ returned error code: \d+|failed to resolve reference .*(?:401|403|not found)|pull access denied for |manifest (?:unknown|for \S+ not found)`,
			Cause: "the registry has no such image, or refused the credentials", Fix: "check the image's name and tag, and the credentials of the node (enroot's .credentials, docker login, a pull secret)", Seen: "enroot, docker, containerd", Source: "their sources",
		},
		{
			Key: RowImageRefused, Checks: ids("X-START", "X-AUTH"), Kind: CatchableClue, Explains: ids("X-START"), Pattern: `[Ff]ailed to pull image .*(?:denied|unauthorized|authorization failed|not found|manifest unknown)`,
			Cause: "the registry has no such image, or refused the credentials", Fix: "check the image's name and tag, and the pod's pull secret: kubectl describe pod", Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: RowImage, Quote: "Failed to pull image", Checks: ids("X-START"), Kind: CatchableClue, Pattern: `ErrImagePull|ImagePullBackOff|InvalidImageName|Back-off pulling image|Failed to pull image|(?:in pod "(?P<host>[^"]+)" )?is waiting to start: (?:trying and failing to pull image|image can't be pulled)`,
			Cause: "the node could not pull the container's image", Fix: "check the image's name and the pull secret: kubectl describe pod", Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: "y05", Checks: ids("X-SSH"), Kind: Primary, Pattern: `(?:@(?P<host3>[^\s:]+): )?Permission denied \((?:publickey|password|gssapi|keyboard)|ssh: connect to host (?P<host>\S+) port \d+: |Host key for (?P<host4>\S+) has changed|Host key verification failed|Bad owner or permissions on \S+|host=(?P<host2>\S+) was not reachable via ssh`,
			Cause: "the launcher could not log in to a host over ssh", Fix: ssh, Seen: "OpenSSH, DeepSpeed, mpirun", Source: "ssh(1)",
		},
		{
			Key: "s01", Quote: "are too open", Checks: ids("X-SSH"), Kind: Warning, Explains: ids("X-SSH"), Pattern: `WARNING: UNPROTECTED PRIVATE KEY FILE!|Permissions \d+ for '[^']*' are too open|This private key will be ignored|Load key "[^"]*": bad permissions`,
			Cause: "ssh ignores a private key that others may read", Fix: "chmod 600 that file; in Kubernetes mount the secret with defaultMode 0400", Seen: "OpenSSH", Source: "ssh(1)",
		},
		{
			Key: "y06", Checks: ids("X-SSH"), Kind: Clue, Pattern: `pdsh@\S+: (?P<host>\S+): ssh exited with exit code 255`,
			Cause: "the connection over ssh to a host failed or broke", Fix: ssh, Seen: "pdsh", Source: "pdsh",
		},
		{
			Key: "t10", Checks: ids("X-SSH"), Kind: CatchableClue, Pattern: `^(?:ssh|kex)_exchange_identification: `,
			Cause: "a host closed the connection of ssh before the login: too many logins at once (MaxStartups), a list of refused hosts, or an overloaded host", Fix: "start fewer at a time, or raise MaxStartups in that host's sshd_config, and read its log (journalctl -u sshd); one gorun started on each node needs no ssh", Seen: "OpenSSH", Source: "sshd_config(5)",
		},
		{
			Key: "u05", Checks: ids("X-SSH"), Kind: CatchableClue, Pattern: `^banner exchange: Connection to (?P<host2>\S+) |Error \d+ returned from remote shell \((?P<host>[\w.-]+):\d+\)`,
			Cause: "the launcher could not log in to a host, or start its program there", Fix: ssh, Seen: "OpenSSH, charmrun", Source: "ssh(1), charmrun.C",
		},
		{
			Key: "y31", Checks: ids("X-SSH"), Kind: Clue, Pattern: `unable to run (?:bstrap_)?proxy on (?P<host>[^\s(]+)`,
			Cause: "mpiexec could not start its helper on a host", Fix: ssh, Seen: "Intel MPI, MPICH", Source: "hydra_demux_poll.c",
		},
		{
			Key: "y34", Checks: ids("X-START"), Kind: Primary, Pattern: `HYD_spawn .*execvp error on file \S+|execvp error on file \S+ \(No such file`,
			Cause: "mpiexec could not start the program on a node", Fix: start, Seen: "Intel MPI, MPICH", Source: "hydra_spawn.c",
		},
		{
			Key: "y35", Checks: ids("X-START"), Kind: Vague, Pattern: `An ORTE daemon has unexpectedly failed after launch|was unable to reliably start one or more daemons`,
			Cause: "mpirun could not start its daemon on a node, or the daemon could not connect back", Fix: "ssh to each host must work without a password and find Open MPI there; name the common network: mpirun --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0", Seen: "Open MPI", Source: "help-errmgr-base.txt",
		},
		{
			Key: "y36", Checks: ids("X-START"), Kind: SystemError, Pattern: `Lmod has detected the following error: |ModuleCmd_Load\.c.*ERROR:\d+:Unable to locate a modulefile`,
			Cause: "a module of the environment could not be loaded on this node", Fix: "module spider NAME shows the versions of this cluster; load the same ones on every node", Seen: "Lmod, Environment Modules", Source: "Lmod",
		},
		{
			Key: "y54", Checks: ids("X-START"), Kind: Primary, Pattern: `\bpyxis: {2,}\S.*(?:fail|error|no such|denied|cannot|unable|invalid|not found)`,
			Cause: "a container could not be started on a node, as enroot's log says", Fix: "do what that line says: a program that the image lacks (--no-container-entrypoint), a folder to mount, the image's file, the NVIDIA container toolkit", Seen: "pyxis", Source: "enroot",
		},
		{
			Key: "y38", Checks: ids("X-NODE-LOST"), Kind: Vague, Pattern: `^Connection to (?P<host>\S+) closed by remote host|^client_loop: send disconnect: `,
			Cause: "the connection over ssh to a host broke: the host ended, or the network to it", Fix: "check that host's console, power and network; keep the launcher in tmux or under a scheduler", Seen: "OpenSSH", Source: "ssh(1)",
		},
		{
			Key: "y07", Quote: "Message: ", Checks: ids("X-EVICTED", "L07"), Kind: Root, Pattern: `Evicted\s.*kubelet|Evicted\s+pod/|The node had condition: \[|Reason:\s+Evicted\b|The node was low on resource: |Pod ephemeral local storage usage exceeds|workers are evicted|pod is evicted successfully" pod="(?:[\w-]+/)?(?P<host>[\w.-]+)`,
			Cause: "Kubernetes evicted a pod: its node ran out of disk or memory", Fix: evict, Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: "y08", Checks: ids("X-NODE-LOST"), Kind: Primary, Pattern: `Remote daemon: \[\S+\] on node (?P<host>\S+)|lost communication with its daemon located on node`,
			Cause: "mpirun lost its daemon on a node: the node or the network to it failed", Fix: "check that node's console, kernel log and power, and the scheduler's records of it", Seen: "Open MPI", Source: "help-errmgr-base.txt",
		},
		{
			Key: RowStopSignal, Checks: ids("X-STOPPED"), Kind: Vague, Pattern: `Received (?:\d+|SIG\w+) death signal, shutting down workers`,
			Cause: "a signal from outside stopped the launcher or the program; no worker had failed before, as far as this log shows", Fix: "signal 1 comes from a terminal that closed: use tmux, sbatch or setsid; 15 from a scheduler or a user: look into its records (sacct -j, kubectl get events)", Seen: "torchrun", Source: "torch/distributed/elastic/agent",
		},
		{
			Key: "y32", Checks: ids("X-STOPPED"), Kind: Vague, Pattern: `\*\*\* JOB \d+ ON \S+ CANCELLED AT [-:T\d]+ \*\*\*|TERM_OWNER|job killed: (?:by owner|deleted by)|^mpirun: killing job\.\.\.|Job deleted at request of`,
			Cause: "somebody cancelled the job; no line shows a failure before", Fix: "nothing, if that was intended; otherwise sacct -j shows who cancelled it", Seen: "Slurm, LSF", Source: "slurmstepd",
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
			Key: "y13", Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: CatchableClue, Pattern: `\[missing ranks: ?(?P<rank>\d+)`,
			Cause: "a rank did not submit a tensor for which the others wait", Fix: "find out what that rank did last; every rank must submit the same tensors", Seen: "Horovod", Source: "stall_inspector.cc",
		},
		{
			Key: "y14", Checks: ids("X-TIMEOUT-MISSING-RANK"), Kind: Stall, Pattern: `waiting for remainder of ranks for more than \d+ seconds|other ranks (?:that )?(?:did ?n.t|did not|have ?n.t|have not)`,
			Cause: "some ranks did not come where the others wait for them", Fix: "look at the ranks that are missing, each in its own log: Horovod lists them (missing ranks, Stalled ranks), other programs name those that are ready; every rank must submit the same work", Seen: "Horovod, SGLang", Source: "stall_inspector.cc",
		},
		{
			Key: "y15", Checks: ids("X-HOSTOOM", "L07"), Kind: Retried, Pattern: `Task was killed due to the node running low on memory|Workers \(tasks / actors\) killed due to memory pressure \(OOM\)(?:.*IP: (?P<host2>[^\s,)]+))?|Memory on the node \(IP: (?P<host>[^\s,]+)`,
			Cause: "Ray killed a worker because its node ran out of memory", Fix: "start fewer tasks on that node (num_cpus), give them less to hold, or use nodes with more memory", Seen: "Ray", Source: "node_manager.cc",
		},
		{
			Key: "y16", Checks: ids("I02", "I01"), Kind: Clue, Pattern: `btl_tcp_endpoint\.c.*connect\(\) to (?P<peer>\S+) failed|^\s*Message:\s+connect\(\) to (?P<peer2>\S+) failed`,
			Cause: "MPI cannot reach a peer's address: it chose another network than the nodes share", Fix: "name the common network: mpirun --mca btl_tcp_if_include eth0 (OMPI_MCA_btl_tcp_if_include), which leaves out docker0 and other bridges", Seen: "Open MPI", Source: "btl_tcp_endpoint.c",
		},
	}
}
