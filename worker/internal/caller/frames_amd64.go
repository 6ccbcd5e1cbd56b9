package caller

// returnPCs writes the return addresses of the callers of its caller, as far as it finds
// them.
//
//go:noescape
func returnPCs(pcs *stack)
