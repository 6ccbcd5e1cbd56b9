// Package stacks says where the ranks of a job are in their program: it reads the stack of
// each worker of a node, finds the program's own line and the collective in it, and groups
// equal ones.
//
// A stack comes from the first source that knows the process: the worker itself if it
// links package worker, the memory of a Python process (package pystack), py-spy, eu-stack
// or gdb if installed, and else what the kernel says of the main thread. The first two
// neither stop nor signal the process.
//
// Invariants: a reading ends with its context and keeps what it has. Texts of programs are
// hostile: frames, their number and their lengths are bounded, and they are printable. A
// stack without frames says why it has none.
package stacks
