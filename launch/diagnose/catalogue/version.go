package catalogue

// versionRows returns the rows about versions, ranks and settings that differ
// between ranks.
func versionRows() []Row {
	const (
		sameNCCL = "install the same NCCL (nvidia-nccl-cuXX) on all nodes; `gorun check` says which node loads which file"
		sameEnv  = "give all ranks the same NCCL_* variables and /etc/nccl.conf; `gorun check` lists what differs"
		ranks    = "do not set RANK and WORLD_SIZE by hand: each RANK from 0 to WORLD_SIZE-1 must exist once, and WORLD_SIZE must be the same on all ranks"
	)
	return []Row{
		{
			Key: "1", Checks: ids("V01"), Kind: Primary, Pattern: `Mismatched NCCL version detected\s*:\s*rank (?P<rank>\d+) version \d+\s+rank (?P<rank2>\d+) version \d+`,
			Cause: "ranks loaded different versions of NCCL", Fix: sameNCCL, Seen: "2.23.4+", Source: "src/init.cc:1043",
		},
		{
			Key: "2", Checks: ids("V01"), Kind: Primary, Pattern: `NCCL version mismatch with remote peer`,
			Cause: "peers run different versions of NCCL, or RAS reached another job", Fix: sameNCCL + "; give each job its own NCCL_RAS_ADDR", Seen: "2.24.3+", Source: "src/ras/ras.cc",
		},
		{
			Key: "t03", Checks: ids("I01", "I09", "V01"), Kind: Primary, Pattern: `connecting to address\s{2,}with family \d+ is neither AF_INET`,
			Cause: "a rank announced no address: NCCL_SOCKET_IFNAME names no interface of its node, or versions of NCCL differ", Fix: "set NCCL_SOCKET_IFNAME to an interface that each node has (`ip addr`), or unset it; `gorun check` shows each node's choice", Seen: "2.27", Source: "nccl#1837",
		},
		{
			Key: "3", Checks: ids("V01", "N02"), Kind: Primary, Pattern: `with family \d+ is neither AF_INET\s*\(2\) nor AF_INET6\s*\(10\)`,
			Cause: "an address was read at the wrong offset: versions of NCCL (or of the aws-ofi plugin) differ between ranks", Fix: sameNCCL, Seen: "2.8.3+", Source: "nccl#1267, aws-ofi-nccl#715",
		},
		{
			Key: "4", Checks: ids("V01", "R05"), Kind: Primary, Pattern: `Message truncated\s*:\s*received \d+ bytes instead of \d+`,
			Cause: "the bootstrap message has another size on a peer: versions of NCCL differ, or two jobs use one root", Fix: sameNCCL + "; give each job its own --rdzv-id", Seen: "2.3.7+", Source: "nccl#1176, nccl#1273; src/bootstrap.cc:224",
		},
		{
			Key: "5", Checks: ids("E01", "R03"), Kind: Primary, Pattern: `message truncated\s*:\s*receiving \d+ bytes instead of \d+`,
			Cause: "ranks send and expect messages of different sizes: NCCL_ALGO, NCCL_PROTO, NCCL_BUFFSIZE or NCCL_NSOCKS_PERTHREAD differ, or the program calls different collectives", Fix: sameEnv, Seen: "2.4.2+", Source: "nccl#626, #268, #1328, #1203; net_socket.cc",
		},
		{
			Key: "6", Checks: ids("E01", "R03"), Kind: Primary, Pattern: `collective mismatch error`,
			Cause: "ranks are in different collectives or have different NCCL settings (over InfiniBand)", Fix: sameEnv, Seen: "up to 2.19.4", Source: "nccl#969, #531",
		},
		{
			Key: "7", Checks: ids("R01", "V01"), Kind: Primary, Pattern: `Bootstrap Root\s*:\s*mismatch in rank count from procs`,
			Cause: "ranks have different WORLD_SIZE, or different versions of NCCL", Fix: ranks, Seen: "up to 2.22.3", Source: "src/bootstrap.cc",
		},
		{
			Key: "8", Checks: ids("R01", "V01"), Kind: Primary, Pattern: `Bootstrap Root\s*:\s*mismatch in info from procs`,
			Cause: "ranks have different WORLD_SIZE, or different versions of NCCL", Fix: ranks, Seen: "2.23.4+", Source: "src/bootstrap.cc:335",
		},
		{
			Key: RowTwiceCheckedIn, Checks: ids("R01", "R05"), Kind: Primary, Pattern: `rank (?P<rank>\d+) of \d+ ranks has already checked in`,
			Cause: "two processes have the same RANK, or a unique id (NCCL_COMM_ID) is used twice", Fix: ranks, Seen: "2.3.7+", Source: "src/bootstrap.cc:348",
		},
		{
			Key: "10", Checks: ids("R01"), Kind: Primary, Pattern: `Invalid rank requested\s*:\s*-?\d+/\d+`,
			Cause: "RANK is not below WORLD_SIZE", Fix: ranks, Seen: "all", Source: "src/init.cc",
		},
		{
			Key: "11", Checks: ids("E02"), Kind: Primary, Pattern: `Invalid NCCL_COMM_ID`,
			Cause: "NCCL_COMM_ID is not host:port", Fix: "unset NCCL_COMM_ID", Seen: "all", Source: "src/bootstrap.cc:114",
		},
		{
			Key: "76", Checks: ids("E02"), Kind: Primary, Pattern: `no algorithm/protocol available`,
			Cause: "NCCL_ALGO and NCCL_PROTO allow no algorithm for this collective", Fix: "unset NCCL_ALGO and NCCL_PROTO", Seen: "2.5.6+", Source: "src/enqueue.cc",
		},
		{
			Key: "81", Checks: ids("E02"), Kind: Warning, Pattern: `Could not open XML`,
			Cause: "the file of NCCL_TOPO_FILE does not exist", Fix: "unset NCCL_TOPO_FILE, or put the file on every node", Seen: "2.6.4+", Source: "src/graph/xml.cc",
		},
		{
			Key: "82", Checks: ids("E02"), Kind: Primary, Pattern: `XML Topology has wrong version`,
			Cause: "the file of NCCL_TOPO_FILE was written by another version of NCCL", Fix: "unset NCCL_TOPO_FILE, or write the file again with this NCCL", Seen: "2.6.4+", Source: "src/graph/xml.cc",
		},
		{
			Key: "83", Checks: ids("E02"), Kind: Primary, Pattern: `Only matched \d+ devices`,
			Cause: "NCCL_NET_FORCE_MERGE names devices that do not exist", Fix: "unset NCCL_NET_FORCE_MERGE", Seen: "2.24.3+", Source: "src/graph/topo.cc",
		},
		{
			Key: "84", Checks: ids("E02", "I01"), Kind: Primary, Pattern: `no device found (?:matching|after excluding) .*NCCL_OOB_NET_IFNAME`,
			Cause: "NCCL_OOB_NET_IFNAME matches no interface", Fix: "unset NCCL_OOB_NET_IFNAME, or name an interface of this node", Seen: "2.23.4+", Source: "src/bootstrap.cc:577",
		},
		{
			Key: "85", Checks: ids("X-USAGE"), Kind: Primary, Pattern: `Attempt to use communicator before the previous operation returned ncclSuccess`,
			Cause: "the program used a non-blocking communicator before it was ready", Fix: "poll ncclCommGetAsyncError until it is not ncclInProgress", Seen: "2.14.3+", Source: "src/init.cc",
		},
		{
			Key: "86", Checks: ids("V01"), Kind: Primary, Pattern: `NCCL_CONFIG_INITIALIZER`,
			Cause: "the program loads another NCCL than it was built for, or did not initialise its configuration", Fix: "build and run with the same version of NCCL", Seen: "2.14.3+", Source: "src/init.cc",
		},
		{
			Key: "87", Checks: ids("R01"), Kind: Primary, Pattern: `Too many connections \(\d+ max\)`,
			Cause: "the node has more local ranks than NCCL allows, or other programs connect to its port", Fix: ranks + "; stop port scanners", Seen: "2.12.7+", Source: "src/proxy.cc",
		},
		{
			Key: "t12", Checks: ids("X-LIBRARY", "V05"), Kind: CatchableClue, Pattern: `undefined symbol:\s*_ZNK?(?:3c10|2at|5torch|6caffe2)|undefined symbol:\s*_Z\w*(?:3c10|2at6Tensor|5torch)`,
			Cause: "a compiled extension does not fit the installed torch: it was built for another release", Fix: "build the extension for this torch: pip install --no-build-isolation --no-cache-dir --force-reinstall NAME (the line has its file); or install the torch that it was built for", Seen: "torch", Source: "ld.so",
		},
		{
			Key: "88", Checks: ids("V02"), Kind: Primary, Pattern: `undefined symbol:\s*nccl\w+`,
			Cause: "the program loads an older libnccl than it was built for", Fix: "remove the other libnccl from LD_LIBRARY_PATH, uninstall the other nvidia-nccl-cuXX wheels, then reinstall with --force-reinstall", Seen: "ld.so", Source: "pytorch#122571",
		},
		{
			Key: "89", Checks: ids("V02"), Kind: Primary, Pattern: `libnccl\.so\.2:\s*cannot open shared object file`,
			Cause: "libnccl.so.2 is missing; uninstalling one nvidia-nccl-cuXX wheel removes the file of another", Fix: "run pip install --force-reinstall nvidia-nccl-cuXX of torch's CUDA version", Seen: "ld.so", Source: "section 1.4",
		},
	}
}
