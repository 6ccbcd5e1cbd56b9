package numa

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	cgroupDir = "sys/fs/cgroup"
	// maxDepth bounds how far a cgroup's ancestors are followed.
	maxDepth = 32
)

// Quota returns the CPU time that the cgroup of this process and its ancestors
// leave it, in CPUs (docker run --cpus, a CPU limit of Kubernetes); 0: there is
// no limit.
//
// runtime.GOMAXPROCS follows a quota too, but it also follows the variable of
// that name, by which the user sets Go programs. It rounds, and it ignores the
// ancestors' quotas.
func Quota(root fs.FS) float64 {
	text, _ := readText(root, "proc/self/cgroup")
	least := 0.0
	lower := func(cpus float64) {
		if cpus > 0 && (least == 0 || cpus < least) {
			least = cpus
		}
	}
	// A line is ID:CONTROLLERS:PATH, without controllers for version 2 (cgroups(7)).
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers := strings.Split(parts[1], ","); {
		case parts[1] == "":
			visitAncestors(cgroupDir, parts[2], func(dir string) { lower(quota2(root, dir)) })
		case slices.Contains(controllers, "cpu"):
			for _, mount := range slices.Compact([]string{"cpu", parts[1]}) {
				visitAncestors(path.Join(cgroupDir, mount), parts[2], func(dir string) { lower(quota1(root, dir)) })
			}
		}
	}
	return least
}

// visitAncestors calls visit for a group's folder and those of its ancestors, up to the
// mount. In a container the path may be the machine's, while the mount is the
// container's own. A folder that is missing has no limit.
func visitAncestors(mount, group string, visit func(dir string)) {
	group = path.Clean("/" + group)
	for range maxDepth {
		visit(path.Join(mount, group))
		if group == "/" {
			return
		}
		group = path.Dir(group)
	}
}

// quota2 reads a limit of cgroup version 2: "QUOTA PERIOD" in µs, or "max
// PERIOD".
func quota2(root fs.FS, dir string) float64 {
	text, err := readText(root, dir+"/cpu.max")
	if err != nil {
		return 0
	}
	quota, period, _ := strings.Cut(text, " ")
	return ratio(quota, period)
}

// quota1 reads a limit of cgroup version 1, where -1 is no limit.
func quota1(root fs.FS, dir string) float64 {
	quota, err := readText(root, dir+"/cpu.cfs_quota_us")
	if err != nil || strings.HasPrefix(quota, "-") {
		return 0
	}
	period, _ := readText(root, dir+"/cpu.cfs_period_us")
	return ratio(quota, period)
}

// ratio returns quota/period, 0 if they are no limit.
func ratio(quota, period string) float64 {
	q, err := strconv.ParseUint(quota, 10, 63)
	p, err2 := strconv.ParseUint(period, 10, 63)
	if err != nil || err2 != nil || p == 0 {
		return 0
	}
	return float64(q) / float64(p)
}
