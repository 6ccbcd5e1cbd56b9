package ncclenv

import (
	"path/filepath"
	"slices"
	"strings"
)

// Named is a file that a variable of the workers names.
type Named struct {
	Name  string `json:"name"`            // name of the variable
	Path  string `json:"path"`            // its value
	Error string `json:"error,omitempty"` // why it cannot be read
}

// fileVariables lists the variables that name one file, or a plugin by its path. Other code
// looks for nccl.conf files and for NCCL's net and tuner plugins.
var fileVariables = []string{
	"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_TUNER_CONFIG_FILE", "NCCL_PROFILER_PLUGIN", "NCCL_ENV_PLUGIN", "NCCL_GIN_PLUGIN",
}

// NamedFiles tries the files that the values name, as a worker would open them.
func NamedFiles(o Options, values []Value) []Named {
	var all []Named
	for _, v := range values {
		if !slices.Contains(fileVariables, v.Name) || v.Value == "" || strings.HasSuffix(v.Name, "_PLUGIN") && !strings.Contains(v.Value, "/") {
			continue
		}
		full := v.Value
		if !filepath.IsAbs(full) {
			full = filepath.Join(o.Dir, full)
		}
		n := Named{Name: v.Name, Path: v.Value}
		if _, err := readFile(o.Root+full, 1); err != nil {
			n.Error = err.Error()
		}
		all = append(all, n)
	}
	return all
}
