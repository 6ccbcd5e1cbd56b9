package catalogue

// Topic is what an error is about. A row for errors in any words (Row.Topical) says that a
// program failed and shows the program's own words; the topic of those words says which
// machine or setting to look at. A topic never makes a line an error.
type Topic struct {
	Checks  []string // the ids of a finding of this topic; none: those of the row, of the whole job
	Pattern string   // as Row.Pattern
	Cause   string   // as Row.Cause
	Fix     string   // as Row.Fix
}

// Topics returns the topics in the order of matching: more specific ones come first.
func Topics() []Topic {
	return []Topic{
		{
			Checks:  ids("X-MPI", "N01"),
			Pattern: `OFI addrinfo\(\) failed|OFI get?info\(\) failed`,
			Cause:   "libfabric, the transport below MPI, found no network that it can use on a node", Fix: "fi_info on that node lists what there is; FI_PROVIDER (tcp always works), FI_PROVIDER_PATH and I_MPI_OFI_LIBRARY_INTERNAL must fit it",
		},
		{
			Checks:  ids("X-MPI", "N04", "G04"),
			Pattern: `\bOFI \w+ failed\b|- UNDELIVERABLE\b`,
			Cause:   "a call of MPI failed in libfabric, the transport below it: a peer had ended, or its adapter or the network failed", Fix: "look for an earlier error of another rank; otherwise check the adapters and links of the node that the line names and of its peers",
		},
		{
			Checks:  ids("X-AUTH"),
			Pattern: `\blicen[cs]e\b.{0,40}\b(?:not valid|invalid|expired|denied|unavailable|limit|could not be|not found)\b|\b(?:no|invalid|expired) (?:\w+ )?licen[cs]e\b|\b(?:token|licen[cs]e) ?server\b`,
			Cause:   "the program got no licence", Fix: "the licence must cover this release and this node; the licence server must be reached from the node and have free seats",
		},
		{
			Checks:  ids("X-AUTH"),
			Pattern: `\b40[13] (?:client error|get|post|put|head|unauthori|forbidden)|\b(?:http|status|code)\W{1,3}40[13]\b|\(40[13]\)|unauthori[sz]ed|\b40[13] forbidden|[:=] ?forbidden\b|\bforbidden[:(]|access ?denied|not authori[sz]ed|authentication (?:failed|failure|required|error)|\b(?:credentials?|api.?key|ticket|password|(?:access|api|auth\w*|security|session|bearer|hf)[ _-]?token)s?\b.{0,40}\b(?:expired|invalid|revoked|incorrect|not found|missing|rejected)|\btokens?\b.{0,30}\b(?:expired|revoked)|ExpiredToken|\b(?:expired|invalid|incorrect|missing|no|bad) (?:credentials?|api.?key|access.?key|passwords?|(?:access|api|auth\w*|security|bearer) tokens?)\b|does not have \S+ access|gated (?:repo|model)|need to (?:be )?(?:log|sign)\w* in|\b(?:request|host|user|job) .{0,30}\brejected\b`,
			Cause:   "a server refused the program's credentials", Fix: "log in on that node, or give all nodes a valid token with gorun -x NAME (HF_TOKEN, AWS_*, GOOGLE_APPLICATION_CREDENTIALS), which must be valid longer than the job runs",
		},
		{
			Checks:  ids("X-CONNECT"),
			Pattern: `\b429\b.{0,20}(?:client error|too many|request|status)|(?:status|code|error|http)\W{1,3}429\b|too many requests|rate.?limit(?:ed| exceeded| reached)\b|SlowDown\b|throttl(?:ed|ing)`,
			Cause:   "a server refused the job because it sent too many requests", Fix: "log in (servers allow more to known users), send fewer at a time, and wait longer before each retry; download once before the job or on one rank, and let the other ranks read the copy",
		},
		{
			Checks:  ids("X-PORT", "R02"),
			Pattern: `address already in use|EADDRINUSE|BindException|\bbind\w*\b.{0,40}\b(?:port|socket|addr\w*|\d{4,5})\b.{0,40}\b(?:fail|error|unable|in use)|\bport\b.{0,40}\bbind fail|\bfail\w* (?:to )?bind\b.{0,40}(?:port|socket|addr|:\d{2,5})|(?:cannot|could not|unable to) bind\b|\bport \d+ .{0,30}(?:in use|taken|occupied|not available)`,
			Cause:   "a port is in use, by another process or an old one", Fix: "`ss -ltnp` on that node shows the process that has it; end it, or use another port",
		},
		{
			Checks:  ids("X-DNS"),
			Pattern: `name or service not known|temporary failure in name resolution|(?:could not|cannot|can't|failed to|unable to) resolve:? (?:the |any )?(?:(?:host|address|name|domain|dns)|['"\x60\[<]|[\w-]+(?:\.[\w-]+)+|[\w-]+:\d)|getaddrinfo|nodename nor servname|no such host|name resolution|unknown host`,
			Cause:   "a host's name could not be resolved", Fix: "getent hosts NAME on that node shows what it finds; correct the name, DNS or /etc/hosts there",
		},
		{
			Checks:  ids("X-DISK"),
			Pattern: `no space left|disk (?:is )?full|(?:disk )?quota (?:was |is )?exceeded|read-only file system|\bENOSPC\b|\bEDQUOT\b|not enough (?:free )?disk space|not enough space (?:on|left)\b|errno 122|\bover \d+% full|file write failed|create local dir`,
			Cause:   "a disk is full or read-only, or a quota is used up", Fix: "check `df -h` and `quota` on that node for the folder that the line names, or where the program writes: checkpoints, caches (TMPDIR, HF_HOME), shuffles (spark.local.dir), logs",
		},
		{
			Checks:  ids("X-DISK"),
			Pattern: `input/output error|stale file handle|after transport endpoint shutdown|transport endpoint is not connected: ?['"]?/|\b(?:stat|ls|cd|access|open)\b.{0,80}transport endpoint is not connected`,
			Cause:   "a file system failed, or its server was lost", Fix: "look at that node's kernel log (dmesg -T: I/O errors, nfs, LustreError, evicted) and its storage (lfs check servers, smartctl); take the node out of the job until its mounts answer",
		},
		{
			Checks:  ids("L04"),
			Pattern: `^(?:what\(\): +|.*\b(?:fork|thread|clone|process)\b.*)resource temporarily unavailable|pthread_create (?:failed|returned)|can't start new thread|unable to create (?:new )?(?:native )?thread|failed to (?:create|start) (?:new |the )?(?:OS |native )?thread|newosproc`,
			Cause:   "the worker could not start a thread or a process: a limit was reached", Fix: "ulimit -u, the container's --pids-limit and TasksMax of the service limit them on that node; use fewer threads (OMP_NUM_THREADS, dataloader workers)",
		},
		{
			Checks:  ids("L02"),
			Pattern: `too many open files|items of ancdata|\bEMFILE\b`,
			Cause:   "the limit of open files was reached", Fix: "raise it (ulimit -n, LimitNOFILE of the service, --ulimit nofile of the container), or open fewer files at a time",
		},
		{
			Checks:  ids("X-CUDAOOM"),
			Pattern: `\b(?:cuda|hip|gpu|hbm|vram|device)\b.{0,60}\bout of memory|out of memory.{0,60}\b(?:gpu|cuda|device|hbm|vram)\b|\b(?:gpu|device|cuda|hbm)\b.{0,20}\bmemory is (?:full|exhausted)|no available memory for the cache blocks|RESOURCE_EXHAUSTED: .*(?:alloc|memory)`,
			Cause:   "the worker ran out of GPU memory", Fix: gpuMemory,
		},
		{
			Checks:  ids("X-HOSTOOM", "L07"),
			Pattern: `\b(?:terminated|killed|died) (?:with|by|from|on) signal:? 9\b|\bsignal: 9\b|std::bad_alloc|\bMemoryError\b`,
			Cause:   "a process was killed, most often for its memory, or got none", Fix: "check dmesg -T | grep -i oom on that node and the memory limit of its container or job; use fewer processes at a time",
		},
		{
			Checks:  ids("N04", "N07"),
			Pattern: `modify QP\b|\bQP to RT[RS]\b|\bibv_(?:modify_qp|reg_mr|create_qp|poll_cq)\b.{0,40}fail`,
			Cause:   "an adapter could not set up a connection to its peer: GID, MTU, route or driver", Fix: "compare ibv_devinfo and show_gids of the two nodes; `gorun check` compares GIDs, MTUs and routes",
		},
		{
			Checks:  ids("X-START"),
			Pattern: `exec user process caused|exec format error|cannot execute|\bentrypoint\b.{0,40}(?:not found|no such)`,
			Cause:   "a program could not be started on a node", Fix: "look there: ls -l PATH, the interpreter in its first line, the CPU it was built for, and whether the file system allows programs (noexec)",
		},
		{
			Checks:  ids("V03"),
			Pattern: `driver .{0,40}\b(?:too old|insufficient|older than)|no kernel image|invalid device function|unsupported (?:ptx|toolchain)|\bsm_\d+ is not (?:compatible|supported|defined)`,
			Cause:   "the GPU, its driver and the program's CUDA do not fit together", Fix: "install a build for this GPU and driver, or update the driver of that node (nvidia-smi shows both versions)",
		},
		{
			Checks:  ids("X-MODULE"),
			Pattern: `no module named|there is no package called|\bpackage \S+ not found|no matching distribution found|could not find a version that satisfies|(?:need|have) to (?:have \S+ installed|install \S+)|(?:is|are) not installed\b|please install \S+|` + "`?pip install \\S+|Pkg\\.add\\(",
			Cause:   "a module or package is missing in this environment", Fix: "install it into the environment that the workers use, on every node or in the image; which python and pip list there show what they have",
		},
		{
			Checks:  ids("X-LIBRARY", "V05"),
			Pattern: `installed cuda version \S+ does not match|cuda version \(\S+\) mismatches the version that was used|CUDA_HOME\b.{0,60}(?:not set|not found|does not exist)`,
			Cause:   "the CUDA toolkit of this node is missing, or of another version than torch was built with", Fix: "set CUDA_HOME to a toolkit of torch's version (python -c 'import torch; print(torch.version.cuda)' shows it), or install a torch that was built for this toolkit",
		},
		{
			Checks:  ids("X-LIBRARY", "V05"),
			Pattern: `cannot open shared object|(?:unable|failed) to load (?:the )?(?:\w+ ){0,2}(?:library|librar|shared object)|undefined symbol|symbol lookup error|wrong ELF class|version .\S+' not found|does not match the version \S+ was compiled|UnsupportedClassVersionError|compiled by a more recent version|(?:was |were )?(?:compiled|built) (?:with|for|against) (?:a )?(?:different|another|newer|older|incompatible) (?:\w+ )?(?:version|release|torch|cuda|library|compiler|python|driver)`,
			Cause:   "a library is missing, or of another version than the program was built for", Fix: "ldd FILE shows what is missing; load the same module or environment on every node, and build with the versions that run",
		},
		{
			Pattern: `x509|certificate.{0,40}\b(?:expired|verify|unknown|invalid|not valid)|CERTIFICATE_VERIFY_FAILED|SSLError`,
			Cause:   "a certificate was refused", Fix: "the clock of that node must be right (date), and its system or image needs the authority's certificate (ca-certificates, REQUESTS_CA_BUNDLE); otherwise renew the server's certificate",
		},
		{
			Pattern: `database is locked|lock wait timeout|unable to lock\b|(?:could not|cannot|failed to) (?:obtain|acquire|get) (?:a |the )?lock`,
			Cause:   "another process holds a lock, or the file system has none", Fix: "look who holds it (lslocks, fuser, the server's list); on network file systems mount with locks, put such files on a local disk, or turn them off (HDF5_USE_FILE_LOCKING=FALSE)",
		},
		{
			Pattern: `\btruncated\b|\bcorrupt(?:ed|ion)?\b|unexpected end of (?:file|data|stream)|unexpected eof|bad magic|invalid (?:header|magic|zip|gzip)|checksum|\bCRC\b|not a (?:zip|gzip|tar|valid) file|Error while deserializing|IncompleteBuffer|PytorchStreamReader|UnpicklingError`,
			Cause:   "a file is damaged or incomplete", Fix: "compare its size and checksum with the original, then download or write it again; a full disk, or a job that was killed while it wrote, leaves such files",
		},
		{
			Pattern: `Error\(s\) in loading state_dict|size mismatch for|shape mismatch for|(?:missing|unexpected) keys?\b|different (?:\w+ )?world size|DP world size|\bcheckpoint\b.{0,80}(?:mismatch|not match|different|incompatible)`,
			Cause:   "a checkpoint does not fit the model or the number of ranks", Fix: "compare the configuration with that of the run which wrote it (sizes, parallelism, number of ranks), or convert the checkpoint; another folder starts from the beginning",
		},
		{
			Pattern: `size of tensor a \(\d+\) must match|\bcannot (?:be )?reshaped?\b|\bmat1 and mat2 shapes|shapes .{0,60}\b(?:not aligned|mismatch|incompatible|cannot be)`,
			Cause:   "two sizes do not fit: of the model, its input, or a checkpoint and the number of ranks that read it", Fix: "if a checkpoint was read, compare sizes, parallelism and ranks with the run that wrote it; otherwise correct the program or its input at that line",
		},
		{
			Pattern: `\b(?:loss|grad\w*|gradients?|output|value)\b.{0,30}\b(?:is |are |was |became |went to |=)?(?:nan|inf|infinity|non-?finite|not finite)\b|\bnan\b.{0,30}\b(?:detected|found|encountered|loss|grad)|\breturned nan values\b|grad_scale is too small|loss scale\b.{0,40}\bminimum|diverged\b`,
			Cause:   "the numbers of the training became infinite or NaN", Fix: "look at the data of that step and at the last losses; a lower learning rate, gradient clipping or bf16 in place of fp16 help; if one rank alone has it, look at its data, and test its GPU if it comes again there",
		},
		{
			Pattern: `unexpected keyword argument|cannot import name|module '\S+' has no attribute|type object '\S+' has no attribute|no longer (?:supported|acceptable|available|accepts?)|(?:has been|was) (?:removed|renamed) in|\brequires? (?:\w+ )?[\w.-]+ ?(?:[<>=~]=|>|<) ?\d|(?:incompatible|not compatible) with|version .{0,40}\b(?:required|mismatch|too old|not supported)`,
			Cause:   "the versions of two programs or libraries do not fit", Fix: "pip list (conda list, module list) on that node shows what it has; install the versions that the program names, the same on all nodes",
		},
		{
			Pattern: `(?-i:KeyError: '[A-Z][A-Z0-9_]{2,}')|environment variable .{0,40}(?:not set|missing|required|undefined)|Environment::Get`,
			Cause:   "a variable of the environment that the program reads is not set", Fix: "set it for the workers on every node: gorun sets RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR, and -x NAME or --env-file gives others",
		},
		{
			Pattern: `\bdivisible by\b|cannot be (?:evenly |equally )?(?:divided|split|sharded|partitioned)\b|not evenly|does not divide`,
			Cause:   "a size cannot be divided by another one, such as the number of ranks", Fix: "change one of the two that the line names: the ranks (tensor, pipeline or data parallelism, shards) or the size of the model, the batch or the input",
		},
		{
			Pattern: `\b(?:MPI|world|TP|PP|DP)[ _]?size\b.{0,40}(?:!=|==|\bmust|\bdoes not|\bshould|divisible|\bmatch)|number of (?:gpus?|devices?|process\w*|ranks|nodes|workers)\b.{0,60}(?:must|does not|not match|divisible|power of two|available|exceeds|greater|less)|requested gpus?:|\bbut (?:your machine )?only (?:has|have|found)\b`,
			Cause:   "the program wants another number of processes or GPUs than it has", Fix: "compare the number of processes (--nproc-per-node, mpirun -n, WORLD_SIZE) and of visible GPUs with the sizes that the program is given (tensor, pipeline and data parallelism)",
		},
		{
			Pattern: `(?:invalid|unknown|unsupported|missing|illegal|bad|unrecognized) (?:value|option|arguments?[ :'"=]+\w|setting|parameter|key|field|config\w*|choice|flag|mode|type)|must be (?:one of|a |an |positive|set|specified|given|in )|is not (?:a valid|supported|allowed|recognized)|should be (?:one of|a |an )|mapping values are not allowed|could not override|\boverride '.{0,40}' not found|not in struct|\b(?:option|argument|parameter|value|field|variable)s?\b.{0,20}\b(?:is|are) (?:required|not set)\b`,
			Cause:   "the program does not accept a setting or its input", Fix: "correct what the line names: an argument, a variable, the configuration or the input",
		},
		{
			Pattern: `\b5\d\d (?:server error|internal server|bad gateway|service unavailable|gateway time)|service (?:is )?unavailable|(?:read|request|connection|connect)\b.{0,20}\btimed? ?out|timed out (?:while |trying to )?connect|operation timed out|max retries exceeded|RemoteDisconnected|ProtocolError|unexpected status`,
			Cause:   "a server did not answer, or failed", Fix: "try it from that node (curl -v URL), with the job's proxy variables; a server that is only slow needs a longer time-out or a retry",
		},
		{
			Pattern: `\b(?:file|folder|directory|path|data ?set|image|model|checkpoint|object|bucket)s?\b.{0,80}\b(?:not found|missing|does not exist|is empty)\b|(?:cannot|can't|unable to|could not|couldn't) (?:find|locate)\b`,
			Cause:   "the program does not find what the line names", Fix: "put it there on every node, or correct the name, the path or the folder in which the program runs",
		},
	}
}
