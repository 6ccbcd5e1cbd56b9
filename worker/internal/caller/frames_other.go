//go:build !amd64

package caller

import "runtime"

// returnPCs writes the return addresses of the callers of its caller.
func returnPCs(pcs *stack) { runtime.Callers(3, pcs[:]) }
