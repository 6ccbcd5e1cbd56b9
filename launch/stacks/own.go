package stacks

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// ownPython reports whether a Python file is the program's own. Files of libraries lie in
// the folders that Python installs to, or in the source tree of PyTorch, which images of
// vendors have elsewhere.
func ownPython(file string) bool {
	if strings.HasPrefix(file, "<") {
		return file == "<string>" || file == "<stdin>" || strings.HasPrefix(file, "<ipython")
	}
	for _, part := range []string{"/site-packages/", "/dist-packages/"} {
		if strings.Contains(file, part) {
			return false
		}
	}
	return !libraryPath.MatchString(file)
}

var libraryPath = regexp.MustCompile(`/lib(?:64)?/python\d(?:\.\d+)?/|/torch/(?:distributed|autograd|nn|optim|utils|cuda|multiprocessing|_tensor\.py|_dynamo|_inductor|_ops\.py)|/bin/(?:torchrun|accelerate|deepspeed)$`)

// ownGo reports whether a Go function is the program's own, by the path of its package.
func ownGo(function, file string) bool {
	pkg := packageOf(function)
	first, _, _ := strings.Cut(pkg, "/")
	switch {
	case strings.Contains(file, "/pkg/mod/"), within(pkg, ownModule+"/worker"):
		return false
	case slices.Contains(standardPackages(), first) && !strings.Contains(first, "."):
		return false
	}
	return pkg != ""
}

const ownModule = "github.com/gorun/gorun"

func within(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

// packageOf returns the import path of a function as a trace prints it:
// "github.com/a/b.(*T).f", "main.main.func1".
func packageOf(function string) string {
	slash := strings.LastIndexByte(strings.SplitN(function, "[", 2)[0], '/') + 1
	name, _, ok := strings.Cut(function[slash:], ".")
	if !ok {
		return ""
	}
	return function[:slash] + name
}

// standardPackages lists the first elements of the standard library's import paths in
// which a program can wait.
func standardPackages() []string {
	return []string{
		"bufio", "bytes", "compress", "context", "crypto", "database", "encoding", "fmt", "hash", "internal", "io", "iter", "log",
		"math", "net", "os", "reflect", "runtime", "slices", "sort", "strings", "sync", "syscall", "testing", "time", "unique",
	}
}

// ownNative reports whether a frame with a source file is the program's own.
func ownNative(file string) bool {
	return file != "" && !strings.Contains(file, "/sysdeps/") && !strings.HasPrefix(file, "./") && !strings.Contains(file, "/glibc") &&
		!strings.HasPrefix(file, "/usr/")
}

// callOf returns the index and the name of the call in which the frames of libraries, the
// innermost first, are: the outermost collective, which is what the program called.
// Without one it is another call that is known to take long; -1: there is none.
func callOf(frames []Frame) (at int, name string) {
	at = -1
	for i, f := range slices.Backward(frames) {
		part := lastPart(f.Func)
		switch {
		case isCollective(f, part):
			return i, part
		case at < 0 && strings.Contains(f.File, "/torch/") && (part == "backward" || part == "step"):
			at, name = i, part
		}
	}
	return at, name
}

// callIn returns the name of the call in which frames of libraries are.
func callIn(frames []Frame) string {
	_, name := callOf(frames)
	return name
}

// lastPart returns the name of a function without its package, its receiver and its type
// parameters: "AllReduce" of "github.com/gorun/gorun/worker.AllReduce[...]".
func lastPart(function string) string {
	function, _, _ = strings.Cut(function, "[")
	function, _, _ = strings.Cut(function, "(")
	return function[strings.LastIndexByte(function, '.')+1:]
}

// isCollective reports whether a frame is a call that waits for other ranks.
func isCollective(f Frame, name string) bool {
	if pkg := packageOf(f.Func); pkg == ownModule+"/worker" {
		return slices.Contains(goCollectives(), name)
	}
	if strings.HasPrefix(name, "MPI_") || strings.HasPrefix(name, "nccl") && name != "nccl" {
		return true
	}
	if !strings.Contains(f.File, "distributed") && !strings.Contains(f.File, "deepspeed/comm") && !strings.Contains(f.File, "horovod/") {
		return false
	}
	return slices.Contains(pythonCollectives(), name)
}

func goCollectives() []string {
	return []string{
		"AllGather", "AllGatherV", "AllReduce", "AllToAll", "AllToAllV", "Barrier", "Broadcast", "BroadcastValue", "Close", "Comm",
		"Gather", "Init", "Recv", "Reduce", "ReduceScatter", "Scatter", "Send", "SendRecv", "Split", "Wait", "WaitAll",
	}
}

func pythonCollectives() []string {
	return []string{
		"all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced",
		"all_to_all", "all_to_all_single", "allgather", "allreduce", "alltoall", "barrier", "batch_isend_irecv", "broadcast",
		"broadcast_object_list", "destroy_process_group", "gather", "gather_object", "init_process_group", "irecv", "isend",
		"monitored_barrier", "new_group", "recv", "recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor",
		"reduce_scatter_v", "scatter", "scatter_object_list", "send", "send_object_list", "_all_gather_base", "_reduce_scatter_base",
		"init_device_mesh", "wait_tensor",
	}
}
