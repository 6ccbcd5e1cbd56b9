package catalogue

// networkRows returns the rows about interfaces and connections over TCP.
func networkRows() []Row {
	const (
		iface = "set NCCL_SOCKET_IFNAME to the interface of the common network (`=eth0` is exact), or use gorun --iface; `gorun check` shows each node's choice"
		reach = "`gorun check` on all nodes names the nodes that cannot reach each other; choose the common network (NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME on all nodes, or gorun --iface), or open the ports between the nodes"
		ib    = "install rdma-core and map /dev/infiniband into the container on every node, or unset NCCL_NET"
	)
	const connect = `connect to (?P<peer>\S+) (?:returned|failed\s*:)\s*(?:with error )?(?:\d+\()?`
	return []Row{
		{
			Key: "12", Checks: ids("I01", "I09"), Kind: Primary, Pattern: `Bootstrap\s*:\s*no socket interface found`,
			Cause: "no interface matches NCCL_SOCKET_IFNAME, or none has an address of NCCL_SOCKET_FAMILY", Fix: iface, Seen: "2.4.8+", Source: "cupy#9090; src/bootstrap.cc:126",
		},
		{
			Key: "13", Checks: ids("E02", "I01"), Kind: Primary, Pattern: `No usable listening interface found`,
			Cause: "NCCL_COMM_ID is in no subnet of this node", Fix: "unset NCCL_COMM_ID", Seen: "all", Source: "src/bootstrap.cc:120",
		},
		{
			Key: "14", Checks: ids("I01", "I09"), Kind: Primary, Pattern: `NET/Socket\s*:\s*no interface found`,
			Cause: "no interface matches NCCL_SOCKET_IFNAME, or none has an address of NCCL_SOCKET_FAMILY", Fix: iface, Seen: "all", Source: "net_socket.cc",
		},
		{
			Key: "15", Checks: ids("I01"), Kind: Primary, Pattern: `NET/IB\s*:\s*No IP interface found`,
			Cause: "the node has InfiniBand, but no IP interface to set up its connections", Fix: iface, Seen: "all", Source: "net_ib/init.cc",
		},
		{
			Key: "y21", Checks: ids("I09", "I01"), Kind: Primary, Pattern: `connect to (?P<peer>\[?fe80:\S+)`,
			Cause: "a peer announced a link-local IPv6 address, which other nodes cannot reach", Fix: "set NCCL_SOCKET_FAMILY=AF_INET on all ranks, or " + iface, Seen: "all", Source: "nccl#975, #1515",
		},
		{
			Key: "y22", Checks: ids("E02", "I01"), Kind: Primary, Pattern: `No interface found in the same subnet as remote address|Call to bind failed\s*:\s*Cannot assign requested address`,
			Cause: "NCCL_COMM_ID names an address that is in no subnet of this node", Fix: "unset NCCL_COMM_ID", Seen: "2.3-2.8", Source: "nccl#331",
		},
		{
			Key: "y23", Checks: ids("I02", "I04"), Kind: Unreachable, Pattern: `Call to connect failed\s*:\s*(?:Connection|No route|Network)`,
			Cause: "a peer's address cannot be reached", Fix: reach, Seen: "up to 2.3", Source: "nccl-tests#15",
		},
		{
			Key: "y24", Checks: ids("R02", "I02"), Kind: Unreachable, Pattern: `failed to connect to (?P<peer>\S+) \(errno: (?:113|101|110) - `,
			Cause: "MASTER_ADDR:MASTER_PORT cannot be reached from this node: no route, or a firewall", Fix: reach, Seen: "torch", Source: "socket.cpp",
		},
		{
			Key: "21", Checks: ids("I01"), Kind: Clue, Pattern: `connect to (?P<peer>127\.\S+|\[?::1\S*)`,
			Cause: "NCCL uses loopback in a job of several nodes", Fix: iface + "; a list such as `^docker0` alone includes lo", Seen: "all", Source: "horovod#584, #789",
		},
		{
			Key: "x09", Checks: ids("I02"), Kind: Warning, Pattern: `connect to (?P<peer>\S+) returned .*retrying \(`,
			Cause: "a peer's address could not be reached at first", Fix: reach, Seen: "2.24.3+, INFO", Source: "src/os/linux.cc:288",
		},
		{
			Key: "16", Checks: ids("I02", "I10"), Kind: Unreachable, Pattern: connect + `Connection refused.{0,20}exceeded error retry count`,
			Cause: "a peer's address refused the connection: the wrong interface was chosen (a bridge, another node), the peer has ended, or a firewall rejects the connection", Fix: reach, Seen: "2.24.3+", Source: "nccl#1686; src/os/linux.cc:288",
		},
		{
			Key: "17", Checks: ids("I02", "I04"), Kind: Unreachable, Pattern: connect + `Connection timed out.{0,20}exceeded error retry count`,
			Cause: "a peer's address did not answer: a firewall drops the packets, or a subnet has no route", Fix: reach, Seen: "2.24.3+", Source: "src/os/linux.cc:288",
		},
		{
			Key: "18", Checks: ids("I02", "L06"), Kind: Unreachable, Pattern: connect + `No route to host.{0,20}exceeded error retry count`,
			Cause: "no route to a peer's address: routing, a full neighbour table, or a firewall that rejects the connection", Fix: reach, Seen: "2.24.3+", Source: "src/os/linux.cc:288",
		},
		{
			Key: "19", Checks: ids("I02"), Kind: Unreachable, Pattern: connect + `Software caused connection abort`,
			Cause: "a peer's address cannot be reached: it refused the connection or did not answer", Fix: reach + "; NCCL 2.24 and later print the real reason", Seen: "2.16.2-2.23.4", Source: "nccl#1515, #1686",
		},
		{
			Key: "20", Checks: ids("I01"), Kind: Primary, Pattern: connect + `Cannot assign requested address`,
			Cause: "an address is not on this node, is link-local without a scope, or all ephemeral ports are in use", Fix: iface, Seen: "2.16.2-2.23.4", Source: "socket.cc",
		},
		{
			Key: "x10", Checks: ids("I02"), Kind: Unreachable, Pattern: connect + `(?:Connection refused|Connection timed out|No route to host|Network is unreachable)`,
			Cause: "a peer's address cannot be reached", Fix: reach, Seen: "2.8-2.23", Source: "socket.cc",
		},
		{
			Key: "22", Checks: ids("I09", "I01"), Kind: Warning, Pattern: `(?:Bootstrap|NET/\w+|OOB).*:fe80:`,
			Cause: "an IPv6 link-local address carries data", Fix: "set NCCL_SOCKET_FAMILY=AF_INET", Seen: "all", Source: "nccl#975, #1515",
		},
		{
			Key: "23", Checks: ids("N01"), Kind: Primary, Pattern: `Error: network \S+ not found`,
			Cause: "NCCL_NET names a network that this node does not have", Fix: ib, Seen: "2.10.3-2.26.6", Source: "cupy#9090; src/net.cc",
		},
		{
			Key: "24", Checks: ids("N01"), Kind: Primary, Pattern: `Failed to initialize any NET plugin`,
			Cause: "no network of NCCL works here: NCCL_NET or NCCL_NET_PLUGIN names one that this node does not have", Fix: ib, Seen: "2.27.3+", Source: "src/plugin/net.cc",
		},
		{
			Key: "41", Checks: ids("N03"), Kind: Primary, Pattern: `Detected mixed local (?:Net|CollNet) device counts across ranks`,
			Cause: "nodes have different numbers of network adapters", Fix: "bring the missing port up, or name the common ones in NCCL_IB_HCA", Seen: "2.30.3+", Source: "src/init.cc:1325",
		},
		{
			Key: "42", Checks: ids("N01", "N02"), Kind: Primary, Pattern: `(?:socketFinalizeAccept|wrong type).*wrong type \d+ != \d+`,
			Cause: "peers use different networks (3 is sockets, 4 InfiniBand), or another program connected", Fix: "make the same network usable on all nodes, or set NCCL_NET=Socket (or IB) on all; `gorun check` names the odd node", Seen: "2.16.2-2.30.4", Source: "nccl-tests#188",
		},
		{
			Key: "43", Checks: ids("N01"), Kind: Clue, Pattern: `wrong socket type \(peer \d+ != expected \d+`,
			Cause: "peers use different networks, and NCCL waits without end", Fix: "make the same network usable on all nodes; `gorun check` names the odd node", Seen: "2.30.7+, INFO", Source: "src/misc/socket.cc:380",
		},
		{
			Key: "44", Checks: ids("R05"), Kind: Primary, Pattern: `socketFinalizeAccept.*wrong magic`,
			Cause: "another program connected to NCCL's port: a port scanner, a health probe, another job", Fix: "stop the scanner, or upgrade NCCL to 2.27.3 or later", Seen: "2.16.2-2.26.6", Source: "nccl#1612, #1808",
		},
		{
			Key: "45", Checks: ids("E01"), Kind: Harmless, Pattern: `socket magic mismatch`,
			Cause: "NCCL dropped a connection of another program", Fix: "nothing to do, unless NCCL_SOCKET_MAGIC differs between ranks", Seen: "2.30.7+, INFO", Source: "src/misc/socket.cc",
		},
		{
			Key: "90", Checks: ids("I08"), Kind: Primary, Pattern: `Unable to find address for:\s*\S*`,
			Cause: "GLOO_SOCKET_IFNAME names no interface of this node: Gloo needs one full name, no prefix and no list", Fix: "set GLOO_SOCKET_IFNAME=eth0 with the node's own name, or use gorun --iface", Seen: "gloo", Source: "gloo device.cc",
		},
		{
			Key: "91", Checks: ids("I07"), Kind: Clue, Pattern: `connectFullMesh failed`,
			Cause: "Gloo's connections between ranks failed: a hostname that resolves to loopback, or blocked ports", Fix: "set GLOO_SOCKET_IFNAME=eth0 (or use gorun --iface), or correct the host's line in /etc/hosts", Seen: "gloo", Source: "gloo",
		},
		{
			Key: "s04", Checks: ids("I07"), Kind: CatchableClue, Pattern: `\bconnect\S*.{0,60}\b127\.0\.1\.1\b.{0,40}(?:refused|timed out)|\b127\.0\.1\.1\]?:\d+\S{0,3} .{0,20}connection (?:refused|timed out)`,
			Cause: "a node's own name resolves to its loopback address, and its peers were told that address", Fix: "correct the line 127.0.1.1 of /etc/hosts on every node, or name the interface: gorun --iface eth0, GLOO_SOCKET_IFNAME=eth0", Seen: "gloo, others", Source: "hosts(5)",
		},
		{
			Key: "y26", Checks: ids("X-DNS", "X-SSH"), Kind: Catchable, Pattern: `ssh: Could not resolve hostname (?P<host>[^\s:]+)`,
			Cause: "the launcher could not resolve the name of a host", Fix: "use the address instead of the name, or correct DNS or /etc/hosts on this node; in Kubernetes that pod must exist and run (kubectl get pods) and belong to a headless service, before the launcher starts", Seen: "OpenSSH", Source: "ssh(1)",
		},
		{
			Key: "x11", Checks: ids("X-DNS"), Kind: Catchable, Pattern: `Temporary failure in name resolution|Host ?name lookup failure|Unable to resolve "|Name or service not known|nodename nor servname provided|gai error: -?\d+|Could not resolve host|getaddrinfo\S* (?:error|failed)|no such host`,
			Cause: "a host's name could not be resolved", Fix: "use the address instead of the name, or correct DNS or /etc/hosts on this node", Seen: "libc, torch", Source: "getaddrinfo(3)",
		},
		{
			Key: "x12", Quote: "errno: 98", Checks: ids("X-PORT", "R02"), Kind: Primary, Pattern: `failed to listen on any local network address|EADDRINUSE|(?:RuntimeError|OSError|DistNetworkError|gorun|srun)\b.*Address already in use|bind: address already in use`,
			Cause: "a port is in use, by an old process or another job", Fix: "`ss -ltnp` shows the process that has it; use another --master-port, or let gorun choose", Seen: "torch, libc", Source: "socket.cpp",
		},
		{
			Key: "r04", Checks: ids("X-PORT", "R02"), Kind: CatchableClue, Pattern: `\bbind(?:ing|\(\))?\b.{0,20}\bfail(?:ed|ure|s)?\b.{0,80}Address already in use`,
			Cause: "a port is in use, by another process or another job step on this node", Fix: "`ss -ltnp` on that node shows the process that has it; end it, or give each job its own port", Seen: "Cray PMI, others", Source: "bind(2)",
		},
		{
			Key: "x13", Checks: ids("X-PORT", "R02"), Kind: Warning, Pattern: `Address already in use`,
			Cause: "a port is in use, perhaps for one of the address families only", Fix: "`ss -ltnp` shows the process that has it; use another --master-port, or let gorun choose", Seen: "torch", Source: "socket.cpp",
		},
		{
			Key: "x14", Checks: ids("X-PORT", "R02"), Kind: CatchableClue, Pattern: `\blisten on .{0,80}\bport\S* fail|(?:failed to|unable to|cannot|could not) (?:bind|listen) (?:to|on) `,
			Cause: "a process could not listen on a port: another one has it, or it is not free for this user", Fix: "`ss -ltnp` on that node shows the process that has it: end it, or use another port", Seen: "HCCL, others", Source: "listen(2)",
		},
		{
			Key: "94", Checks: ids("L06"), Kind: Primary, Pattern: `nf_conntrack: (?:nf_conntrack: )?table full`,
			Cause: "the kernel's table of connections is full and drops packets", Fix: "run sysctl -w net.netfilter.nf_conntrack_max=1048576", Seen: "kernel", Source: "kubernetes#71261",
		},
		{
			Key: "95", Checks: ids("L06"), Kind: Primary, Pattern: `neighbo?ur.* table overflow`,
			Cause: "the kernel's neighbour table is full", Fix: "run sysctl -w net.ipv4.neigh.default.gc_thresh3=65536 (gc_thresh2 and gc_thresh1 below it)", Seen: "kernel", Source: "arp(7)",
		},
	}
}
