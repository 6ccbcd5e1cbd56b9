package catalogue

// everydayRows returns the rows about the ends of jobs that have nothing to do with
// collectives: schedulers, MPI, libraries, kernels, other frameworks.
func everydayRows() []Row {
	const (
		library = "the node or image lacks the library, or has another version of it: ldd FILE shows which; load the same module or environment on every node"
		console = "check that node's console, kernel log (dmesg -T) and storage; take the node out of the job"
		ask     = "ask for what the allocation, or one node of the partition, has: sinfo -o '%n %c %m %G', scontrol show partition, sacctmgr show qos; inside a job SLURM_* variables of an outer one may ask for more: unset them"
	)
	return []Row{
		{
			Key: "v01", Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: `Terminating process because the JAX distributed service detected fatal errors|Polled an error from coordination service|Additional GRPC error information from remote target (?:[^/]*$|.*/PollForError)|Horovod has been shut down|HorovodInternalError`,
			Cause: "another task of the job had failed", Fix: "look for the earliest error of another task", Seen: "JAX, Horovod", Source: "client.h, operations.cc",
		},
		{
			Key: "v02", Checks: ids("X-TIMEOUT-MISSING-RANK", "R02"), Kind: Absence, Pattern: `(?:Jax|Xla)RuntimeError: DEADLINE_EXCEEDED|DEADLINE_EXCEEDED: (?:Barrier timed out|.*RegisterTask)|while calling /\S*CoordinationService/RegisterTask|cluster registration failed`,
			Cause: "not all tasks came to the barrier in time", Fix: "the tasks that are listed did not come: read their logs, and check that they reach the coordinator's address", Seen: "JAX", Source: "coordination_service.cc",
		},
		{
			Key: RowMPI, Quote: "MPI_ERR_", Checks: ids("X-MPI"), Kind: Clue, Pattern: `(?:MPICH ERROR \[Rank (?P<rank2>\d+)\] .*\[(?P<host>[\w.-]+)\] - .*)?(?:\(rank (?P<rank>\d+) in comm \d+\): )?Fatal error in (?:internal_|P?MPI_?)\w+:(?: |$)|\*\*\* MPI_ERR_\w+: |\(rank (?P<rank3>\d+) in comm \d+\): [^a]|\*\*\* An error occurred in MPI_\w+|MPI_INIT failed for some reason`,
			Cause: "a call of MPI failed", Fix: "the end of its error stack, and what the same process printed right before it (libfabric, UCX, PSM, the runtime below MPI), say why; look for an earlier error of another rank, too", Seen: "Open MPI, MPICH", Topical: true, Source: "MPI_Error_string(3)",
		},
		{
			Key: "s02", Checks: ids("X-MPI", "N01"), Kind: Clue, Explains: ids("X-MPI"), Pattern: `selected (?:pml|btl|mtl) \S+, but peer .*\bselected (?:pml|btl|mtl)\b`,
			Cause: "two processes of Open MPI chose different transports", Fix: "name one that works on all nodes: mpirun --mca pml ucx (or ob1 with --mca btl self,vader,tcp); the lines of the processes that chose the other one say why", Seen: "Open MPI", Source: "ompi/mca/pml/base/pml_base_select.c",
		},
		{
			Key: "u09", Checks: ids("X-MPI", "I01", "N05"), Kind: Clue, Pattern: `MPI processes are unable to reach|at least one MPI process is unreachable`,
			Cause: "no transport of Open MPI connects two processes", Fix: "mpirun --mca btl_base_verbose 10 shows which transports each node has; --mca pml ob1 --mca btl self,vader,tcp works on any network", Seen: "Open MPI", Source: "help-mca-bml-r2.txt",
		},
		{
			Key: RowProbe, Checks: ids("X-STOPPED"), Kind: Clue, Pattern: `failed (?:liveness|startup) probe, will be restarted`,
			Cause: "Kubernetes restarted a container because its probe got no answer", Fix: "give the probe more time (failureThreshold, timeoutSeconds), or remove it: a worker that computes may not answer", Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: "v08", Topical: true, Checks: ids("X-START"), Kind: Clue, Pattern: `Error response from daemon: `,
			Cause: "docker could not start the container", Fix: "do what that line says: the image's name, a port that is in use, a folder that does not exist, or the NVIDIA container toolkit (docker run --rm --gpus all IMAGE nvidia-smi tests it)", Seen: "docker", Source: "moby",
		},
		{
			Key: "v06", Checks: ids("G01"), Kind: Root, Pattern: `mce: \[Hardware Error\]: CPU \d+: Machine Check(?: Exception)?: \d+ Bank \d+: [abef]|EDAC MC\d+: .*\bUE\b|SXid \(PCI:\S+\): \d+, Fatal|Kernel panic - not syncing|Uncorrectable .*(?:PCIe|AER)|PCIe Bus Error: severity=Uncorrect`,
			Cause: "the hardware of a node failed", Fix: "take the node out of the job (drain it) and read its kernel log (dmesg -T) and its console", Seen: "kernel", Source: "mce, EDAC, nvidia-nvswitch",
		},
		{
			Key: "v07", Checks: ids("X-DISK"), Kind: Root, Pattern: `I/O error, dev \w+|EXT4-fs error|XFS \([^)]*\): (?:Corruption|log I/O error|Filesystem has been shut)|LustreError: .*(?:evicted by|rc = -(?:5|30)\b)|Remounting filesystem read-only`,
			Cause: "a disk or file system of a node failed", Fix: "check that node's storage (dmesg -T, smartctl, lfs check servers); take the node out of the job", Seen: "kernel", Source: "block layer",
		},
		{
			Key: "v11", Checks: ids("G01"), Kind: Warning, Pattern: `mce: \[Hardware Error\]`,
			Cause: "the kernel logged a hardware error, perhaps one that it corrected", Fix: "read that node's kernel log (ras-mc-ctl --errors, mcelog)", Seen: "kernel", Source: "mce",
		},
		{
			Key: "v12", Checks: ids("X-DISK"), Kind: Warning, Pattern: `LustreError: |Lustre: .*(?:Connection to .* was lost|request .* timed out)`,
			Cause: "the Lustre client of a node had an error, perhaps one that it overcame", Fix: "lfs check servers on that node; look for `evicted` and `Connection restored` in its kernel log", Seen: "Lustre", Source: "kernel",
		},
		{
			Key: "w01", Checks: ids("X-LIBRARY", "V05"), Kind: Primary, Pattern: `error while loading shared libraries: `,
			Cause: "the program could not load a library", Fix: library, Seen: "ld.so", Source: "ld.so(8)",
		},
		{
			Key: "w02", Checks: ids("X-LIBRARY", "V05"), Kind: CatchableClue, Pattern: "version `(?:GLIBC|GLIBCXX|CXXABI|CUDA|NCCL)\\S* not found|: undefined symbol: ",
			Cause: "a library is of another version than the program was built for", Fix: library, Seen: "ld.so", Source: "ld.so(8)",
		},
		{
			Key: "w03", Checks: ids("X-CUDAOOM"), Kind: Catchable, Pattern: `(?:RESOURCE_EXHAUSTED|Resource exhausted): .*(?:[Oo]ut of memory|[Aa]llocat|Attempting to reserve)|OOM when allocating tensor(?:.* on /job:worker/replica:\d+/task:(?P<rank>\d{1,6})/)?|HIP out of memory`,
			Cause: "the worker ran out of GPU memory", Fix: gpuMemory, Seen: "JAX, TensorFlow, ROCm", Source: "bfc_allocator.cc",
		},
		{
			Key: "y70", Checks: ids("X-MODULE"), Kind: Catchable, Pattern: `Can't locate \S+ in @INC|cannot load such file -- |Cannot find module '|there is no package called|\bPackage \S+ not found in current path|java\.lang\.(?:ClassNotFoundException|NoClassDefFoundError): |Could not find or load main class|Could not load file or assembly`,
			Cause: "a program does not find a module of its language on this node", Fix: "install the module into the environment that the job uses on every node, or set the language's path to it (PERL5LIB, R_LIBS, NODE_PATH, JULIA_PROJECT, CLASSPATH)", Seen: "Perl, Ruby, Node.js, R, Julia, Java, .NET", Source: "their runtimes",
		},
		{
			Key: "w04", Checks: ids("X-FORK"), Kind: Primary, Pattern: `Cannot re-initialize CUDA in forked subprocess`,
			Cause: "the program used CUDA and then forked", Fix: "no CUDA call may come before the fork: multiprocessing_context='spawn' for the dataloader; in a notebook restart the kernel and call nothing of CUDA before the launcher; otherwise start the processes with spawn", Seen: "torch", Source: "torch/cuda/__init__.py",
		},
		{
			Key: "w05", Checks: ids("X-DDP-UNUSED", "R03"), Kind: Primary, Pattern: `Expected to have finished reduction in the prior iteration`,
			Cause: "a rank's step did not use all parameters of the model", Fix: "use DistributedDataParallel(..., find_unused_parameters=True), and where all ranks miss the same parameters, remove or freeze those layers; otherwise let every rank run the same branches", Seen: "torch", Source: "reducer.cpp",
		},
		{
			Key: "w06", Checks: ids("X-SEGV"), Kind: Primary, Pattern: `free\(\): (?:invalid|double free)|malloc\(\): (?:corrupted|invalid|unaligned|memory corruption)|corrupted (?:size vs\. prev_size|double-linked list)|munmap_chunk\(\): invalid pointer|\*\*\* stack smashing detected`,
			Cause: "the worker's heap or stack was damaged by native code", Fix: "the usual reason is a library that was built with another compiler or for another version (of torch: its extensions): install all from one source; a stack in the lines below, valgrind or AddressSanitizer names the library", Seen: "glibc", Source: "malloc(3)",
		},
		{
			Key: "w07", Checks: ids("X-HOSTOOM", "L07"), Kind: Clue, Pattern: `line \d+: +\d+ Killed `,
			Cause: "the shell saw a process killed by SIGKILL: most often the OOM killer", Fix: "check dmesg -T | grep -i oom on that node and the memory limit of its container or job", Seen: "bash", Source: "bash",
		},
		{
			Key: "w29", Checks: ids("X-HOSTOOM", "L07"), Kind: Vague, Pattern: `^Killed$`,
			Cause: "the shell saw a process killed by SIGKILL: most often the OOM killer", Fix: "check dmesg -T | grep -i oom on that node and the memory limit of its container or job", Seen: "shells", Source: "bash",
		},
		{
			Key: "w08", Checks: ids("X-ABORTED"), Kind: Vague, Pattern: `MPI_ABORT was invoked on rank (?P<rank>\d+)|(?:\[(?P<host>[\w.-]+)\] - Abort\(.*)?application called MPI_Abort\(.*process (?P<rank2>\d+)`,
			Cause: "a rank ended the job itself (MPI_Abort)", Fix: "read what that rank printed before", Seen: "Open MPI, MPICH", Source: "MPI_Abort(3)",
		},
		{
			Key: "w09", Checks: ids("X-RESOURCES"), Kind: Primary, Pattern: `There are not enough slots available in the system|All nodes which are allocated for this job are already filled`,
			Cause: "mpirun was asked for more processes than its hosts have slots", Fix: "inside Slurm ask for a task for each process (--ntasks=N), since mpirun counts tasks as slots; otherwise give slots=N in the hostfile or -H host:N, or mpirun --oversubscribe", Seen: "Open MPI", Source: "help-orte-rmaps-base.txt",
		},
		{
			Key: "u10", Checks: ids("X-START"), Kind: Clue, Pattern: `^failed +[1-9]\d* *: \w`,
			Cause: "Grid Engine could not start or end the job on that host", Fix: "do what the reason says: the folder of -cwd, the output's folder, the shell and the user must exist on that host; qmod -cj JOB clears the error", Seen: "Grid Engine", Source: "qacct(1)",
		},
		{
			Key: "u08", Checks: ids("X-CONNECT"), Kind: Clue, Pattern: `Unable to (?:allocate resources|confirm allocation for job|create step for job|contact slurm controller|submit batch job)\b.*(?:Unable to contact slurm controller|: Resource temporarily unavailable|Socket timed out|Connection (?:refused|timed out)|Zero Bytes were)|Batch job submission failed: (?:Unable to contact|Socket timed out|Resource temporarily|Connection (?:refused|timed out)|Zero Bytes)|Unable to establish control machine address`,
			Cause: "Slurm's controller could not be reached", Fix: "scontrol ping on that node shows it; the node needs the name and the port of slurmctld, and munge's key", Seen: "Slurm", Source: "salloc, srun, slurmd",
		},
		{
			Key: "w10", Checks: ids("X-RESOURCES"), Kind: Primary, Pattern: `Unable to allocate resources: |Unable to create step for job \d+: |Batch job submission failed: |Job submit/allocate failed: |Requested node configuration is not available|More processors requested than permitted`,
			Cause: "Slurm cannot give the job or step what it asks for", Fix: ask, Seen: "Slurm", Source: "salloc, srun",
		},
		{
			Key: "y99", Checks: ids("X-RESOURCES"), Kind: CatchableClue, Pattern: `No available node types can fulfill resource request \{.*'node:|(?:node|placement).{0,80}'node:(?:\d+\.){3}\d+'.{0,80}(?:not found|does not exist|infeasible)`,
			Cause: "no node of the Ray cluster has the address that the program asks for", Fix: "give the program and Ray the same address of this node: VLLM_HOST_IP (or the program's own setting) must be the --node-ip-address of ray start, which ray status and ray list nodes show", Seen: "Ray, vLLM", Source: "ray autoscaler",
		},
		{
			Key: RowScheduling, Checks: ids("X-RESOURCES"), Kind: CatchableClue, Pattern: `tasks in gang unschedulable|exceeded quota: |Node didn't have enough resource: |FailedScheduling .*(?:Insufficient|didn't match|untolerated taint)|requested number of devices unavailable|\d+ Insufficient (?:nvidia\.com/gpu|cpu|memory)|No available node types can fulfill resource request|cannot be scheduled right now|have taken more than \d+s to be scheduled|node has no GPU available|does not allocate any GPUs`,
			Cause: "the cluster has no free node with what the job asks for", Fix: "ask for less, or wait until nodes are free: kubectl describe pod, ray status; a node that offers no GPU at all (kubectl describe node: nvidia.com/gpu) lacks NVIDIA's device plugin, or its driver does not work", Seen: "Kubernetes, Ray", Source: "kube-scheduler, ray",
		},
		{
			Key: "w21", Checks: ids("X-RESOURCES"), Kind: Vague, Pattern: `Waiting for creating a placement group|number of required GPUs exceeds the total number`,
			Cause: "Ray has fewer free GPUs than the program asks for", Fix: "ray status shows how many GPUs the cluster has and how many are used: start Ray on the nodes that are missing (ray start --address=HEAD:6379), or stop what holds the GPUs", Seen: "vLLM in Ray", Source: "ray_utils.py",
		},
		{
			Key: "w12", Checks: ids("X-TIMELIMIT"), Kind: Stop, Pattern: `(?:^|[^=] |[^ ="])DeadlineExceeded(?:$|[^ ]| [^d])|was active (?:on the node )?longer than (?:the )?specified deadline`,
			Cause: "the job's deadline was reached (Kubernetes)", Fix: "if the last lines are much older than the deadline, the job hung: look there; otherwise use a longer activeDeadlineSeconds", Seen: "Kubernetes", Source: "job controller",
		},
		{
			Key: "w13", Checks: ids("X-PREEMPTED"), Kind: Stop, Pattern: `Preempted by (?:pod|a pod)|TaintManagerEviction|reason: PreemptionByScheduler|due to preemption|\b(?:nodes?|jobs?|instances?|VMs?|machines?|workers?)\b.{0,30}\b(?:was|were|got|has been|have been|being) pre-?empted|\bpre-?emption (?:warning|notice|signal)|\bspot (?:instance )?(?:interruption|reclaim)`,
			Cause: "the job had to make room for another one", Fix: "the program is in order: continue from the last checkpoint, or use a higher priority", Seen: "Kubernetes, cloud", Source: "kube-scheduler",
		},
		{
			Key: "w14", Checks: ids("X-NODE-LOST"), Kind: Stop, Pattern: `NodeNotReady\s+node/(?P<host>\S+)|NodeNotReady|node is shutting down|Node (?P<host2>\S+) status is now: NodeNotReady|The node with node id: \w+ (?:and )?(?:ip|address): (?P<host3>[\d.]+) .*has been marked dead|The node with node id: \w+ .*has been marked dead|raylet .*has missed too many heartbeats`,
			Cause: "a node stopped or no longer answered", Fix: console, Seen: "Kubernetes, Ray", Source: "node controller",
		},
		{
			Key: "w15", Checks: ids("X-NODE-HUNG"), Kind: Clue, Pattern: `INFO: task \S+ blocked for more than \d+ seconds|watchdog: BUG: soft lockup|nfs: server \S+ not responding|rcu_sched self-detected stall`,
			Cause: "processes of a node hang in the kernel: storage, network file system or driver", Fix: console, Seen: "kernel", Source: "kernel",
		},
		{
			Key: "w16", Checks: ids("G04"), Kind: Warning, Explains: ids("N04"), Pattern: `mlx5_core \S+ \S+: (?:Link down|Port: \d+ Link DOWN)|(?:NIC|link) Link is Down|Link is down$`,
			Cause: "a network link of a node went down", Fix: "check the cable, the port's counters and the switch; take the node out of the job", Seen: "kernel", Source: "mlx5_core",
		},
		{
			Key: "u11", Checks: ids("N05"), Kind: Clue, Pattern: `(?:mlx[45]_core|hfi1|bnxt_en|irdma|efa|i40e)\b[^,]{0,30}: (?:probe of \S+ failed|probe with driver \S+ failed|mlx\d_load_one failed)`,
			Cause: "the kernel could not start a network adapter of the node", Fix: "dmesg shows the driver's first error; the driver, the kernel and the adapter's firmware must fit; take the node out of the job", Seen: "kernel", Source: "mlx5_core main.c",
		},
		{
			Key: "u12", Checks: ids("X-CONNECT"), Kind: Clue, Pattern: `efa_rdm_\w+_handle_\w*error\(\):\d+<warn> err: \d+, message: (?:.{0,200}Peer host id: (?P<peer>i-\w+))?`,
			Cause: "a message over EFA failed: its peer had ended or did not answer", Fix: "first look for an earlier error of the peer; then check that the security group allows all traffic within itself, and the adapters' counters (rdma statistic)", Seen: "libfabric", Source: "prov/efa",
		},
		{
			Key: "u13", Checks: ids("N05"), Kind: Clue, Pattern: `WARN: Function: \w+ Line: \d+: NET/OFI `,
			Cause: "NCCL's plugin for EFA could not use the adapter", Fix: "fi_info -p efa on that node must show it; update the EFA installer, libfabric and aws-ofi-nccl together, and give containers /dev/infiniband and unlimited locked memory", Seen: "aws-ofi-nccl", Source: "nccl_ofi_net.c",
		},
		{
			Key: "u14", Checks: ids("X-MPI"), Kind: Clue, Pattern: `^(?:\[[^\]]*\] )?Read -1, expected \d+, errno = \d+`,
			Cause: "a process could not read the memory of another one of its node, as MPI does for large messages", Fix: "sysctl kernel.yama.ptrace_scope=0 on that node, or in a container --cap-add SYS_PTRACE; without it OMPI_MCA_btl_vader_single_copy_mechanism=none (btl_sm_ in Open MPI 5); memory of a GPU needs an Open MPI that knows it", Seen: "Open MPI", Source: "btl_sm_get.c",
		},
		{
			Key: "u15", Checks: ids("X-HOSTOOM", "L07"), Kind: Warning, Pattern: `Exceeded (?:job|step) memory limit at some point`,
			Cause: "Slurm saw the memory of the job or step at its limit: pages of files count, too", Fix: "where the job was killed, ask for more memory (--mem) or use less", Seen: "Slurm", Source: "task/cgroup",
		},
		{
			Key: "t15", Checks: ids("X-NODE-LOST"), Kind: CatchableClue, Explains: ids("X-NODE-LOST"), Pattern: `mistakenly (?:been )?marked as dead|marked as dead by the GCS`,
			Cause: "Ray took a node for dead that still ran, because it did not answer in time: it is overloaded, or the network to it is", Fix: "look at the load and the memory of that node and at the network between it and the head; RAY_health_check_failure_threshold and RAY_health_check_timeout_ms make Ray wait longer", Seen: "Ray", Source: "raylet",
		},
		{
			Key: "t11", Checks: ids("X-CONNECT"), Kind: Catchable, Pattern: `GCS at(?: address)? :\d{2,5}\b|--address=:\d{2,5}\b.{0,80}(?:error|fail|could not|cannot)`,
			Cause: "the address of Ray's head has no host", Fix: "the variable that holds it is empty in this shell: set it before ray start (echo it there), or write the address", Seen: "Ray", Source: "ray start",
		},
		{
			Key: "w27", Checks: ids("X-CONNECT"), Kind: Catchable, Pattern: `(?:Unable to connect to GCS at|Failed to connect to GCS at address) (?P<peer>[\w.:-]*\w)`,
			Cause: "the head node of Ray cannot be reached from this node", Fix: "check that `ray start --head` runs there, with the same version of Ray and Python, and that this node reaches its port (nc -vz HOST 6379)", Seen: "Ray", Source: "gcs_utils.py",
		},
		{
			Key: RowActorNode, Checks: ids("X-NODE-LOST"), Kind: Clue, Pattern: `The actor (?:died|is dead) because its node has died|actor's node was terminated`,
			Cause: "the node of a worker of Ray failed or no longer answered", Fix: console, Seen: "Ray", Source: "gcs_actor_manager.cc",
		},
		{
			Key: RowOwnerDied, Checks: ids("X-NODE-LOST"), Kind: Ending, Pattern: `\bits owner has died\b.*\bOwner Ip address: (?P<host>[\d.]+)`,
			Cause: "the process of Ray that started the worker had ended, or its node", Fix: "look at the owner's node, not at the worker's: dmesg there, and the owner's own log in /tmp/ray/session_latest/logs", Seen: "Ray", Source: "core_worker, gcs_actor_manager.cc",
		},
		{
			Key: "y75", Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: `Worker exit detail: Owner's (?:node|worker|process) has |killed due to owner death`,
			Cause: "Ray ended a worker because the process that started it had ended", Fix: "look at that process and its node", Seen: "Ray", Source: "node_manager.cc",
		},
		{
			Key: RowActorDied, Checks: ids("X-ACTOR-DIED"), Kind: Ending, Pattern: `The actor (?:is dead because|died) .*(?:worker process has died|unexpectedly)|A worker died or was killed while executing a task(?:.*Worker IP address: (?P<host>[\d.]+))?(?:.*Worker PID: (?P<pid>\d+))?`,
			Cause: "a worker of Ray ended, and no line shows why", Fix: "read the worker's own files on its node (/tmp/ray/session_latest/logs), and dmesg there for the OOM killer", Seen: "Ray", Source: "ray core worker",
		},
		{
			Key: "t04", Checks: ids("X-FILE", "X-START"), Kind: Clue, Pattern: `(?:can't open file|cannot open|No such file or directory:?) ['"]?/var/spool/slurm\w*/\S*job\d+/|/var/spool/slurm\w*/\S*job\d+/(?:[^s:\s]\S*|s[^l:\s]\S*)['"]?: (?:\[Errno 2\] )?No such file`,
			Cause: "the batch script looks for a file beside itself, but Slurm runs a copy of the script from its spool folder", Fix: "name the file in full, or by $SLURM_SUBMIT_DIR, in the script; the node is in order", Seen: "Slurm", Source: "sbatch(1)",
		},
		{
			Key: "t07", Checks: ids("X-SSH"), Kind: Clue, Pattern: `Authentication refused: bad ownership or modes for`, Explains: ids("X-SSH"),
			Cause: "a node's sshd refuses the user's key, because others may write its folder", Fix: "on that node: chmod 700 ~/.ssh, chmod 600 ~/.ssh/authorized_keys, chmod go-w ~, and chown them to the user (or StrictModes no in sshd_config)", Seen: "OpenSSH", Source: "sshd's log",
		},
		{
			Key: RowMountRefused, Quote: "mount.", Checks: ids("X-DISK"), Kind: Clue, Pattern: `mount\.\w+: (?:mounting \S+ failed, reason given by server: |access denied by server)`,
			Cause: "the file server refused to mount a folder on a node", Fix: "its export must exist and allow the address of this node: on the server correct /etc/exports (exportfs -ra; showmount -e SERVER shows what it exports), or the name of the folder", Seen: "Linux", Source: "mount.nfs(8)", Explains: ids("X-DISK"),
		},
		{
			Key: RowMount, Quote: "mount.", Checks: ids("X-DISK"), Kind: Clue, Pattern: `FailedMount |FailedAttachVolume|MountVolume\.SetUp failed|mount\.(?:nfs4?|lustre|cifs|ceph|glusterfs|beegfs|fuse|gpfs): `,
			Cause: "a volume could not be mounted on a node", Fix: "kubectl describe pod, or mount on that node, names the reason; check that the node reaches its server, and that the folder there and the mount point exist", Seen: "Kubernetes, Linux", Source: "kubelet",
		},
		{
			Key: "w19", Checks: ids("X-AUTH"), Kind: CatchableClue, Pattern: `401 Client Error: |403 Client Error: |GatedRepoError|Access to model \S+ is restricted|NoCredentialsError|Unable to locate credentials`,
			Cause: "a server refused the program's credentials", Fix: "log in on that node or pass the token (HF_TOKEN, AWS_*): gorun -x NAME gives a variable to all nodes", Seen: "Hugging Face, AWS", Source: "huggingface_hub, botocore",
		},
		{
			Key: "u01", Checks: ids("X-AUTH"), Kind: CatchableClue, Pattern: `licen[cs]e (?:check-?out|manager) (?:failed|error)|licensing error|FlexN?et Licensing error|(?:could not|cannot|can't|unable to|failed to) (?:obtain|check ?out|acquire|get|find|validate)\b.{0,20}\blicen[cs]e|no (?:valid |available |more )?licen[cs]es? (?:was |were |is |are )?(?:found|available|left)|licen[cs]e\b.{0,30}\b(?:has expired|is not available|not available now|denied)|Licensed number of users already reached`,
			Cause: "the program got no licence", Fix: "the licence server must be reached from that node (its host and port are in LM_LICENSE_FILE or the licence path) and have free seats (lmstat -a)", Seen: "FlexNet and others", Source: "lmgrd",
		},
		{
			Key: "u03", Checks: ids("X-HOSTOOM"), Kind: Catchable, Pattern: `(?:\(TID \d+(?:, |\) \()(?P<host>[\w.-]+).*)?java\.lang\.OutOfMemoryError`,
			Cause: "the heap of a JVM is used up", Fix: "give it more (-Xmx; spark.executor.memory, spark.driver.memory), or less at a time: more partitions, smaller batches", Seen: "Java, Spark", Source: "java.lang",
		},
		{
			Key: "u04", Topical: true, Checks: ids("X-PYEXC"), Kind: Clue, Pattern: `Job aborted due to stage failure: .*most recent failure: Lost task \S+ in stage \S+ \(TID \d+(?:, |\) \()(?P<host>[\w.-]+)`,
			Cause: "a task of Spark failed too often", Fix: "the end of that line and the lines below have the task's exception; the executor's stderr has what led to it", Seen: "Spark", Source: "DAGScheduler",
		},
		{
			Key: "w20", Checks: ids("X-STALL"), Kind: Vague, Pattern: `Heartbeat monitor timed out|watchdog got stuck|No progress (?:for|in) \d+|has been running for more than \d+ seconds without|Timeout waiting for all ranks|Stall(?:ed)? (?:detected|ops)|Watchdog triggered because|\b(?:step|progress|iteration)\b has(?: not|n.t) (?:incremented|advanced|changed|progressed|moved)|\bwatchdog (?:timeout|timed out)(?: \(|[.!]?$| after)|\b(?:hang|deadlock) detected(?:[.!,;]|$| (?:in|on|at|after)\b|: [^n0])`,
			Cause: "the program made no progress for too long, and no line shows why", Fix: "gorun stacks shows where each rank waits; look for the rank that waits elsewhere", Seen: "torch, frameworks", Source: "frameworks",
		},
		{
			Key: "w22", Checks: ids("X-SSH"), Kind: Clue, Pattern: `failed to run .* on (?P<host>\S+), is localhost: False, exception: `,
			Cause: "the launcher could not log in to a host over ssh", Fix: "make ssh HOST work without a password from the launching host (ssh-copy-id), or give the port and the key", Seen: "ColossalAI", Source: "colossalai/cli/launcher/hostinfo.py",
		},
		{
			Key: "w23", Checks: ids("X-CRASHLOOP"), Kind: Ending, Pattern: `(?P<host>\S+)\s+\d+/\d+\s+(?:Init:)?CrashLoopBackOff|Back-off restarting failed container (?:.*in pod (?P<host2>[a-z0-9.-]+))?`,
			Cause: "a container of a pod ends again and again, and this log does not say why", Fix: "kubectl logs --previous POD shows its last words, kubectl describe pod POD its exit code", Seen: "Kubernetes", Source: "kubelet",
		},
		{
			Key: "w28", Checks: ids("X-CRASHLOOP"), Kind: Ending, Pattern: `Error pod (?P<host>\S+) container \S+ exitCode: [1-9]|\bPod: (?:[a-z0-9-]+\.)?(?P<host2>[a-z0-9-]+) exited with code [1-9]|The replica (?P<host3>[\w-]+) exited with a non-zero status`,
			Cause: "a pod's container ended with an exit code, and this log does not say why", Fix: "kubectl logs POD (with --previous after a restart) shows its last words", Seen: "Kubeflow, Vertex AI", Source: "training-operator",
		},
		{
			Key: "w24", Checks: ids("X-NCCL"), Kind: Vague, Pattern: `(?P<host>[\w.-]+): Test (?:NCCL|CUDA) failure \S+:\d+ '`,
			Cause: "a call of NCCL or CUDA failed in nccl-tests", Fix: "run again with NCCL_DEBUG=WARN: the line above this one then has the reason", Seen: "nccl-tests", Source: "nccl-tests/src/common.h",
		},
	}
}
