//go:build amd64 || arm64

package board

// pause tells the CPU that this is a loop that waits for another.
//
//go:noescape
func pause()
