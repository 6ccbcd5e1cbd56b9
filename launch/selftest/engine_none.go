//go:build !cgo

package selftest

// HasGPU reports whether this program can compute on GPUs. Without C it is linked
// statically and cannot open NVIDIA's libraries.
const HasGPU = false

func startGPU() gpu { return nil }
