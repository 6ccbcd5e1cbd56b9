//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package collective

import "unsafe"

// The wire is little-endian, and so are the hosts in the build constraint above:
// there the memory of a slice is its wire form, and the only unsafe code of the
// package, in this file, turns one into the other without a copy.

// asBytes returns the memory of s.
func asBytes[T Element](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// addressOf returns where b begins.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// scratch returns n bytes of memory, aligned for every Element.
func scratch(n int) []byte {
	return asBytes(make([]int64, (n+7)/8))[:n]
}
