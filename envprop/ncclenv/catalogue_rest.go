package ncclenv

import "strings"

// restRows are the variables that a job's environment governs besides the catalogue:
// whole families, and names that no rule of the preflight checks. They are looked up
// last, so that Lookup still does not find a name that the catalogue lacks.
var restRows = [...]row{
	{"NCCL_* RCCL_*", 0, AllSoft, "the ends of a connection may compute different sizes or orders from it"},

	// PyTorch.
	{"TORCH_DISTRIBUTED_DEBUG", 0, All, "DETAIL adds collectives: ranks without them hang"},
	{"TORCH_NCCL_* TORCH_FR_*", 0, AllSoft, watchText},
	{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE TORCH_NCCL_DEBUG_INFO_PIPE_FILE TORCH_FR_DUMP_TEMP_FILE TORCH_FR_DEBUG_INFO_PIPE_FILE TORCH_TRACE", 0, Node, "it names a file of the node"},
	{"TORCH_LOGS TORCH_LOGS_FORMAT TORCH_CPP_LOG_LEVEL TORCH_SHOW_CPP_STACKTRACES TORCH_SHOW_DISPATCH_TRACE", 0, Free, debugText},
	{"TORCH_CUDA_ARCH_LIST", 0, Node, "it is for the GPUs for which the node builds"},
	{"TORCH_* PYTORCH_* TORCHINDUCTOR_* TORCHDYNAMO_*", 0, AllSoft, "the ranks choose different kernels or paths: numbers and speed differ"},
	{"TORCHINDUCTOR_CACHE_DIR PYTORCH_BUILD_NUMBER", 0, Node, "it belongs to the node's image or disk"},
	{"TORCHELASTIC_*", 0, Node, "the launcher of the node reads it, or its workers do"},
	{"GLOO_DEVICE_TRANSPORT", 0, All, "one side speaks TLS and the other does not: connecting fails"},
	{"GLOO_* TP_*", 0, AllSoft, "the ends of a connection disagree"},

	// Threads.
	{"OMP_* KMP_* GOMP_* MKL_* OPENBLAS_* NUMEXPR_* VECLIB_*", 0, Node, "threads and their places are those of the node's CPUs"},
	{"MKL_CBWR MKL_SERVICE_FORCE_INTEL", 0, AllSoft, "the ranks compute with different kernels: results differ in the last bits"},

	// CUDA.
	{"CUDA_MPS_* CUDA_CACHE_* CUDA_COREDUMP_* CUDA_ENABLE_COREDUMP_*", 0, Node, "it names files or services of the node"},
	{"CUDA_* CUBLAS_* CUBLASLT_* CUDNN_* NVTE_*", 0, AllSoft, "the ranks choose different kernels or streams: numbers and speed differ"},
	{"NVIDIA_TF32_OVERRIDE", 0, AllSoft, "the ranks compute with different precision"},
	{"HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL", 0, Rank, "another node's list: \"invalid device ordinal\""},
	{"NVSHMEM_HCA_LIST", 0, Node, "another node's adapters"},
	{"NVSHMEM_* UCC_*", 0, AllSoft, "the ends of a connection disagree"},
	{"RDMAV_* IBV_* MLX5_*", 0, Node, "the drivers of the node's adapters read it"},

	// Python.
	{"PYTHONHASHSEED", 0, AllSoft, "sets have another order on some ranks: what the program does in that order differs"},
	{"PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONPYCACHEPREFIX", 0, Node, "it names a folder of the node"},
	{"PYTHONUNBUFFERED PYTHONFAULTHANDLER PYTHONDONTWRITEBYTECODE PYTHONWARNINGS", 0, Free, debugText},
}

// pathEndings lists endings of names. A variable of any family of restRows whose name ends
// so describes the node's own files, image or interfaces.
const pathEndings = `
_HOME _DIR _DIRS _PATH _PATHS _ROOT _PREFIX _FILE _LIB _LIBS _LIBRARY _LIBRARIES _INC _INCLUDE
_VERSION _IFNAME
`

const pathText = "it names files, an image or an interface of the node"

// Governed finds the entry of a variable that a job governs: in the catalogue, else
// among the families that are governed as a whole. A variable without an entry is the
// user's own and is sent to other nodes only when a user asks for it.
func Governed(name string) (Variable, bool) {
	if v, ok := Lookup(name); ok {
		return v, true
	}
	x := restIndex()
	if v, ok := x.entries[name]; ok {
		return v, true
	}
	v, ok := x.family(name)
	if ok {
		for end := range strings.FieldsSeq(pathEndings) {
			if strings.HasSuffix(name, end) {
				v.Scope, v.Text = Node, pathText
				break
			}
		}
	}
	return v, ok
}

// Soft reports whether a difference costs speed or clarity, not the job.
func (v Variable) Soft() bool {
	if v.Scope != All {
		return true
	}
	for _, prefix := range [...]string{"TORCH_", "CUDA_", "UCX_", "NCCL_RAS_", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT"} {
		if strings.HasPrefix(v.Name, prefix) {
			return v.Name != "TORCH_DISTRIBUTED_DEBUG"
		}
	}
	return false
}
