package gather

import (
	"os"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

// BenchmarkFacts gathers as an agent does on a node without GPUs.
func BenchmarkFacts(b *testing.B) {
	for name, p := range map[string]preflight.Program{
		"true":   {Path: "/bin/true", Dir: "/"},
		"python": {Path: "/usr/bin/python3", Python: "/usr/bin/python3", Dir: "/"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Facts(b.Context(), Options{Env: os.Environ(), Run: ldsotest.Run, Program: p})
			}
		})
	}
}
