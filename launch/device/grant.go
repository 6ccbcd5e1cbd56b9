package device

import (
	"slices"
	"strconv"
	"strings"
)

// filter reports whether the workers may use a GPU or a MIG instance.
type filter func(GPU) bool

// maxNumbers bounds the numbers in a scheduler's list.
const maxNumbers = 1024

// parseContainerGrant reads NVIDIA_VISIBLE_DEVICES. The variable was set when the
// container was made, so its numbers are the machine's and not the container's. A
// nil filter allows every GPU. why says that the list names no GPU of this node.
// With CDI every container has "void", whatever GPUs it got, so "void" allows every
// GPU.
func parseContainerGrant(open []GPU, list string) (allows filter, why string) {
	var numbers []int
	var names []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if _, device, ok := strings.Cut(entry, "="); ok { // CDI's nvidia.com/gpu=0
			entry = device
		}
		switch n, err := strconv.Atoi(entry); {
		case entry == "all", entry == "void":
			return nil, ""
		case entry == "":
		case entry == "none":
			return func(GPU) bool { return false }, ""
		case err == nil && n >= 0:
			numbers = append(numbers, n)
		default:
			names = append(names, entry)
		}
	}
	if len(numbers)+len(names) == 0 {
		return nil, ""
	}
	byNumber, fits := filterByNumber(open, numbers, len(names))
	allows = func(g GPU) bool {
		return byNumber(g) || slices.ContainsFunc(names, func(n string) bool { return isNamed(open, g, n) })
	}
	if !fits && !slices.ContainsFunc(open, func(g GPU) bool { return allows(g) || slices.ContainsFunc(instancesOf(g), allows) }) {
		return nil, "names no GPU that the driver shows here"
	}
	return allows, ""
}

// isNamed reports whether name means the GPU g, an instance of g, or the GPU that
// g is a part of. "0:1" is instance 1 of GPU 0.
func isNamed(open []GPU, g GPU, name string) bool {
	if strings.HasPrefix(name, "GPU-") {
		return strings.HasPrefix(g.UUID, name) || strings.HasPrefix(g.Parent, name)
	}
	if strings.HasPrefix(name, "MIG-") {
		return matchesInstance(open, g, name)
	}
	whole, part, _ := strings.Cut(name, ":")
	n, err := strconv.Atoi(whole)
	i, err2 := strconv.Atoi(part)
	if err != nil || err2 != nil || i < 0 {
		return false
	}
	for _, parent := range open {
		if parent.Index == n && i < len(parent.Instances) {
			return parent.Instances[i].UUID == g.UUID
		}
	}
	return false
}

// parseSlurmGrant reads SLURM_STEP_GPUS or SLURM_JOB_GPUS. These number the GPUs as
// the machine does, even if a cgroup hides some of them. Slurm numbers MIG
// instances in an order of its own. On a node with MIG instances parseSlurmGrant
// therefore ignores the list, and CUDA_VISIBLE_DEVICES has the instances' names.
func parseSlurmGrant(open []GPU, list string) (allows filter, why string) {
	if slices.ContainsFunc(open, func(g GPU) bool { return g.MIG != nil && *g.MIG }) {
		return nil, ""
	}
	var numbers []int
	for entry := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(entry), "-")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		if err != nil || a < 0 || b < a || b-a+len(numbers) >= maxNumbers {
			return nil, "is not a list of numbers"
		}
		for n := a; n <= b; n++ {
			numbers = append(numbers, n)
		}
	}
	allows, fits := filterByNumber(open, numbers, 0)
	if !fits {
		return nil, "names no GPU that the driver shows here"
	}
	return allows, ""
}

// filterByNumber finds the GPUs that have the given numbers on the machine. others
// is the number of other entries in the list. A container or a cgroup renumbers
// the visible GPUs but not their files in /dev, so the numbers of the files count.
// fits is false if no GPU has one of the numbers.
func filterByNumber(open []GPU, numbers []int, others int) (allows filter, fits bool) {
	nothing := func(GPU) bool { return false }
	if len(numbers) == 0 {
		return nothing, false
	}
	if others == 0 && len(open) <= len(numbers) { // the machine's other GPUs are already hidden
		return func(GPU) bool { return true }, true
	}
	number := func(g GPU) int { return *g.Minor }
	if slices.ContainsFunc(open, func(g GPU) bool { return g.Minor == nil }) {
		if slices.Max(numbers) >= len(open) { // the numbers cannot be indexes of the visible GPUs
			return nothing, false
		}
		number = func(g GPU) int { return g.Index }
	}
	given := map[string]bool{}
	for _, g := range open {
		if slices.Contains(numbers, number(g)) {
			given[identity(g)] = true
		}
	}
	return func(g GPU) bool { return given[identity(g)] }, len(given) > 0
}

// identity returns one text for a GPU and its instances.
func identity(g GPU) string {
	if g.PCI != "" {
		return g.PCI
	}
	if g.Parent != "" {
		return g.Parent
	}
	return g.UUID
}
