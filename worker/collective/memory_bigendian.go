//go:build !(386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64)

package collective

// The messages are the memory of little-endian hosts; elsewhere this fails to compile.
var _ = needs_a_little_endian_host
