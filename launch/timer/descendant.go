package timer

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// maxDepth bounds the generations of processes below a worker.
const maxDepth = 1000

// Below reports whether a process is one of the roots or descends from one.
func Below(roots map[int]bool, pid int) bool {
	for range maxDepth {
		if roots[pid] {
			return true
		}
		if pid = parent(pid); pid <= 1 {
			return false
		}
	}
	return false
}

// parent returns the parent of a process, 0 if there is none.
func parent(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name of the program, in parentheses, may contain anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(fields[1]))
	return n
}
