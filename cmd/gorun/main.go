// Command gorun starts the workers of a multi-node training job: a drop-in for
// torchrun. It owns the command line, one file a command, and the two roles of the
// process, keeper and agent. Package launch does the agent's work.
package main

import "os"

func main() { os.Exit(run(os.Args[1:])) }
