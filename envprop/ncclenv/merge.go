package ncclenv

import (
	"slices"
	"strings"
)

// Bounds on what Merge returns.
const (
	maxValues = 512
	maxValue  = 8 << 10 // bytes
)

// Environment is the source of values that come from no conf file.
const Environment = "environment"

// Merge returns the values that workers with this environment would see once NCCL has
// read the files, by name. A value comes from the environment, else from the first file
// that sets it (files are in the order in which NCCL reads them). Merge returns all
// variables of the files, but of the environment only those that matter to a job. If
// env has a variable twice, the last entry counts, as in os/exec. Merge hides values
// that look like credentials.
func Merge(env []string, files []File) []Value {
	all := map[string]*Value{}
	var names []string
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !isRelevant(name) {
			continue
		}
		if all[name] == nil {
			names = append(names, name)
		}
		all[name] = &Value{Name: name, Value: Shown(name, value), Source: Environment}
	}
	for _, f := range files {
		for _, e := range f.Entries {
			value := Shown(e.Name, e.Value)
			if won := all[e.Name]; won != nil {
				won.Hidden = append(won.Hidden, From{value, f.Facts.Path})
				continue
			}
			names = append(names, e.Name)
			all[e.Name] = &Value{Name: e.Name, Value: value, Source: f.Facts.Path}
		}
	}
	slices.Sort(names)
	names = names[:min(len(names), maxValues)]
	values := make([]Value, len(names))
	for i, name := range names {
		values[i] = *all[name]
	}
	return values
}

// Find returns the value of a variable among those of Merge.
func Find(values []Value, name string) (Value, bool) {
	i, ok := slices.BinarySearchFunc(values, name, func(v Value, name string) int { return strings.Compare(v.Name, name) })
	if !ok {
		return Value{}, false
	}
	return values[i], true
}

// isRelevant reports whether a variable of the environment can decide whether
// ranks work together.
func isRelevant(name string) bool {
	switch name {
	case "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
		"grpc_proxy", "no_grpc_proxy", "VIRTUAL_ENV", "CONDA_PREFIX":
		return true
	}
	head, _, ok := strings.Cut(name, "_")
	if !ok {
		return strings.HasPrefix(name, "PYTHON")
	}
	switch head {
	case "NCCL", "RCCL", "MSCCL", "MSCCLPP", "GLOO", "TORCH", "TORCHELASTIC", "TP", "UCX", "UCC", "CUDA", "NVIDIA",
		"OMP", "MKL", "FI", "OFI", "RDMAV", "MLX5", "IBV", "MASTER", "LD", "OMPI", "PRTE", "PMIX", "PMI":
		return true
	}
	return strings.HasPrefix(head, "PYTHON")
}
