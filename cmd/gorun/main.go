// Command gorun starts the workers of a multi-node training job: a drop-in for
// torchrun. It owns the command line, one file a command, and the two roles of the
// process, keeper and agent. Package launch does the agent's work.
package main

import (
	"os"
	"runtime"
)

// main keeps the process's first thread, on which the runtime starts it, to itself. The
// kernel hands a signal to that thread, and while a file system that does not answer held
// it, no other thread would see the signal.
func main() {
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:]))
}
