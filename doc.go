// Package gorun is the root of the module github.com/gorun/gorun: a launcher
// for training jobs over several GPUs and nodes that takes torchrun's place.
//
// It holds no code, only the tests that hold the whole tree to its rules. The
// program is in cmd/gorun; a Go worker links package worker.
package gorun
