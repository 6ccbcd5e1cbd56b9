package cuda

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/gorun/gorun/worker/contract"
)

// Settings says which GPU and which libraries a process uses. The zero value stands for
// the first visible GPU and for what the loader finds.
type Settings struct {
	Device    string   // UUID of the GPU: GORUN_DEVICE
	LocalRank int      // without Device: which of the visible GPUs, if there are several: LOCAL_RANK
	NCCL      string   // path of libnccl: GORUN_NCCL_LIB
	CUDA      string   // path of libcuda: GORUN_CUDA_LIB
	Pythons   []string // prefixes of Python environments, whose packages may have a libnccl: VIRTUAL_ENV, CONDA_PREFIX, PATH
}

// FromEnv reads Settings from environment variables; lookup is os.LookupEnv or a stand-in.
func FromEnv(lookup func(string) (string, bool)) Settings {
	get := func(name string) string { v, _ := lookup(name); return v }
	s := Settings{Device: get(contract.EnvDevice), NCCL: get(contract.EnvNCCL), CUDA: get(contract.EnvCUDA)}
	if n, err := strconv.Atoi(get("LOCAL_RANK")); err == nil && n >= 0 {
		s.LocalRank = n
	}
	s.Pythons = pythons(get)
	return s
}

// pythons returns the prefixes of the Python environments that the process is in. Their
// packages may have a libnccl that the loader does not find.
func pythons(get func(string) string) []string {
	var all []string
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := get(name); filepath.IsAbs(prefix) {
			all = append(all, prefix)
		}
	}
	for _, dir := range filepath.SplitList(get("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, "python3")); err == nil && info.Mode().IsRegular() && filepath.IsAbs(dir) {
			return append(all, filepath.Dir(filepath.Clean(dir)))
		}
	}
	return all
}

// places returns the paths at which a libnccl may be beside those that the loader searches.
func (s *Settings) places() []string {
	var all []string
	for _, prefix := range s.Pythons {
		wheels, _ := filepath.Glob(filepath.Join(prefix, "lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
		all = append(all, wheels...)
		all = append(all, filepath.Join(prefix, "lib/libnccl.so.2"))
	}
	return all
}
