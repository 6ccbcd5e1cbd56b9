//go:build !amd64

package vec

// kernels is empty: plain Go runs everything.
var kernels [numOps][numTypes]kernel
