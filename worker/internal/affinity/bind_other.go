//go:build !linux

package affinity

// Bind does nothing on this system.
func Bind([]int) bool { return false }
