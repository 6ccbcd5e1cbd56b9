package envprop

import "fmt"

// Threads is what OMP_NUM_THREADS follows from where nobody sets it. The zero
// value is torchrun's rule, and that of --omp=torchrun: 1 for each of several
// workers of a node.
type Threads struct {
	Cores   int  // those that the worker is bound to; 0: unknown, torchrun's rule
	Workers int  // that share these cores; 0: all of the node
	Quota   bool // Cores is the CPU time that a cgroup leaves them
}

// threads is the number for one worker, 0 to leave the variable out, and why.
func (v Vars) threads() (n int, why string) {
	t := v.Threads
	if t.Cores <= 0 {
		if v.LocalWorldSize <= 1 {
			return 0, ""
		}
		return 1, "torchrun's default, so that several workers do not overload the node"
	}
	sharing := t.Workers
	if sharing <= 0 {
		sharing = v.LocalWorldSize
	}
	if t.Quota {
		return max(1, t.Cores/sharing), fmt.Sprintf("a CPU quota of %d for %d workers", t.Cores, sharing)
	}
	if sharing <= 1 {
		return t.Cores, fmt.Sprintf("cores of each: %d", t.Cores)
	}
	return max(1, t.Cores/sharing), fmt.Sprintf("%d cores for %d workers", t.Cores, sharing)
}

// OMPNote is the line for the user when Worker sets OMP_NUM_THREADS for one of
// several workers, else "".
func (b Base) OMPNote(v Vars) string {
	n, why := v.threads()
	switch {
	case n == 0 || v.LocalWorldSize <= 1 || b.has("OMP_NUM_THREADS"):
		return ""
	case v.Threads.Cores <= 0:
		return fmt.Sprintf("OMP_NUM_THREADS is set to 1 for each of the %d workers, so that they do not overload the node; set it yourself to tune it", v.LocalWorldSize)
	}
	note := fmt.Sprintf("OMP_NUM_THREADS is set to %d for each of the %d workers (%s); set it yourself to tune it", n, v.LocalWorldSize, why)
	if n > 1 {
		note += ", or use --omp=torchrun for 1"
	}
	return note
}
