package ncclenv

import (
	"os"
	"strings"
	"testing"
)

func TestRunsCode(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"LD_PRELOAD": true, "LD_AUDIT": true, "PYTHONPATH": true, "PYTHONWARNINGS": true, "PYTHON_EXEC": true, "BROWSER": true, "PATH": true,
		"BASH_ENV": true, "ENV": true, "PS4": true, "PERL5OPT": true, "RUBYOPT": true, "NODE_OPTIONS": true, "JAVA_TOOL_OPTIONS": true, "_JAVA_OPTIONS": true,
		"NCCL_NET_PLUGIN": true, "NCCL_TUNER_PLUGIN": true, "NCCL_PROFILER_PLUGIN": true, "NCCL_GIN_PLUGIN": true, "NCCL_CONF_FILE": true, "NCCL_DEBUG_FILE": true,
		"NCCL_TOPO_DUMP_FILE": true, "CUDA_INJECTION64_PATH": true, "NVTX_INJECTION64_PATH": true, "CUDA_COREDUMP_PIPE": true, "CUBLASLT_LOG_FILE": true,
		"TORCH_EXTENSIONS_DIR": true, "TORCHINDUCTOR_CACHE_DIR": true, "TRITON_PTXAS_PATH": true, "OMP_TOOL_LIBRARIES": true, "CC": true, "HOME": true, "TMPDIR": true,
		"XDG_CACHE_HOME": true, "OMPI_MCA_mca_base_component_path": true, "UCX_MODULE_DIR": true, "UCX_GDB_COMMAND": true, "FI_PROVIDER_PATH": true, "IBV_DRIVERS": true,
		"GIT_SSH_COMMAND": true, "WANDB__EXECUTABLE": true, "https_proxy": true, "NVSHMEM_BOOTSTRAP_PLUGIN": true, "HF_ENDPOINT": true, "GCONV_PATH": true,
		"INTEL_LIBITTNOTIFY64": true, "HF_HUB_CACHE": true, "CUSOLVER_LOG_FILE": true, "CUFILE_LOGFILE_PATH": true, "__EGL_VENDOR_LIBRARY_DIRS": true, "LIBVA_DRIVERS_PATH": true,
		"NCCL_ALGO": false, "NCCL_DEBUG": false, "NCCL_SOCKET_IFNAME": false, "PYTHONHASHSEED": false, "SEED": false, "MODEL": false, "DATA_DIR": false, "CUDA_DEVICE_ORDER": false,
		"TORCH_DISTRIBUTED_DEBUG": false, "OMP_NUM_THREADS": false, "UCX_TLS": false, "HF_TOKEN": false, "GOOGLE_PROJECT": false, "NCCL_TOPO_FILE": false, "NCCL_VERSION": false,
		"": false, "LD": true, "LDX": false, "ENVIRONMENT": false, "PLUGIN": true, "TORCH_NCCL_ENABLE_PROFILER_PLUGIN": false,
	} {
		if got := RunsCode(name); got != want {
			t.Errorf("RunsCode(%q) = %v, want %v", name, got, want)
		}
	}
	if RunsCodeWith("NCCL_NET_PLUGIN", "none") || !RunsCodeWith("NCCL_NET_PLUGIN", "ofi") || !RunsCodeWith("PATH", "none") {
		t.Error("only a plugin that is named none loads nothing")
	}
}

// The user reads the same list.
func TestCodeRowsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/usage.md")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.ReplaceAll(string(text), `\`, "")
	for _, r := range CodeRows() {
		if want := "| " + strings.ReplaceAll(r.Names, " ", ", ") + " | " + r.Why + " |"; !strings.Contains(plain, want) {
			t.Errorf("docs/usage.md lacks the row\n%s", want)
		}
	}
	if want := strings.Join(HarmlessCode(), ", "); !strings.Contains(plain, want) {
		t.Errorf("docs/usage.md lacks %s", want)
	}
}
