package device

import (
	"slices"
	"strconv"
	"strings"
)

// filter reports whether a GPU, or a MIG instance, was given.
type filter func(GPU) bool

// maxNumbers bounds the numbers in a scheduler's list.
const maxNumbers = 1024

// containerGrant reads NVIDIA_VISIBLE_DEVICES, which was set when the container
// was made, so its numbers are the machine's and not the container's. A nil
// filter allows everything. why says that the list fits nothing here. "void"
// says nothing, because with CDI every container has it, whatever the container
// was given.
func containerGrant(open []GPU, list string) (allows filter, why string) {
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
	byNumber, fits := hostNumbers(open, numbers, len(names))
	allows = func(g GPU) bool {
		return byNumber(g) || slices.ContainsFunc(names, func(n string) bool { return named(open, g, n) })
	}
	if !fits && !slices.ContainsFunc(open, func(g GPU) bool { return allows(g) || slices.ContainsFunc(instances(g), allows) }) {
		return nil, "names no GPU that the driver shows here"
	}
	return allows, ""
}

// named reports whether name means the GPU g, an instance of g, or the GPU that
// g is a part of. "0:1" is instance 1 of GPU 0.
func named(open []GPU, g GPU, name string) bool {
	if strings.HasPrefix(name, "GPU-") {
		return strings.HasPrefix(g.UUID, name) || strings.HasPrefix(g.Parent, name)
	}
	if strings.HasPrefix(name, "MIG-") {
		return matches(open, g, name)
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

// slurmGrant reads SLURM_STEP_GPUS or SLURM_JOB_GPUS, in which GPUs have the
// machine's numbers even if a cgroup leaves fewer GPUs. Where GPUs are divided
// into instances, the list counts those in an order of its own. It is then not
// used, because CUDA_VISIBLE_DEVICES has the instances' names.
func slurmGrant(open []GPU, list string) (allows filter, why string) {
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
			return nil, "is no list of numbers"
		}
		for n := a; n <= b; n++ {
			numbers = append(numbers, n)
		}
	}
	allows, fits := hostNumbers(open, numbers, 0)
	if !fits {
		return nil, "names no GPU that the driver shows here"
	}
	return allows, ""
}

// hostNumbers finds the GPUs that have the given numbers on the machine. others
// is the number of other entries in the list. A container or a cgroup renumbers
// the GPUs that it leaves but not their files in /dev, so the numbers of the
// files count. fits is false if no number fits.
func hostNumbers(open []GPU, numbers []int, others int) (allows filter, fits bool) {
	nothing := func(GPU) bool { return false }
	if len(numbers) == 0 {
		return nothing, false
	}
	if others == 0 && len(open) <= len(numbers) { // the machine's other GPUs are hidden already
		return func(GPU) bool { return true }, true
	}
	number := func(g GPU) int { return *g.Minor }
	if slices.ContainsFunc(open, func(g GPU) bool { return g.Minor == nil }) {
		if slices.Max(numbers) >= len(open) { // the numbers are not those of the GPUs that are left
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
