package ncclenv

// ncclRows lists the variables that NCCL reads, and what depends on them. since is the
// first release of NCCL that reads the variable, according to NCCL's documentation of its
// environment, or to that release's source if the documentation lacks the variable.
var ncclRows = [...]row{
	// Algorithms and buffers: both ends of a connection compute sizes from them.
	{"NCCL_ALGO", 2500, All, "the ranks run different algorithms: a hang, \"message truncated\" or wrong results; since 2.24 a list that leaves a function without an algorithm is an error"},
	{"NCCL_PROTO", 2500, All, "the ranks speak different protocols: a hang, \"message truncated\" or wrong results; LL128 forced on hardware that does not support it corrupts data"},
	{"NCCL_BUFFSIZE", 0, All, bufferText},
	{"NCCL_LL_BUFFSIZE NCCL_LL128_BUFFSIZE", 2700, All, bufferText},
	{"NCCL_NTHREADS", 0, All, "the ranks launch different kernels: a hang, or truncated messages"},
	{"NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS", 2500, All, channelText},
	{"NCCL_MIN_CTAS NCCL_MAX_CTAS", 21700, All, channelText},
	{"NCCL_CGA_CLUSTER_SIZE", 21500, All, channelText},
	{"NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_NVL_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE", 21400, All, "send and receive are cut into different pieces: truncated messages"},
	{"NCCL_MAX_P2P_NCHANNELS", 2700, All, p2pChannelText},
	{"NCCL_NCHANNELS_PER_NET_PEER", 21200, All, p2pChannelText},

	// Networks and plugins.
	{"NCCL_NET", 21000, All, "a forced network that one node lacks ends the job (\"network X not found\", \"Failed to initialize any NET plugin\"); IB on one side and Socket on the other hang or report a wrong type"},
	{"NCCL_NET_PLUGIN", 21100, All, "a network plugin on some of the nodes: a silent hang"},
	{"NCCL_TUNER_PLUGIN NCCL_TUNER_CONFIG_FILE", 21900, All, "each rank's tuner chooses for itself: different algorithms, a hang or truncated messages"},
	{"NCCL_PROFILER_PLUGIN", 22300, Node, "slow, or a crash on the node that has it"},
	{"NCCL_ENV_PLUGIN", 22800, All, "the plugin sets values on its node only"},
	{"NCCL_IB_DISABLE", 0, All, "one side uses IB and the other sockets: a hang or \"wrong type\"; set everywhere, it makes the network 10 to 100 times slower"},
	{"NCCL_IB_HCA", 0, Node, "a different number of adapters on two nodes hangs silently"},
	{"NCCL_IB_GID_INDEX", 0, Node, "an index that is right on one node and wrong on another: \"ibv_modify_qp failed with 22 Invalid argument\"; since 2.21 NCCL finds it better itself"},
	{"NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_ROCE_VERSION_NUM", 22100, All, "the nodes choose GIDs of different kinds: connecting times out"},
	{"NCCL_IB_SL NCCL_IB_TC", 0, All, qosText},
	{"NCCL_IB_FIFO_TC", 22203, All, qosText},
	{"NCCL_IB_PKEY", 2800, All, "the nodes are in different partitions and cannot connect"},
	{"NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT", 0, All, "one node gives up on a peer earlier than the others"},
	{"NCCL_IB_QPS_PER_CONNECTION", 21000, All, qpText},
	{"NCCL_IB_SPLIT_DATA_ON_QPS", 21800, All, qpText},
	{"NCCL_IB_AR_THRESHOLD", 2600, All, messageText},
	{"NCCL_IB_ADAPTIVE_ROUTING", 21600, All, messageText},
	{"NCCL_IB_ECE_ENABLE", 22300, All, messageText},
	{"NCCL_IB_DATA_DIRECT", 22700, All, messageText},
	{"NCCL_IB_OOO_RQ", 23000, All, messageText},
	{"NCCL_IB_MERGE_VFS", 21800, All, mergeText},
	{"NCCL_IB_MERGE_NICS", 22000, All, mergeText},
	{"NCCL_NET_MERGE_LEVEL NCCL_NET_FORCE_MERGE", 22400, All, mergeText},
	{"NCCL_NET_MERGE_POLICY", 23005, All, mergeText},
	{"NCCL_NETDEVS_POLICY", 22800, All, "the ranks use different numbers of network devices"},
	{"NCCL_IBVERBS_LIB", 23003, Node, "a library that is not there: \"Count not open\" and no IB"},
	{"NCCL_CROSS_NIC", 2500, All, "on a fabric of separate rails 1 or 2 lead to \"ibv_modify_qp failed with 110 Connection timed out\""},
	{"NCCL_PXN_DISABLE NCCL_P2P_PXN_LEVEL", 21200, All, "all-to-all hangs, or connecting to a proxy fails"},
	{"NCCL_NET_GDR_LEVEL", 2400, AllSoft, gdrText},
	{"NCCL_NET_GDR_READ", 0, AllSoft, gdrText},
	{"NCCL_DMABUF_ENABLE", 21300, AllSoft, gdrText},

	// Sockets and bootstrap.
	{"NCCL_NSOCKS_PERTHREAD NCCL_SOCKET_NTHREADS", 2408, All, "the ends of a connection open different numbers of sockets: a hang or truncated messages"},
	{"NCCL_SOCKET_FAMILY", 0, All, "IPv4 on one side and IPv6 on the other: \"no socket interface found\" or an unknown address family"},
	{"NCCL_SOCKET_IFNAME", 0, Node, "an interface that the other nodes cannot reach: connection refused or timed out"},
	{"NCCL_SOCKET_RETRY_CNT NCCL_SOCKET_RETRY_SLEEP_MSEC", 22400, AllSoft, "one node gives up connecting earlier"},
	{"NCCL_SOCKET_POLL_TIMEOUT_MSEC", 22800, Node, "only the CPU time of connecting differs"},
	{"NCCL_SOCKET_MAGIC", 23007, All, "peers refuse each other's connections: a hang at the first connection"},
	{"NCCL_PSK", 23200, All, "one side speaks TLS and the other does not: connecting fails"},
	{"NCCL_OOB_NET_ENABLE", 22300, All, "a part of the ranks meets over the network plugin and waits for the others: a hang"},
	{"NCCL_OOB_NET_IFNAME", 22300, Node, "a device that is not there: the ranks cannot meet"},
	{"NCCL_UID_STAGGER_RATE NCCL_UID_STAGGER_THRESHOLD", 22300, AllSoft, "many ranks connect to the root at once"},
	{"NCCL_COMM_ID", 0, Never, "one fixed address and port for every communicator: the second one collides, and the choice of interfaces changes"},
	{"NCCL_HOSTID", 2506, Never, "the same value on two machines makes NCCL believe that they share memory: errors of P2P and SHM"},
	{"NCCL_CONF_FILE", 22300, Node, "it replaces ~/.nccl.conf; a file that is not there is silently ignored"},

	// Inside a node.
	{"NCCL_P2P_DISABLE", 0, NodeKeepAll, p2pText},
	{"NCCL_P2P_LEVEL", 2304, NodeKeepAll, p2pText},
	{"NCCL_P2P_DIRECT_DISABLE", 21212, NodeKeepAll, p2pText},
	{"NCCL_SHM_DISABLE", 0, Node, "ranks of one node talk over the network; with P2P disabled too they need a network card that reaches itself"},
	{"NCCL_SHM_USE_CUDA_MEMCPY NCCL_SHM_LOCALITY NCCL_SHM_MEMCPY_MODE", 21300, Node, "the ranks of a node disagree about which rank copies"},
	{"NCCL_CUMEM_ENABLE", 21800, All, "memory handles of different kinds: importing fails or hangs"},
	{"NCCL_CUMEM_HOST_ENABLE", 22300, NodeKeepAll, "in a container without CAP_SYS_NICE allocation fails before 2.26.5"},
	{"NCCL_IPC_USE_ABSTRACT_SOCKET", 22900, Node, "ranks in different network namespaces cannot exchange memory handles"},
	{"NCCL_IGNORE_CPU_AFFINITY", 2406, Node, "speed only"},
	{"NCCL_TOPO_FILE", 2600, Node, "a file made for other hardware: wrong paths, \"Could not open XML\" or \"wrong version\""},
	{"NCCL_GRAPH_FILE", 2600, All, "the ranks search different graphs"},
	{"NCCL_TOPO_DUMP_FILE NCCL_GRAPH_DUMP_FILE", 2600, Never, "all ranks overwrite one file on a shared file system"},

	// NVLink across nodes, offloads, device API.
	{"NCCL_MNNVL_ENABLE", 22100, All, mnnvlText},
	{"NCCL_MNNVL_UUID", 22500, Node, mnnvlText},
	{"NCCL_MNNVL_CLIQUE_ID", 22300, Node, mnnvlText},
	{"NCCL_NVLS_ENABLE NCCL_NVLS_NCHANNELS", 21700, All, "NVLink SHARP on a part of the ranks: a hang (2.27 and 2.28) or \"Failed to bind NVLink SHARP\""},
	{"NCCL_COLLNET_ENABLE", 2600, All, collnetText},
	{"NCCL_COLLNET_NODE_THRESHOLD", 20909, All, collnetText},
	{"NCCL_IGNORE_NET_MISMATCH NCCL_IGNORE_COLLNET_MISMATCH", 23000, All, "decides whether different numbers of devices are an error"},
	{"NCCL_MULTI_RANK_GPU_ENABLE", 23000, All, "two ranks on one GPU by mistake are no longer noticed"},
	{"NCCL_RUNTIME_CONNECT", 22200, All, "some ranks connect at the start and others later: a hang at the first collective"},
	{"NCCL_LAUNCH_MODE", 0, AllSoft, launchText},
	{"NCCL_LAUNCH_ORDER_IMPLICIT", 22600, AllSoft, launchText},
	{"NCCL_COMM_BLOCKING", 21400, All, "the program gets ncclInProgress, which it may not expect"},
	{"NCCL_RAS_ENABLE NCCL_RAS_TIMEOUT_FACTOR", 22400, All, "RAS reports peers as missing"},
	{"NCCL_RAS_ADDR", 22400, All, "an address that two jobs share on a node: the client may reach the wrong one"},
	{"NCCL_GIN_ENABLE NCCL_GIN_TYPE", 22807, All, ginText},
	{"NCCL_GIN_PLUGIN", 22907, All, ginText},
	{"NCCL_WIN_ENABLE NCCL_SYM_*", 22700, All, "symmetric kernels on a part of the ranks"},

	// Diagnosis.
	{"NCCL_DEBUG", 0, Free, "INFO on many ranks makes the start slow"},
	{"NCCL_DEBUG_SUBSYS", 2304, Free, debugText},
	{"NCCL_DEBUG_TIMESTAMP_*", 22600, Free, debugText},
	{"NCCL_DEBUG_LEVELS", 23200, Free, debugText},
	{"NCCL_DEBUG_FILE", 2212, Rank, "all ranks overwrite one file unless its name has %h and %p; a folder that is not there loses the log; warnings no longer reach the output"},
	{"NCCL_CHECK_POINTERS", 0, Free, debugText},
	{"NCCL_CHECK_MODE", 22907, Free, debugText},

	// Names that do nothing.
	{"NCCL_SINGLE_RING_THRESHOLD NCCL_TREE_THRESHOLD NCCL_LL_THRESHOLD", 0, Obsolete, "current releases of NCCL ignore it"},
	{"NCCL_IB_CUDA_SUPPORT NCCL_IB_GDR_LEVEL", 0, Obsolete, "current releases of NCCL ignore it; NCCL_NET_GDR_LEVEL replaced it"},
	{"NCCL_CHECKS_DISABLE", 0, Obsolete, "current releases of NCCL ignore it"},
	{"NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT NCCL_DESYNC_DEBUG NCCL_ENABLE_TIMING", 0, Obsolete, "an old name of PyTorch's: current releases want TORCH_ before it"},
}

// Texts of several rows.
const (
	bufferText     = "sender and receiver disagree: \"message truncated : receiving X bytes instead of Y\", or a hang"
	channelText    = "the ranks open different numbers of channels: a hang"
	p2pChannelText = "the ranks open different numbers of channels to a peer: send, receive and all-to-all hang"
	qosText        = "traffic in the wrong class: drops and exceeded retries on RoCE"
	qpText         = "the ends of a connection have different numbers of queue pairs: a hang or completion errors"
	messageText    = "the ends of a connection disagree about the protocol or order of messages"
	mergeText      = "the nodes have different numbers of (virtual) network cards: a hang, or \"Only matched N devices\""
	gdrText        = "uneven speed; a wrong level may lead to another graph"
	p2pText        = "ranks of a node that differ hang; disabled everywhere, NVLink is not used"
	mnnvlText      = "ranks of one NVLink domain disagree: \"MNNVL is available but not working\""
	collnetText    = "the ranks find different numbers of CollNet devices: an error since 2.30.3"
	launchText     = "deadlocks look different from rank to rank"
	ginText        = "the device API fails to start"
	debugText      = "only what is logged or checked"
)
