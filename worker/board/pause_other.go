//go:build !amd64 && !arm64

package board

// pause does nothing.
func pause() {}
