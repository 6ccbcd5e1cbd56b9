package stacks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a process of a worker's tree.
type process struct{ pid, parent int }

// maxTree bounds the processes of a worker that are looked at.
const maxTree = 128

// descendants returns a process and those below it, a parent before its children.
func descendants(pid int) []process {
	all := []process{{pid, 0}}
	for i := 0; i < len(all) && len(all) < maxTree; i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i].pid))
		var children []int
		for _, list := range lists {
			for field := range strings.FieldsSeq(string(readProc(list))) {
				if n, err := strconv.Atoi(field); err == nil && n > 0 {
					children = append(children, n)
				}
			}
		}
		slices.Sort(children)
		for _, child := range children[:min(len(children), maxTree-len(all))] {
			all = append(all, process{child, all[i].pid})
		}
	}
	return all
}

// below returns the processes of a tree below one of them.
func below(tree []process, pid int) []process {
	inside := map[int]bool{pid: true}
	var all []process
	for _, p := range tree {
		if inside[p.parent] {
			inside[p.pid] = true
			all = append(all, p)
		}
	}
	return all
}

// program returns the process of a tree that runs the program: a shell that only waits for
// its child is none.
func program(tree []process) int {
	pid := tree[0].pid
	for _, p := range tree[1:] {
		if p.parent == pid && waitsForChild(pid) {
			pid = p.pid
		}
	}
	return pid
}

// waitsForChild reports whether a process waits for the end of a child.
func waitsForChild(pid int) bool {
	name, _ := parseSyscall(string(readProc(fmt.Sprintf("/proc/%d/syscall", pid))), func(int) string { return "" })
	wchan := string(readProc(fmt.Sprintf("/proc/%d/wchan", pid)))
	return name == "wait4" || name == "waitid" || wchan == "do_wait"
}

// isGone reports whether a process has ended.
func isGone(pid int) bool {
	p, err := os.FindProcess(pid)
	return err != nil || p.Signal(unix.Signal(0)) != nil
}
