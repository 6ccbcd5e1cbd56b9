// Command gorun starts the workers of a multi-node training job: a drop-in for
// torchrun. Here are the command line and the two roles of the process; what
// they do is package launch's.
package main

import "os"

func main() { os.Exit(run(os.Args[1:])) }
