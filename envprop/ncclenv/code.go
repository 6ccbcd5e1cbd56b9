package ncclenv

import (
	"strings"
	"sync"
)

// CodeRow lists variables with the reason why they are dangerous. Such a variable makes a
// worker run code, or overwrite its user's files.
type CodeRow struct {
	Names string // separated by blanks; * stands for anything at the end or, before a word, at the beginning
	Why   string // the reason, as part of a sentence
}

// CodeRows lists the variables that only a trusted node may set for another one.
// docs/usage.md has the same list.
func CodeRows() []CodeRow { return codeRows[:] }

var codeRows = [...]CodeRow{
	{"LD_* GCONV_PATH LOCPATH NLSPATH GETCONF_DIR GLIBC_TUNABLES MALLOC_TRACE RESOLV_HOST_CONF HOSTALIASES TZDIR", "the loader and the C library load or write the files that they name"},
	{"PATH HOME SHELL TMPDIR TMP TEMP TEMPDIR XDG_* CDPATH PWD OLDPWD TERMINFO TERMINFO_DIRS TERMCAP INPUTRC", "programs, start files and settings are looked for there"},
	{"ENV BASH_* SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND IFS ZDOTDIR FPATH", "shells run their values, or the files that they name"},
	{"BROWSER PAGER EDITOR VISUAL MANPAGER LESSOPEN LESSCLOSE *_PAGER *_EDITOR *_ASKPASS", "programs run their values as commands"},
	{"*_COMMAND *_CMD *_EXEC *_EXECUTABLE *_LAUNCHER *_WRAPPER *_HOOK *_HOOKS *_PRELOAD *_STARTUP_HOOKS *_RSH *_SSH", "by their names they are commands, or files that are loaded first"},
	{"*PLUGIN *PLUGINS *_PLUGIN_* *INJECTION* *_SYMBOLIZER_PATH", "they name libraries that are loaded, or programs that are run"},
	{"PYTHON* PYENV_* VIRTUAL_ENV CONDA_* PIP_* UV_* IPYTHONDIR JUPYTER_* MPLCONFIGDIR MATPLOTLIBRC NUMBA_* SETUPTOOLS_* DISTUTILS_*", "Python finds modules, and runs code, through them"},
	{"PERL5* PERLLIB RUBY* GEM_* BUNDLE_* NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NPM_CONFIG_* npm_config_* JAVA_* _JAVA_OPTIONS JDK_* CLASSPATH LUA_* LUAJIT_* JULIA_* R_HOME R_LIBS* R_PROFILE* R_ENVIRON* TCLLIBPATH PHPRC PHP_INI_SCAN_DIR DOTNET_* COMPLUS_* CORECLR_* COR_* MONO_* ERL_* ERLC_* GUILE_* DENO_DIR", "interpreters load modules, or take options, from them"},
	{"GOFLAGS GOROOT GOPATH GOENV GOBIN GOTOOLCHAIN GOPROXY GOSUMDB GOCOVERDIR GOCACHE GORUN_* PET_* TORCHELASTIC_*", "Go and launchers that a worker starts take paths and options from them"},
	{"CC CXX CPP LD AR AS NM FC HOSTCC CUDACXX CUDAHOSTCXX NVCC* CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES CMAKE_* NINJA* CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_* CCACHE_* RUSTC* RUSTFLAGS RUSTDOC* RUSTUP_* CARGO_* PKG_CONFIG* LLVM_*", "they name, or configure, the compilers that a worker starts"},
	{"TORCH_EXTENSIONS_DIR TORCH_HOME TORCH_COMPILE_DEBUG* TORCH_TRACE TORCH_LOGS_OUT TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD TORCHINDUCTOR_PROFILE_OUTPUT TORCHINDUCTOR_*REMOTE* *_CACHE_DIR *_CACHE_PATH *_CACHE_HOME *_DUMP_DIR *_DUMP_PATH *_OVERRIDE_DIR TRITON_* XLA_FLAGS PJRT_* TPU_LIBRARY_PATH KINETO_* HF_HOME HF_MODULES_CACHE HF_ENDPOINT TRANSFORMERS_CACHE HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_DATASETS_CACHE HF_DATASETS_TRUST_REMOTE_CODE", "frameworks load code from there, or write there"},
	{"CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_COREDUMP_* CUDA_LOG_FILE CUDA_MPS_* CUBLAS_LOG* CUDNN_LOG* NVTX_* NSYS_* CUPTI_* OCL_* OPENCL_* VK_* HSA_TOOLS_* ROCM_PATH HIP_PATH HIPCC* ROCP_* ROCPROFILER_* INTEL_LIBITTNOTIFY* INTEL_JIT_PROFILER* ACC_PROFLIB CUFILE_ENV_PATH_JSON CUFILE_LOGFILE_PATH *_LOG_FILE", "CUDA and its tools load libraries from there, or write there"},
	{"NCCL_CONF_FILE NCCL_DEBUG_FILE NCCL_*_DUMP_FILE NCCL_PROXY_PROFILE_DIR NCCL_TUNER_CONFIG_FILE NCCL_TUNER_CONFIG_PATH NCCL_IBVERBS_LIB NCCL_CUDA_PATH RCCL_*_FILE TORCH_NCCL_DEBUG_INFO_* TORCH_FR_DUMP_* TORCH_FR_DEBUG_INFO_*", "NCCL and PyTorch load these files, or write over them"},
	{"UCX_MODULE* UCX_LOG_FILE UCX_STATS_DEST UCX_CONFIG_DIR UCC_COMPONENT_PATH UCC_CONFIG_FILE UCC_LOG_FILE FI_PROVIDER_PATH FI_HOOK IBV_* RDMAV_* MLX5_* HCOLL_* SHARP_* PSM2_* PSM3_*", "transports load libraries from there, or write there"},
	{"OMPI_* OPAL_* PRTE_* PMIX_* PMI_* ORTE_* HYDRA_* MPICH_* MPIEXEC_* I_MPI_* MV2_* SLURM_* SBATCH_* SRUN_* SALLOC_*", "MPI and schedulers load components, and start programs, through them"},
	{"DOCKER_* CONTAINER_HOST PODMAN_* BUILDAH_* APPTAINER* SINGULARITY* ENROOT_* KUBECONFIG SSH_* GIT_* HGRCPATH HGEDITOR HGMERGE SVN_* CVS_* RSYNC_* SUDO_* AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_*", "they decide which commands tools run, or to where tools connect"},
	{"*_PROXY *_proxy SSL_CERT_* OPENSSL_* REQUESTS_CA_BUNDLE CURL_* WGETRC NETRC KRB5_* SASL_PATH LOCALDOMAIN RES_OPTIONS DEBUGINFOD_URLS", "they decide from where a worker fetches files and code"},
	{"GTK_* GIO_* GST_* GDK_PIXBUF_* QT_* QML* LIBGL_* GBM_* EGL_* __EGL_* __GLX_* LIBVA_* VDPAU_* SDL_DYNAMIC_API GDAL_DRIVER_PATH TCL_LIBRARY TK_LIBRARY GLOG_* ASAN_OPTIONS LSAN_OPTIONS MSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS GCOV_* MAGICK_* VIMINIT EXINIT EMACSLOADPATH", "libraries load modules from there, or write there"},
}

// harmless lists variables of the families above that only switch something, or name a
// file that is read as data. Nodes may take them from each other.
const harmless = `
PYTHONHASHSEED PYTHONUNBUFFERED PYTHONFAULTHANDLER PYTHONDONTWRITEBYTECODE PYTHONUTF8
NUMBA_NUM_THREADS NUMBA_DISABLE_JIT NVTX_DISABLE KINETO_LOG_LEVEL HYDRA_FULL_ERROR
NCCL_NET_PLUGIN_REF_COUNT NCCL_TOPO_FILE NCCL_GRAPH_FILE TORCH_NCCL_ENABLE_PROFILER_PLUGIN
`

// HarmlessCode lists the harmless variables of the families of CodeRows.
func HarmlessCode() []string { return strings.Fields(harmless) }

// codeIndex indexes CodeRows by name.
type codeIndex struct {
	names    map[string]bool // true: it runs code; false: it is harmless
	patterns []string
}

var codeNames = sync.OnceValue(func() codeIndex {
	x := codeIndex{names: map[string]bool{}}
	for _, r := range codeRows {
		for name := range strings.FieldsSeq(r.Names) {
			if strings.Contains(name, "*") {
				x.patterns = append(x.patterns, name)
			} else {
				x.names[name] = true
			}
		}
	}
	for _, name := range HarmlessCode() {
		x.names[name] = false
	}
	return x
})

// RunsCode reports whether a variable makes programs run or load code, or write to a
// file that it names. Only a trusted node may set such a variable for another node's
// workers. They are the variables of CodeRows, and those of the libraries' families
// that name files.
func RunsCode(name string) bool {
	x := codeNames()
	if is, known := x.names[name]; known {
		return is
	}
	for _, p := range x.patterns {
		if matchStars(p, name) {
			return true
		}
	}
	_, main := index().family(name)
	_, rest := restIndex().family(name)
	return (main || rest) && namesPath(name)
}

// RunsCodeWith is RunsCode for one value. The value "none" of a plugin variable runs no
// code, because it loads no plugin.
func RunsCodeWith(name, value string) bool {
	return RunsCode(name) && !(value == "none" && strings.HasSuffix(name, "_PLUGIN"))
}

// matchStars matches a name with a pattern in which * stands for anything.
func matchStars(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], after
	}
}

// namesPath reports whether a name has an ending of variables that name a node's
// files.
func namesPath(name string) bool {
	for end := range strings.FieldsSeq(pathEndings) {
		if strings.HasSuffix(name, end) && end != "_IFNAME" && end != "_VERSION" {
			return true
		}
	}
	return false
}
