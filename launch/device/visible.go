package device

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// visibleToCUDA returns the GPUs that CUDA shows under CUDA_VISIBLE_DEVICES=list, in
// CUDA's order. open are the GPUs that CUDA can open. The rules are those of CUDA and
// of torch.cuda.device_count: an invalid entry hides itself and all that follow; an
// entry that is named twice hides everything; indexes, UUIDs (whole or their
// unambiguous beginning) and MIG instances do not mix. A GPU in MIG mode stands for
// its first instance. note says which entries CUDA ignores.
func visibleToCUDA(open []GPU, list string) (visible []GPU, note string) {
	seen := map[string]bool{}
	mode := ""
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		gpu, kind, why := lookup(open, entry)
		if mode == "" {
			mode = kind
		}
		if why == "" && kind != mode {
			why = "mixes indexes, UUIDs and MIG instances"
		}
		if why != "" {
			// An empty list and -1 are the usual ways to say "none"; NoDevFiles is Slurm's.
			if len(visible) == 0 && (entry == "" || entry == "-1" || entry == "NoDevFiles") {
				return nil, ""
			}
			return visible, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s: %q %s, so CUDA ignores it and what follows", list, entry, why)
		}
		key := fmt.Sprint(gpu.Index, gpu.UUID)
		if seen[key] {
			return nil, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s names %q twice, so CUDA shows no GPU at all", list, entry)
		}
		seen[key] = true
		gpu.Entry = entry
		visible = append(visible, gpu)
	}
	return visible, ""
}

// lookup finds the GPU that an entry names. why says why it names none.
func lookup(open []GPU, entry string) (gpu GPU, kind, why string) {
	switch {
	case strings.HasPrefix(entry, "MIG-"):
		gpu, why = lookupMIG(open, entry)
		return gpu, "MIG", why
	case strings.HasPrefix(entry, "GPU-"):
		found := 0
		for _, g := range open {
			if strings.HasPrefix(g.UUID, entry) {
				gpu, found = g, found+1
			}
		}
		if found > 1 {
			return gpu, "UUID", "fits several GPUs of this node"
		}
		if found == 0 {
			return gpu, "UUID", "is no GPU of this node"
		}
		gpu, why = firstInstance(gpu)
		return gpu, "UUID", why
	}
	n, ok := leadingNumber(entry)
	if !ok || n < 0 {
		return gpu, "index", "is no GPU"
	}
	if n >= len(open) {
		return gpu, "index", fmt.Sprintf("is no GPU of this node, which has %d", len(open))
	}
	gpu, why = firstInstance(open[n])
	return gpu, "index", why
}

// firstInstance returns what CUDA uses of a GPU that an entry names as a whole: the
// GPU or, in MIG mode, its first instance.
func firstInstance(g GPU) (GPU, string) {
	if g.MIG == nil || !*g.MIG {
		return g, ""
	}
	if len(g.Instances) == 0 {
		return g, "is in MIG mode and has no instance"
	}
	return instancesOf(g)[0], ""
}

// lookupMIG finds an instance by its UUID, or by the UUID of its GPU and its
// numbers. Where a GPU's instances are unknown, as without NVML, it accepts the
// entry.
func lookupMIG(open []GPU, entry string) (gpu GPU, why string) {
	found := 0
	for _, g := range open {
		for _, part := range instancesOf(g) {
			if matchesInstance(open, part, entry) {
				gpu, found = part, found+1
			}
		}
	}
	switch {
	case found == 1:
		return gpu, ""
	case found > 1:
		return gpu, "fits several MIG instances of this node"
	case len(open) == 0 || slices.ContainsFunc(open, func(g GPU) bool { return g.MIG == nil }):
		return GPU{Index: -1, UUID: entry}, ""
	}
	return gpu, "is no MIG instance of this node"
}

// matchesInstance reports whether name is an instance's UUID, the beginning of it, or
// "MIG-<its GPU's UUID>/<GPU instance>/<compute instance>".
func matchesInstance(open []GPU, part GPU, name string) bool {
	if strings.HasPrefix(part.UUID, name) {
		return true
	}
	for _, g := range open {
		for _, in := range g.Instances {
			if in.UUID == part.UUID && in.GI != nil && in.CI != nil &&
				name == fmt.Sprintf("MIG-%s/%d/%d", g.UUID, *in.GI, *in.CI) {
				return true
			}
		}
	}
	return false
}

// leadingNumber reads a number as C's strtol does: a sign, digits, and anything
// after.
func leadingNumber(s string) (n int, ok bool) {
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			break
		}
		n, ok = min(n*10+int(c-'0'), math.MaxInt32), true
	}
	if strings.HasPrefix(s, "-") {
		n = -n
	}
	return n, ok
}
