package launch

import (
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/gorun/gorun/launch/logs"
	"golang.org/x/sys/unix"
)

// folders makes the log folders of the attempts. Those of the first are made
// beside everything else that comes before the workers' start: on a disk a
// folder takes 20 to 200 µs.
type folders struct {
	dir     logs.Dir
	ours    bool // a temporary folder that nobody asked for
	workers int
	first   func() (path string, err error) // once
	made    []string
	used    map[int]int // rounds of each attempt so far
}

func newFolders(dir logs.Dir, ours bool, workers int) *folders {
	f := &folders{dir: dir, ours: ours, workers: workers, used: map[int]int{}}
	f.first = sync.OnceValues(func() (string, error) { return dir.Attempt(0, 0, workers) })
	return f
}

// ahead makes those of the first attempt, beside the rest.
func (f *folders) ahead() { _, _ = f.first() }

// attempt returns a folder for a round of attempt n, with one for each worker.
func (f *folders) attempt(n int) (path string, err error) {
	again := f.used[n]
	f.used[n]++
	if n == 0 && again == 0 {
		path, err = f.first()
	} else {
		path, err = f.dir.Attempt(n, again, f.workers)
	}
	if path != "" {
		f.made = append(f.made, path)
	}
	return path, err
}

// clean removes the empty ones, after the last worker has ended: nobody asked
// for them, and without output or error files there is nothing in them.
func (f *folders) clean() {
	if !f.ours || f.dir.Path == "" {
		return
	}
	if path, err := f.first(); err == nil && path != "" && !slices.Contains(f.made, path) { // made ahead, and no worker came
		f.made = append(f.made, path)
	}
	for _, path := range f.made {
		f.empty(path)
	}
	_ = unix.Rmdir(f.dir.Path)
	_ = unix.Rmdir(filepath.Dir(f.dir.Path))
}

// empty removes those of one attempt in which there is nothing.
func (f *folders) empty(path string) {
	if !f.ours {
		return
	}
	for i := range f.workers {
		_ = unix.Rmdir(filepath.Join(path, strconv.Itoa(i)))
	}
	_ = unix.Rmdir(path)
}
