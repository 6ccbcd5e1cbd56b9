package catalogue

// systemRows returns the rows about the limits of the system and its memory.
func systemRows() []Row {
	const (
		shm     = "use docker run --shm-size=8g or --ipc=host; in Kubernetes mount an emptyDir of medium Memory at /dev/shm"
		nofile  = "set ulimit -n 131072: LimitNOFILE= for the service, --ulimit nofile= for the container"
		threads = "compare ulimit -u on that node with the user's threads there (ps -L -u USER | wc -l); containers have --pids-limit, services TasksMax and LimitNPROC; fewer threads help too (OMP_NUM_THREADS, dataloader workers)"
		host    = "use less at a time (fewer workers or processes, smaller batches or shards), or ask for more (container memory, Slurm --mem, LSF -M)"
	)
	return []Row{
		{
			Key: "59", Checks: ids("L01"), Kind: Primary, Pattern: `failed to extend \S+ to \d+ bytes`,
			Cause: "/dev/shm is full", Fix: shm, Seen: "2.12+", Source: "nccl#290, #342, #525; src/os/linux.cc:795",
		},
		{
			Key: "60", Checks: ids("L01"), Kind: Primary, Pattern: `posix_fallocate failed\s*:\s*No space left on device`,
			Cause: "/dev/shm is full", Fix: shm, Seen: "up to 2.11", Source: "nccl#290",
		},
		{
			Key: "x20", Checks: ids("L01", "X-DATALOADER"), Kind: Primary, Pattern: `DataLoader worker.* killed by signal: Bus error|Unexpected bus error encountered in worker`,
			Cause: "/dev/shm is too small for the dataloader", Fix: shm, Seen: "torch", Source: "DataLoader.cpp",
		},
		{
			Key: "y29", Checks: ids("L01", "L02"), Kind: Primary, Pattern: `unable to (?:open shared memory object|(?:mmap|allocate) \d+ bytes from file|\w+ (?:to )?file|allocate shared memory\S*(?: for file)?) <?/?torch_|/dev/shm\b.{0,120}No space left on device|No space left on device.{0,40}/dev/shm\b`,
			Cause: "/dev/shm is full, or the worker may open no more files", Fix: shm + "; or " + nofile, Seen: "torch", Source: "THAllocator.c",
		},
		{
			Key: "62", Checks: ids("L11"), Kind: Warning, Pattern: `unlink shared memory \S+ failed,? ?(?:error:)? ?.*No such file or directory`,
			Cause: "files in /dev/shm were deleted while they were in use: systemd's RemoveIPC, a cleaner, or an abort", Fix: "set RemoveIPC=no in /etc/systemd/logind.conf, and use no cleaner for /dev/shm", Seen: "2.16.2+", Source: "src/os/linux.cc:861",
		},
		{
			Key: "61", Checks: ids("L01", "H01"), Kind: Primary, Pattern: `Error while (?:creating|attaching to) shared memory segment`,
			Cause: "/dev/shm is full, or containers that do not share it have the same hostname", Fix: shm + "; give each container its own hostname", Seen: "2.4.2+", Source: "src/os/linux.cc:842",
		},
		{
			Key: "63", Checks: ids("L02"), Kind: Catchable, Pattern: `Too many open files`,
			Cause: "the limit of open files was reached", Fix: nofile, Seen: "OS", Source: "nccl#1917",
		},
		{
			Key: "64", Checks: ids("L04"), Kind: Primary, Pattern: `Thread creation failed`,
			Cause: "the worker could not start a thread: the limit of processes was reached", Fix: threads, Seen: "2.29.2+", Source: "src/include/checks.h",
		},
		{
			Key: "65", Checks: ids("L04"), Kind: Primary, Pattern: `(?:pthread_create|ThreadPoolBuildError|failed to spawn thread).*Resource temporarily unavailable|\bfork: Resource temporarily unavailable|TERM_THREADLIMIT|TERM_PROCESSLIMIT|can't start new thread|unable to create (?:new )?native thread|OpenBLAS blas_thread_init: pthread_create failed|failed to create new OS thread|pthread_create failed \(EAGAIN\)|Failed to start the native thread`,
			Cause: "the worker could not start a thread: the limit of processes was reached", Fix: threads, Seen: "OS", Source: "pthread_create(3)",
		},
		{
			Key: "x23", Checks: ids("X-SEGV", "L01"), Kind: Primary, Pattern: `Caught signal (?:number )?7 (?:\(Bus error|BUS)|Signal: Bus error|Fatal Python error: Bus error|SIGBUS|^Bus error(?: \(|$)|srun: error: (?P<host>[^\s:]+): tasks? (?P<rank>\d+)\b.*: Bus error`,
			Cause: "the worker was killed by a bus error, most often because /dev/shm is full", Fix: shm, Seen: "OS", Source: "section 6.5",
		},
		{
			Key: RowIllegal, Checks: ids("X-SEGV"), Kind: Primary, Pattern: `\bSIGILL\b|Illegal instruction`,
			Cause: "the program uses instructions that the processor of this node does not have", Fix: "compare lscpu of the nodes; build for the oldest processor of the job (no -march=native) or install such a build, or use nodes of one kind", Seen: "OS", Source: "signal(7)",
		},
		{
			Key: "x24", Checks: ids("X-SEGV"), Kind: Primary, Pattern: `Segfault encountered|\*\*\* SIGSEGV \(@0x[\da-f]+\)|(?:caught|got|received|raised|killed by|terminated by) (?:a |the )?(?:fatal )?signal:? (?:\d+ )?\(?SIGSEGV|Caught signal (?:number )?11 (?:\(Segmentation fault|SEGV)|Signal: Segmentation fault|Fatal Python error: Segmentation fault|\*\*\* SIGSEGV received|signal SIGSEGV: segmentation violation|SIG(?:SEGV|BUS|ILL|FPE) \(0x[0-9a-f]+\) at pc=|\bSegmentation fault\b|\bFloating point exception(?: \(|$)|segfault at [0-9a-f]+ ip|(?:was killed by|failed with) SIGSEGV|double free or corruption|AddressSanitizer: `,
			Cause: "the worker crashed in native code", Fix: "read the stack: gdb with a core file (ulimit -c unlimited), or python -X faulthandler; frequent reasons are builds of a library and its extensions that do not fit, memory of a GPU given to an MPI that does not know it, and a small stack (ulimit -s)", Seen: "OS", Source: "section 6.5",
		},
		{
			Key: "x25", Checks: ids("X-HOSTOOM", "L07"), Kind: Primary, Pattern: `DefaultCPUAllocator: (?:can't allocate|not enough) memory|\bMemoryError\b|std::bad_alloc|(?:OSError|RuntimeError)\b.*Cannot allocate memory|fork: Cannot allocate memory`,
			Cause: "the node had no memory left for the worker", Fix: host, Seen: "torch, Python", Source: "malloc(3)",
		},
		{
			Key: "96", Quote: "ut of memory: Kill", Checks: ids("X-HOSTOOM", "L07"), Kind: Root, Pattern: `oom-kill:(?:.*,pid=(?P<pid>\d+))?|(?:Memory cgroup )?out of memory: Kill(?:ed)? process (?P<pid2>\d+)|invoked oom-killer|Memory cgroup out of memory`,
			Cause: "the kernel killed a process because memory was used up", Fix: host, Seen: "kernel", Source: "section 5",
		},
		{
			Key: "x26", Quote: ": Out Of Memory", Checks: ids("X-HOSTOOM", "L07"), Kind: Root, Pattern: `OOMKilled\s+pod/(?P<host>\S+)|The replica (?P<host2>[\w-]+) ran out-of-memory|Lost executor \d+ on (?P<host3>[^\s:]+): Container killed by YARN for exceeding|(?:Error from \S*@(?P<host4>[\w.-]+): )?Job has gone over memory limit|exceeded job hard limit "(?:h_vmem|h_rss|s_vmem)"|put on hold .{0,60}due to memory usage|Container killed by YARN for exceeding|Exit Message: "OOM Killed"|\bOOMKilled\b|srun: error: .*: Out Of Memory|oom[-_]kill event|Exceeded (?:job|step) memory limit(?:$|[^ ]| [^a])|[Jj]ob \d+ exceeded memory limit|TERM_MEMLIMIT|job killed: (?:mem|vmem|pmem)\b|DataLoader worker.* killed by signal: Killed`,
			Cause: "a process was killed because the memory of its container or job was used up", Fix: host, Seen: "Slurm, Kubernetes", Source: "section 5",
		},
		{
			Key: "u02", Checks: ids("X-HOSTOOM", "L07"), Kind: Catchable, Pattern: `Worker .{0,80}exceeded \d+% memory budget`,
			Cause: "Dask restarted a worker because it used more memory than its limit", Fix: "start fewer threads and workers on that node, raise --memory-limit, or use smaller partitions", Seen: "Dask", Source: "nanny.py",
		},
		{
			Key: "x27", Checks: ids("X-DATALOADER"), Kind: Catchable, Pattern: `Caught \w+ in DataLoader worker process`,
			Cause: "the dataset raised an exception in a worker of the dataloader", Fix: "read the original traceback below that line; num_workers=0 shows it directly", Seen: "torch", Source: "torch/_utils.py", Topical: true,
		},
		{
			Key: "x2a", Checks: ids("X-ABORTED"), Kind: Consequence, Pattern: `DataLoader worker \(pid.*killed by signal: (?:Terminated|Interrupt|Hangup)`,
			Cause: "a worker of the dataloader was stopped from outside", Fix: "look for what stopped the job: its scheduler, a launcher, a user", Seen: "torch", Source: "dataloader.py",
		},
		{
			Key: "x28", Checks: ids("X-DATALOADER"), Kind: Catchable, Pattern: `DataLoader worker \(pid.*(?:killed by signal|exited unexpectedly)|DataLoader timed out after`,
			Cause: "a worker of the dataloader ended or hung", Fix: "run with num_workers=0 to see the error; look for the OOM killer in dmesg, and check the storage", Seen: "torch", Source: "dataloader.py",
		},
		{
			Key: "r01", Checks: ids("X-START", "X-LIMIT"), Kind: Catchable, Pattern: `\b(?:creat\w+|enter|join|new|clone|unshare|set ?up) (?:\w+ ){0,3}name ?spaces?\b[^/]{0,60}No space left on device|\b(?:unshare|clone|setns)\b[^/]{0,30}: No space left on device|fork/exec \S+: No space left on device|Failed to create user namespace: (?:user namespace disabled|Operation not permitted|No space left)`,
			Cause: "the node's limit of namespaces is used up or 0, so that no container starts; no disk is full", Fix: "on that node: sysctl user.max_user_namespaces (and user.max_mnt_namespaces and the others) must be above 0 and above the number in use, and the kernel must allow users to make them; set it in /etc/sysctl.d, or use an installation with setuid", Seen: "enroot, Apptainer, Podman", Source: "namespaces(7)",
		},
		{
			Key: "r02", Checks: ids("X-LIMIT"), Kind: Catchable, Pattern: `\b(?:inotify\w*|fsnotify|(?:shm|sem|msg)get|semaphores?)\b.{0,120}No space left on device|System limit for number of file watchers reached|inotify (?:watch(?:es)?|instances?) limit (?:was |is |has been )?reached`,
			Cause: "a limit of the kernel is reached: watches of files, or segments and semaphores of System V; no disk is full", Fix: "on that node: sysctl fs.inotify.max_user_watches=1048576 fs.inotify.max_user_instances=8192; ipcs -l shows the limits of System V, ipcrm removes what old processes left", Seen: "OS", Source: "inotify(7), shmget(2), semget(2)",
		},
		{
			Key: "r06", Checks: ids("X-DISK"), Kind: Catchable, Pattern: `\[Errno 5\] Input/output error|Stale file handle|(?:cannot|open|access|stat|read|write)\b.*: [Cc]annot send after transport endpoint shutdown`,
			Cause: "a disk or a file server failed, or a file was removed on the server while it was in use", Fix: "read dmesg -T of that node, and look at the server of that file system; mount it anew on the node, and start again", Seen: "OS", Source: "errno(3)",
		},
		{
			Key: "x29", Quote: "No space left on device", Checks: ids("X-DISK"), Kind: Catchable, Pattern: `No space left on device|Disk quota exceeded|^File size limit exceeded|[Rr]ead-only file system|unexpected pos \d+ vs \d+|PytorchStreamWriter failed writing`,
			Cause: "a disk is full or read-only, or a quota is used up", Fix: "check `df -h`, `df -i` and `quota` for the folder of checkpoints, caches (TMPDIR, HF_HOME, TRITON_CACHE_DIR) and logs on this node", Seen: "OS", Source: "write(2)",
		},
	}
}
