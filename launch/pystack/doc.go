// Package pystack reads the stacks of a Python process out of its memory
// (process_vm_readv(2)). It neither stops the process nor runs anything in it.
//
// CPython 3.13 and later say themselves where the fields are (_Py_DebugOffsets). For 3.7
// to 3.12 a table does; its numbers are offsetof in the headers of those versions on a
// 64-bit machine. The structures are CPython's pycore_runtime.h, pycore_frame.h, code.h,
// unicodeobject.h; the tables of lines are Objects/lnotab_notes.txt (3.7 to 3.10) and
// Objects/locations.md (3.11 and later).
//
// Invariants: what is read is hostile: the number of reads, threads and frames, and the
// length of texts are bounded. A frame counts only if its code object has the type of
// code objects. A process that runs while it is read may give a stack that it never had,
// or an error; a process that hangs gives its stack.
package pystack
