package library_test

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
	"github.com/gorun/gorun/rendezvous/preflight/library"
)

func TestOtherCandidates(t *testing.T) {
	s := newScene(t)
	nccl := func(path, version string) {
		s.lib(path, ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL(version, "12.2")})
	}
	nccl("/opt/conda/lib/libnccl.so.2.18.3", "2.18.3")
	s.link("libnccl.so.2.18.3", "/opt/conda/lib/libnccl.so.2")
	nccl("/usr/local/cuda-12.2/lib64/libnccl.so.2", "2.18.5")
	s.link("cuda-12.2", "/usr/local/cuda")
	nccl("/opt/nvidia/hpc_sdk/Linux_x86_64/23.9/comm_libs/12.2/nccl/lib/libnccl.so.2", "2.18.6")
	nccl("/home/u/.cupy/cuda_lib/12.x/nccl/2.16.5/lib/libnccl.so.2.16.5", "2.16.5")
	nccl("/job/vllm/libnccl.so.2.18.1", "2.18.1")
	s.lib("/usr/local/nccl2/lib/libnccl.so.2.12.10", ldsotest.Library{Soname: "libnccl.so.2"}) // without a version string
	s.link("libnccl.so.2.12.10", "/usr/local/nccl2/lib/libnccl.so.2")
	f, unknown := s.gather(library.Options{Program: "/job", Env: []string{"CONDA_PREFIX=" + s.at("/opt/conda"), "VLLM_NCCL_SO_PATH=vllm/libnccl.so.2.18.1"}})
	s.expectCandidate(f, "/opt/conda/lib/libnccl.so.2", "2.18.3", "CONDA_PREFIX")
	s.expectCandidate(f, "/usr/local/nccl2/lib/libnccl.so.2", "2.12.10", "version from the file's name")
	s.expectCandidate(f, "/opt/nvidia/hpc_sdk/Linux_x86_64/23.9/comm_libs/12.2/nccl/lib/libnccl.so.2", "2.18.6", "on no path that the loader searches")
	s.expectCandidate(f, "/home/u/.cupy/cuda_lib/12.x/nccl/2.16.5/lib/libnccl.so.2.16.5", "2.16.5", "CuPy")
	s.expectCandidate(f, "/job/vllm/libnccl.so.2.18.1", "2.18.1", "VLLM_NCCL_SO_PATH")
	if len(f.Candidates) != 6 || len(unknown) != 0 || f.NCCL != nil { // one file under /usr/local/cuda and cuda-12.2
		t.Errorf("candidates %+v, unknown %q", f.Candidates, unknown)
	}
}

func TestDriver(t *testing.T) {
	s := newScene(t)
	const dir = "/usr/lib/x86_64-linux-gnu/"
	s.env = append(s.env, "LD_LIBRARY_PATH="+s.at(dir))
	s.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)  Tue Mar  5 22:15:33 UTC 2024\nGCC version:  gcc version 12.2.0\n")
	cuda := ldsotest.Library{Soname: "libcuda.so.1"}
	s.lib(dir+"libcuda.so.550.54.15", cuda)
	s.link("libcuda.so.550.54.15", dir+"libcuda.so.1")
	s.lib(dir+"libnvidia-ml.so.535.104.05", ldsotest.Library{Soname: "libnvidia-ml.so.1"})
	s.link("libnvidia-ml.so.535.104.05", dir+"libnvidia-ml.so.1")
	s.lib("/usr/local/cuda-12.4/compat/libcuda.so.560.28.03", cuda)
	s.link("libcuda.so.560.28.03", "/usr/local/cuda-12.4/compat/libcuda.so.1")
	s.lib("/usr/local/cuda-12.4/lib64/stubs/libcuda.so", cuda)
	f, _ := s.gather(library.Options{Program: "/job", Env: []string{"LD_LIBRARY_PATH=" + s.at("/usr/local/cuda-12.4/lib64/stubs") + ":" + s.at(dir)}})
	if f.Driver != "550.54.15" || f.NVML != "535.104.05" {
		t.Errorf("driver %q, NVML %q", f.Driver, f.NVML)
	}
	want := []library.CUDA{
		{Path: s.at(dir + "libcuda.so.1"), Version: "550.54.15", Loaded: true, Why: "LD_LIBRARY_PATH"},
		{Path: s.at("/usr/local/cuda-12.4/lib64/stubs/libcuda.so"), Stub: true, Why: "stubs folder in LD_LIBRARY_PATH: taken by programs that open libcuda.so"},
		{Path: s.at("/usr/local/cuda-12.4/compat/libcuda.so.1"), Version: "560.28.03", Why: "forward compatibility, not searched"},
	}
	if !slices.Equal(f.CUDA, want) {
		t.Errorf("libcuda %+v", f.CUDA)
	}
	// The link puts the stub first in the loader's order.
	s.link("libcuda.so", "/usr/local/cuda-12.4/lib64/stubs/libcuda.so.1")
	f, _ = s.gather(library.Options{Program: "/job", Env: []string{"LD_LIBRARY_PATH=" + s.at("/usr/local/cuda-12.4/lib64/stubs") + ":" + s.at(dir)}})
	if c := f.CUDA[0]; !c.Stub || !c.Loaded || c.Why != "LD_LIBRARY_PATH" || len(f.CUDA) != 2 {
		t.Errorf("libcuda %+v", f.CUDA)
	}
	s = newScene(t)
	s.write("/sys/module/nvidia/version", "470.223.02\n")
	if f, _ := s.gather(library.Options{Program: "/job"}); f.Driver != "470.223.02" || len(f.CUDA) != 0 || f.NVML != "" {
		t.Errorf("driver %q, libcuda %+v", f.Driver, f.CUDA)
	}
}
