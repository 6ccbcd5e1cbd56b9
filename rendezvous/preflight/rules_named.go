package preflight

import "slices"

// namedRules is E06: whether the files are there that variables name.
func namedRules() []Rule {
	return []Rule{{
		ID: "E06", Name: "env-files", Severity: Warning,
		Meaning: "The files that NCCL_TOPO_FILE, NCCL_GRAPH_FILE, NCCL_TUNER_CONFIG_FILE and, by their paths, NCCL_PROFILER_PLUGIN, NCCL_ENV_PLUGIN and NCCL_GIN_PLUGIN name are on every node and can be read; the graph's, and a plugin that has to be on all nodes, is an error. N02 has NCCL's net and tuner plugins, E05 its conf files.",
		Users:   "`Could not open XML graph file`; otherwise nothing: NCCL goes on without the file, other than on the nodes that have it.",
		Steps: []Step{
			byHand("put the file on the marked nodes, where the job's user may read it"),
		},
		Check: checkNamed,
	}}
}

func checkNamed(f *Fleet) []Finding {
	if !f.look().nccl {
		return nil
	}
	missing := func(grave bool) []Value {
		return odd(f.collect(func(_ int, n *Facts, add func(string)) {
			for _, file := range n.Files {
				must := slices.Contains([]string{"NCCL_GRAPH_FILE", "NCCL_ENV_PLUGIN", "NCCL_GIN_PLUGIN"}, file.Name)
				if n.GPU.Driver && file.Error != "" && must == grave && n.env(file.Name) == file.Path {
					add(file.Name + "=" + file.Path + ": " + file.Error)
				}
			}
		}))
	}
	return append(one(missing(true), Finding{Severity: Error, Text: "A variable names a file that is not there or cannot be read: NCCL fails, or its ranks differ."}),
		one(missing(false), Finding{Text: "A variable names a file that is not there or cannot be read: NCCL goes on without it, other than on nodes that have it."})...)
}
