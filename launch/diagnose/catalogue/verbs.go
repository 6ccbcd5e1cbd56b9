package catalogue

// verbsRows returns the rows about InfiniBand and RoCE.
func verbsRows() []Row {
	const (
		memlock = "set ulimit -l unlimited: docker --ulimit memlock=-1, LimitMEMLOCK=infinity for slurmd or containerd"
		fabric  = "check the port's counters (link_downed, symbol_error) and the switch; take the node out of the job"
	)
	return []Row{
		{
			Key: "25", Checks: ids("N01"), Kind: Harmless, CauseIf: AskedInfiniBand, Pattern: `Failed to open libibverbs\.so`,
			Cause: "the node has no libibverbs, so InfiniBand does not work (harmless if sockets carry the data)", Fix: "install rdma-core on every node, or unset NCCL_NET", Seen: "2.3.7-2.29.7, INFO since 2.16", Source: "nccl#444, cupy#9090",
		},
		{
			Key: "26", Checks: ids("N01"), Kind: Harmless, CauseIf: AskedInfiniBand, Pattern: `Cou(?:nt|ld) not open libibverbs`,
			Cause: "the node has no libibverbs, so InfiniBand does not work (harmless if sockets carry the data)", Fix: "install rdma-core on every node, or unset NCCL_NET", Seen: "2.30.3+", Source: "src/misc/ibvsymbols.cc",
		},
		{
			Key: "27", Checks: ids("N05"), Kind: Primary, Pattern: `dlvsym failed on ibv_`,
			Cause: "rdma-core is too old for this NCCL", Fix: "upgrade rdma-core (libibverbs) on this node", Seen: "all", Source: "src/misc/ibvsymbols.cc",
		},
		{
			Key: "28", Checks: ids("N05"), Kind: Primary, Pattern: `NET/IB\s*:\s*Unable to open device`,
			Cause: "an adapter cannot be opened: permissions of /dev/infiniband, or the container's cgroup", Fix: "use docker --device /dev/infiniband --cap-add IPC_LOCK; install the adapter's verbs provider in the image", Seen: "all", Source: "net_ib/init.cc",
		},
		{
			Key: "29", Checks: ids("N04"), Kind: Primary, Pattern: `ibv_modify_qp failed with (?:(?:error )?Invalid argument|(?:error )?22\b)`,
			Cause: "the GID index is empty or wrong, or RoCE versions are mixed", Fix: "unset NCCL_IB_GID_INDEX (NCCL 2.21 finds it); `gorun check` shows the tables", Seen: "all; with the number 2.22+", Source: "src/misc/ibvwrap.cc:376",
		},
		{
			Key: "30", Checks: ids("N09", "N04"), Kind: Primary, Pattern: `ibv_modify_qp failed with (?:(?:error )?Connection timed out|(?:error )?110\b)`,
			Cause: "adapters of different rails cannot reach each other, or RoCE's ARP is not answered", Fix: "set NCCL_CROSS_NIC=0 on a fabric of rails, and use the same order of adapters on all nodes; on RoCE show_gids, ip neigh and rping show whether the two addresses reach each other", Seen: "all; with the number 2.22+", Source: "src/misc/ibvwrap.cc:376",
		},
		{
			Key: "y30", Checks: ids("N04", "I02"), Kind: Primary, Pattern: `ibv_modify_qp failed with .*(?:Network is unreachable|No route to host)`,
			Cause: "an adapter has no route to its peer's address", Fix: "compare the GIDs and subnets of the adapters with `gorun check`; name the common ones in NCCL_IB_HCA", Seen: "all", Source: "nccl-tests#185",
		},
		{
			Key: "31", Checks: ids("L03"), Kind: Catchable, Pattern: `ibv_reg_mr\w*(?:\([^)]*\))? failed(?: with)?:? (?:error )?(?:12 )?Cannot allocate memory`,
			Cause: "memory could not be locked for the adapter", Fix: memlock, Seen: "all", Source: "nccl-tests#206",
		},
		{
			Key: "32", Checks: ids("L03"), Kind: Catchable, Pattern: `ibv_create_(?:qp|cq)(?:_ex)?(?:\([^)]*\))? failed|Unable to create \w+ CQ .*Cannot allocate memory`,
			Cause: "the adapter could not make a queue: locked memory, its limit of queues, or its driver", Fix: memlock, Seen: "all", Source: "nccl-tests#206",
		},
		{
			Key: "33", Checks: ids("N04", "I05", "G04"), Kind: Unreachable, Pattern: `Got completion (?:from peer (?P<peer>\S+)|with).*vendor.?err.? ?129`,
			Cause: "a peer's adapter no longer answered: the peer ended, or cable, GID, MTU, route or flow control failed", Fix: "first check whether the peer's process ended earlier; then compare GIDs and MTUs with `gorun check`, and read the port's counters", Seen: "2.10.3+", Source: "nccl#426, #902, pytorch#81628",
		},
		{
			Key: "34", Checks: ids("N04", "I05", "G04"), Kind: Unreachable, Pattern: `Got completion (?:from peer (?P<peer>\S+)|with).*(?:status=|error )(?:[A-Z_]+)?\(?12\)?(?:[ ,]|$)|Got completion from peer \S+.*RETRY_EXC_ERR`,
			Cause: "a peer's adapter no longer answered: the peer ended, or cable, GID, MTU, route or flow control failed", Fix: "first check whether the peer's process ended earlier; then compare GIDs and MTUs with `gorun check`, and read the port's counters", Seen: "2.21+", Source: "net_ib/p2p.cc:688",
		},
		{
			Key: "y44", Checks: ids("N04", "I05", "G04"), Kind: Unreachable, Pattern: `\bTransport retry count exceeded|\bEndpoint timeout.*\brip (?P<peer>\S+)|UCX +ERROR .*(?:Destination is unreachable|Endpoint timeout)`,
			Cause: "a peer's adapter no longer answered: the peer ended, or cable, GID, MTU, route or flow control failed", Fix: "first check whether the peer's process ended earlier; then compare GIDs and MTUs with `gorun check`, and read the port's counters", Seen: "UCX", Source: "ucx#6000, #5199",
		},
		{
			Key: "s03", Checks: ids("N07"), Kind: CatchableClue, Pattern: `neither nv_peer_mem,? (?:or|nor) nvidia_peermem (?:is )?(?:detected|loaded|found)`,
			Cause: "the kernel's module nvidia-peermem is not loaded, so that InfiniBand is not used for the memory of GPUs", Fix: "modprobe nvidia-peermem on every node (or use dma-buf: kernel 5.12, open driver 515)", Seen: "NVSHMEM", Source: "transport/ibrc/ibrc.cpp",
		},
		{
			Key: "t01", Checks: ids("N04", "N07"), Kind: Clue, Pattern: `\bmlx[45]: \S+: got completion with error`,
			Cause: "an operation of an InfiniBand adapter failed: its peer had ended or did not answer, or memory could not be accessed", Fix: "first look for an earlier error of another rank; then read the port's counters and the kernel's log of both nodes", Seen: "libmlx5", Source: "rdma-core providers/mlx5/cq.c",
		},
		{
			Key: "u06", Checks: ids("N07", "N04", "X-MPI"), Kind: Clue, Pattern: `(?:Remote (?:operation|access|QP)|Local (?:protection|QP operation|length))(?: error)? on \w+:\d+|completion with error: (?:local|remote) \w+`,
			Cause: "an adapter could not access memory, its own or its peer's: the program freed it, RDMA with GPUs does not work here, or the peer had failed", Fix: "first look for an earlier error of another rank; then try UCX_TLS=ud,sm,self and UCX_IB_GPU_DIRECT_RDMA=0: if that works, update UCX and the adapter's driver", Seen: "UCX", Source: "ib_mlx5_log.c",
		},
		{
			Key: RowTransport, Checks: ids("X-MPI"), Kind: CatchableClue, Pattern: `\bUCX +(?:ERROR|FATAL) `,
			Cause: "UCX, the transport below MPI, reported an error", Fix: "do what that line says: a device that the node lacks or may not use, an address that its peer cannot reach (UCX_NET_DEVICES names the network), a limit of locked memory or of queues; UCX_LOG_LEVEL=info shows what it chose", Seen: "UCX", Source: "ucs/debug/log.c",
		},
		{
			Key: RowMPIAdapter, Checks: ids("X-MPI", "N05"), Kind: CatchableClue, Pattern: `(?:(?P<host>[\w-][\w.-]*?)(?:\.\d+|:rank(?P<rank>\d+)(?:\.\S+)?: ))?PSM\d? can't open \w+ unit|PSM\d was unable to open|psm\d?_ep_open failed|failed an OFI Libfabric library call|: OFI \w[\w() ]*(?:failed|failure)`,
			Cause: "MPI could not open the network adapter of a node", Fix: "fi_info and ibv_devinfo on that node must show the adapter and an active link; in a container map its devices; FI_PROVIDER=tcp tells whether the rest works", Seen: "Open MPI, MPICH, PSM", Source: "mtl_ofi_component.c, ofi_init.c",
		},
		{
			Key: "36", Checks: ids("N07"), Kind: Primary, Pattern: `Got completion (?:from peer (?P<peer>\S+)|with).*vendor.?err.? ?81\b`,
			Cause: "the adapter cannot access the memory: the program freed it, or relaxed ordering or dmabuf do not work here", Fix: "set NCCL_IB_PCI_RELAXED_ORDERING=0 on all ranks; run modprobe nvidia-peermem on every node", Seen: "all", Source: "nccl issues",
		},
		{
			Key: "35", Checks: ids("X-PEER-LOST"), Kind: PeerLost, Pattern: `Got completion (?:from peer (?P<peer>\S+)|with).*(?:(?:status=|error )(?:[A-Z_]+)?\(?5\)?(?:[ ,]|$)|WR_FLUSH_ERR)`,
			Cause: "the queue was flushed after an earlier error", Fix: "look for the earlier error", Seen: "2.10.3+", Source: "net_ib",
		},
		{
			Key: "y25", Checks: ids("N07", "G04"), Kind: Root, Pattern: `Got async (?:fatal )?event\s*: local access violation`,
			Cause: "an adapter could not access the memory that the program gave it", Fix: "set NCCL_IB_PCI_RELAXED_ORDERING=0 on all ranks; run modprobe nvidia-peermem on every node", Seen: "all", Source: "nccl#1710",
		},
		{
			Key: "37", Checks: ids("G04"), Kind: Root, Explains: ids("N04"), Pattern: `async fatal event|Got async event\s*: local catastrophic`,
			Cause: "an adapter or its port failed during the run", Fix: fabric, Seen: "2.23.4+", Source: "net_ib/common.cc:123",
		},
		{
			Key: "38", Checks: ids("G04"), Kind: Warning, Explains: ids("N04"), Pattern: `NET/IB\s*:\s*(?:\S+ )?Got async event`,
			Cause: "an adapter's port went down or got another LID", Fix: fabric, Seen: "up to 2.22.3", Source: "net_ib.cc",
		},
		{
			Key: "39", Checks: ids("N04"), Kind: Warning, Pattern: `GID table changed`,
			Cause: "the addresses of an adapter changed during the run", Fix: "keep the network manager from changing the interface while jobs run", Seen: "2.28.3+", Source: "net_ib/common.cc",
		},
		{
			Key: "40", Checks: ids("N03"), Kind: Primary, Pattern: `Attempted to connect incompatible devices`,
			Cause: "NCCL_IB_HCA mixes InfiniBand and RoCE adapters", Fix: "name adapters of one kind in NCCL_IB_HCA", Seen: "2.26.2+", Source: "net_ib/connect.cc",
		},
		{
			Key: "72", Checks: ids("G04"), Kind: PeerLost, Pattern: `communicator encountered a fatal error`,
			Cause: "NCCL ended the communicator after an adapter's event", Fix: "look for the event (async fatal event) before it", Seen: "2.23.4+", Source: "net_ib/common.cc",
		},
	}
}
