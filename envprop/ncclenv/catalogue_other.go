package ncclenv

// otherRows are the variables that PyTorch, Gloo, UCX, libfabric, CUDA, MPI and the
// system read.
var otherRows = [...]row{
	{"GLOO_SOCKET_IFNAME", 0, Node, "one full name of an interface, and on every node the same number of names: \"connectFullMesh failed\", \"Unable to find address for\""},
	{"TP_SOCKET_IFNAME", 0, Node, "RPC listens on the wrong interface"},
	{"UCX_NET_DEVICES", 0, Node, ucxText},
	{"UCX_TLS", 0, All, ucxText},
	{"UCX_*", 0, AllSoft, ucxText},
	{"FI_PROVIDER FI_EFA_* FI_* OFI_NCCL_*", 0, All, "the plugin chooses the tcp provider on one node"},

	// The contract of torchrun, which gorun fulfils.
	{"MASTER_ADDR MASTER_PORT WORLD_SIZE", 0, All, "workers look for the store at another place, or for another number of ranks: \"connection timed out\""},
	{"RANK LOCAL_RANK GROUP_RANK ROLE_RANK", 0, Rank, "two workers of one rank: \"has already checked in\""},
	{"LOCAL_WORLD_SIZE GROUP_WORLD_SIZE ROLE_NAME ROLE_WORLD_SIZE", 0, Rank, "the program believes in another layout"},
	{"TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE", 0, Rank, "the program believes in another launcher"},

	// PyTorch.
	{"TORCH_NCCL_ASYNC_ERROR_HANDLING", 0, All, "0 on a rank: it hangs for ever where the others abort"},
	{"TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC TORCH_NCCL_ENABLE_MONITORING TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_NCCL_PROPAGATE_ERROR TORCH_NCCL_RETHROW_CUDA_ERRORS TORCH_NCCL_DESYNC_DEBUG", 0, All, watchText},
	{"TORCH_FR_BUFFER_SIZE TORCH_NCCL_TRACE_BUFFER_SIZE", 0, All, watchText},
	{"OMP_NUM_THREADS", 0, Node, "unset with several workers on a node, each starts as many threads as there are CPUs"},

	// CUDA and its containers.
	{"CUDA_VISIBLE_DEVICES", 0, Rank, "another node's list: \"invalid device ordinal\""},
	{"CUDA_DEVICE_ORDER", 0, All, "an index means another GPU where a machine has different models"},
	{"CUDA_LAUNCH_BLOCKING", 0, All, "1 runs kernels one after another; with several communicators it can deadlock"},
	{"CUDA_DEVICE_MAX_CONNECTIONS", 0, All, "Megatron expects 1; otherwise speed only"},
	{"CUDA_MODULE_LOADING", 0, AllSoft, "LAZY may load, and so wait, inside a collective: programs with several streams can deadlock"},
	{"NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES", 0, Never, "it is the container's own; without \"utility\" there is no NVML: \"Failed to open libnvidia-ml.so.1\""},

	// Other launchers.
	{"OMPI_MCA_* OMPI_* PRTE_MCA_* PMIX_* PMI_*", 0, Never, "a worker believes that another launcher started it"},

	// The system.
	{"LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH VIRTUAL_ENV CONDA_PREFIX", 0, Node, "another NCCL or libibverbs is loaded; a value means something only where the files lie alike"},
	{"HOME USER LOGNAME PWD OLDPWD HOSTNAME DISPLAY TMPDIR PATH SHELL SSH_* XDG_* SLURM_* KUBERNETES_* NOMAD_*", 0, Never, "it names one machine, user or task"},
	{"http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY grpc_proxy no_grpc_proxy", 0, Never, "a proxy can intercept the connections of rendezvous: name the nodes in NO_PROXY"},
}

// Texts of several rows.
const (
	ucxText   = "\"Destination is unreachable\" or \"no active messages transport\""
	watchText = "only some ranks abort or write a dump, and the first cause stays unclear"
)

// contract lists the variables that gorun sets for every worker (torchrun's
// contract), whatever the node's environment says.
const contract = `
MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK GROUP_RANK ROLE_RANK
LOCAL_WORLD_SIZE GROUP_WORLD_SIZE ROLE_NAME ROLE_WORLD_SIZE
TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE
`
