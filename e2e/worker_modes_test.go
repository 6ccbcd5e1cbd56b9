package e2e_test

import (
	"fmt"
	"os"
	"strings"
)

// runAsWorker runs the test binary as a worker. Every mode ends by itself.
func runAsWorker(args []string) int {
	if len(args) > 0 && args[0] == playHost {
		return enter(args[1:])
	}
	if len(args) > 2 && args[0] == playSilent {
		return enterSilent(args[1:])
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "play: one mode is needed")
		return 2
	}
	if fault, ok := strings.CutPrefix(args[0], playHang); ok {
		return hangWorker(fault)
	}
	switch args[0] {
	case playKilled, playFails:
		return collective(args[0])
	case playLoops, playStops:
		return loops(args[0])
	case playWorld:
		return recordWorld()
	case playStore:
		return countInStore()
	default:
		fmt.Fprintf(os.Stderr, "play: no mode %s\n", args[0])
		return 2
	}
}
