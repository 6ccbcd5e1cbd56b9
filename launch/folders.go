package launch

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/gorun/gorun/launch/logs"
)

// folders makes the log folders of the attempts. Those of the first are made
// beside everything else that comes before the workers' start: on a disk a
// folder takes 20 to 200 µs.
type folders struct {
	dir     logs.Dir
	ours    bool // a temporary folder that nobody asked for
	workers int
	first   chan attemptFolder // nil once it has been read
	made    []string
	used    map[int]int // rounds of each attempt so far
}

type attemptFolder struct {
	path string
	err  error
}

func newFolders(dir logs.Dir, ours bool, workers int) *folders {
	return &folders{dir: dir, ours: ours, workers: workers, first: make(chan attemptFolder, 1), used: map[int]int{}}
}

// ahead makes those of the first attempt; to be called once, beside the rest.
func (f *folders) ahead() {
	path, err := f.dir.Attempt(0, 0, f.workers)
	f.first <- attemptFolder{path, err}
}

// attempt returns a folder for a round of attempt n, with one for each worker.
func (f *folders) attempt(n int) (path string, err error) {
	again := f.used[n]
	f.used[n]++
	if f.first != nil {
		a := <-f.first
		f.first = nil
		f.made = append(f.made, a.path)
		if n == 0 && again == 0 {
			return a.path, a.err
		}
	}
	path, err = f.dir.Attempt(n, again, f.workers)
	f.made = append(f.made, path)
	return path, err
}

// clean removes the empty ones, after the last worker has ended: nobody asked
// for them, and without output or error files there is nothing in them.
func (f *folders) clean() {
	if !f.ours || f.dir.Path == "" {
		return
	}
	if f.first != nil {
		f.made = append(f.made, (<-f.first).path)
		f.first = nil
	}
	for _, path := range f.made {
		for i := range f.workers {
			_ = os.Remove(filepath.Join(path, strconv.Itoa(i)))
		}
		_ = os.Remove(path)
	}
	_ = os.Remove(f.dir.Path)
	_ = os.Remove(filepath.Dir(f.dir.Path))
}
