package place

import (
	"io/fs"

	"github.com/gorun/gorun/launch/numa"
)

// Divide returns CPUs for each of a node's workers that wait for each other in shared
// memory, by local rank: whole physical cores, of one NUMA node where that is possible,
// and none for two workers. It returns nil if the CPUs of this process are too few, in
// number or by their cgroup's quota.
func Divide(root fs.FS, workers int) []numa.Set {
	cpus, memory, err := numa.Allowed()
	if quota := numa.Quota(root); err != nil || workers < 2 || quota > 0 && quota < float64(len(cpus)) {
		return nil
	}
	r := numa.Request{Mode: numa.Exclusive, CPUs: cpus, Memory: memory, Workers: make([][]int, workers), Machine: workers}
	if r.Topology, err = numa.Read(root, nil); err != nil {
		return nil
	}
	plan, err := numa.Make(r)
	if err != nil {
		return nil
	}
	sets := make([]numa.Set, workers)
	for i, b := range plan.Workers {
		sets[i] = b.CPUs
	}
	return sets
}

// Divides reports whether a node's workers may get CPUs of their own without being bound
// to them: the user said nothing of CPUs, no other agent of the job is on this machine,
// and the workers compute on CPUs.
func (c Config) Divides(p *Plan) bool {
	for _, s := range p.Slots {
		if len(s.GPUs) > 0 {
			return false
		}
	}
	return c.Options.Binding == "" && !c.Options.Unbound && c.Agents <= 1
}
