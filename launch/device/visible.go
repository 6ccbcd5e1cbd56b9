package device

import (
	"fmt"
	"math"
	"strings"
)

// Visible gives the GPUs that CUDA shows under CUDA_VISIBLE_DEVICES=list, in
// CUDA's order; call it only when the variable is set. The rules are those of
// CUDA and of torch.cuda.device_count: an invalid entry hides itself and all
// that follow; an entry that is named twice hides everything; indexes and UUIDs
// (whole or their unambiguous beginning) do not mix. MIG instances cannot be
// looked up here and are believed. note says, for the user, what was cut off.
func Visible(gpus []GPU, list string) (visible []GPU, note string) {
	seen := map[string]bool{}
	mode := ""
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		gpu, kind, why := lookup(gpus, entry)
		if mode == "" {
			mode = kind
		}
		if why == "" && kind != mode {
			why = "mixes indexes and UUIDs"
		}
		if why != "" {
			// An empty list and -1 are the usual ways to say "none".
			if len(visible) == 0 && (entry == "" || entry == "-1") {
				return nil, ""
			}
			return visible, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s: %q %s, so CUDA ignores it and what follows", list, entry, why)
		}
		key := fmt.Sprint(gpu.Index, gpu.UUID)
		if seen[key] {
			return nil, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s names %q twice, so CUDA shows no GPU at all", list, entry)
		}
		seen[key] = true
		visible = append(visible, gpu)
	}
	return visible, ""
}

// lookup finds what one entry names; why says why it names nothing.
func lookup(gpus []GPU, entry string) (gpu GPU, kind, why string) {
	switch {
	case strings.HasPrefix(entry, "MIG-"):
		return GPU{Index: -1, UUID: entry}, "MIG", ""
	case strings.HasPrefix(entry, "GPU-"):
		found := 0
		for _, g := range gpus {
			if strings.HasPrefix(g.UUID, entry) {
				gpu, found = g, found+1
			}
		}
		if found > 1 {
			return gpu, "UUID", "fits several GPUs of this node"
		}
		if found == 0 {
			why = "is no GPU of this node"
		}
		return gpu, "UUID", why
	}
	n, ok := leadingNumber(entry)
	if !ok || n < 0 {
		return gpu, "index", "is no GPU"
	}
	if n >= len(gpus) {
		return gpu, "index", fmt.Sprintf("is no GPU of this node, which has %d", len(gpus))
	}
	return gpus[n], "index", ""
}

// leadingNumber reads as C's strtol does: a sign, digits, and anything after.
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
