package cuda_test

import "unsafe"

// address returns where b begins. The caller keeps b.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
