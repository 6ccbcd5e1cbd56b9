// Package library finds out which NCCL, CUDA and torch a worker will load. It
// lists the other copies on the node and why the loader does not take them. It
// reads from files where Python looks for packages, and asks package ldso which
// libraries the loader takes.
//
// Invariants: no code of the worker or of a library runs. Every file is read
// within a bound, and hostile content is an error, never a panic. What cannot
// be decided stays empty with a reason.
package library

// Facts is what the node's workers would load.
type Facts struct {
	NCCL       *NCCL    `json:"nccl,omitempty"`       // the NCCL that workers will load; nil: no NCCL that they load is visible from files
	NCCLError  string   `json:"nccl_error,omitempty"` // workers need libnccl and would not find it: the loader's message
	GoNCCL     *NCCL    `json:"go_nccl,omitempty"`    // the NCCL that a Go worker opens if it computes on GPUs
	Candidates []NCCL   `json:"candidates,omitempty"` // every other libnccl found, with the reason why it is not loaded
	Wheels     []Wheel  `json:"wheels,omitempty"`     // nvidia-nccl-cu* packages in the site directories
	Torch      string   `json:"torch,omitempty"`      // torch's version, from torch/version.py
	TorchCUDA  string   `json:"torch_cuda,omitempty"` // "12.8"; "" for a build without CUDA
	Broken     []string `json:"broken,omitempty"`     // torch's own libraries that cannot be loaded, with the reason
	Python     string   `json:"python,omitempty"`     // "3.11": of the interpreter
	Sites      []string `json:"sites,omitempty"`      // site directories searched, in order
	Driver     string   `json:"driver,omitempty"`     // kernel module's version
	CUDA       []CUDA   `json:"cuda,omitempty"`       // libcuda.so.1 candidates, the loaded one first
	NVML       string   `json:"nvml,omitempty"`       // version in the name of the file behind libnvidia-ml.so.1
	LDPath     []string `json:"ld_library_path,omitempty"`
	Preload    []string `json:"ld_preload,omitempty"`
	Worker     string   `json:"worker,omitempty"` // the ELF file whose needs were followed
}

// NCCL is one libnccl, or a library that contains it.
type NCCL struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"` // "2.27.5", with a vendor's suffix if it has one; "" unknown
	Code    int    `json:"code,omitempty"`    // as ncclGetVersion returns it: 22705; 0 unknown
	CUDA    string `json:"cuda,omitempty"`    // "12.9", of the build
	Static  bool   `json:"static,omitempty"`  // inside another library
	Error   string `json:"error,omitempty"`   // why it cannot be loaded: no permission, no library, or cut off
	Why     string `json:"why"`               // how the loader finds it ("RPATH of /.../libtorch_cuda.so"), or why it does not
}

// Wheel is an installed Python package that owns nvidia/nccl/lib.
type Wheel struct {
	Name    string `json:"name"` // "nvidia-nccl-cu12"
	Version string `json:"version"`
	Site    string `json:"site"`
	File    bool   `json:"file"` // its libnccl.so.2 exists
}

// CUDA is one libcuda.so.1.
type CUDA struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"` // driver version in the real file's name: "550.54.15"
	Stub    bool   `json:"stub,omitempty"`    // in a stubs directory
	Loaded  bool   `json:"wins,omitempty"`    // dlopen("libcuda.so.1") returns this file; if no entry has Loaded, dlopen finds none
	Why     string `json:"why"`
}
