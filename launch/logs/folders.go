package logs

import (
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Folders makes a log folder for each round of a run on one node.
type Folders struct {
	dir       Dir
	temporary bool // nobody asked for the folders
	workers   int
	made      []string
	rounds    map[int]int // of each attempt so far
}

// NewFolders makes no folder yet. Temporary ones are removed if they are empty.
func NewFolders(dir Dir, temporary bool, workers int) *Folders {
	return &Folders{dir: dir, temporary: temporary, workers: workers, rounds: map[int]int{}}
}

// Make makes a folder for a round of an attempt, with one for each worker; "" if
// nothing is kept.
func (f *Folders) Make(attempt int) (string, error) {
	again := f.rounds[attempt]
	f.rounds[attempt]++
	path, err := f.dir.Attempt(attempt, again, f.workers)
	if path != "" {
		f.made = append(f.made, path)
	}
	return path, err
}

// RemoveEmpty removes temporary folders without output or error files in them. It
// is called after the last worker has ended.
func (f *Folders) RemoveEmpty() {
	if !f.temporary || f.dir.Path == "" {
		return
	}
	for _, path := range f.made {
		for i := range f.workers {
			_ = unix.Rmdir(filepath.Join(path, strconv.Itoa(i)))
		}
		_ = unix.Rmdir(path)
	}
	_ = unix.Rmdir(f.dir.Path)
	_ = unix.Rmdir(filepath.Dir(f.dir.Path))
}
