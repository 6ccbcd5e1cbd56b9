// Package scratch names the files and folders that an agent keeps while it lives:
// sockets, log files, programs that are built.
//
// Invariants: all names hold the agent's Tag; the keeper that drew the tag can remove
// what a killed agent left; Remove keeps log files that have something in them.
package scratch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Tag is part of the names of all that an agent keeps outside its own memory. No
// other agent may have it.
type Tag string

// Socket is the path of the worker socket.
func (t Tag) Socket() string { return filepath.Join(memoryDir(), "gorun-"+string(t)+".sock") }

// Build is the folder of a Go program that is built here.
func (t Tag) Build() string { return filepath.Join(tempDir(), "gorun-"+string(t)+".build") }

// Logs is the folder for log files when the user names none; without output in
// it, only error files come there.
func (t Tag) Logs(output bool) string {
	dir := tempDir()
	if !output {
		dir = memoryDir()
	}
	return filepath.Join(dir, "torchelastic_"+string(t))
}

// Remove removes what is there, of the folder for log files what is empty.
func (t Tag) Remove() {
	_ = os.Remove(t.Socket())
	_ = os.RemoveAll(t.Build())
	removeEmpty(t.Logs(true))
	removeEmpty(t.Logs(false))
}

// removeEmpty removes the folders of a tree in which there is no file.
func removeEmpty(root string) {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir) // not if something is in it
	}
}

// memoryDir is where the small things of a job are: sockets, and folders for
// error files that hardly any worker writes. That is TMPDIR if the user set it and
// it is of use, else memory: a disk takes up to a millisecond to make or remove a folder (ext4
// passes over inodes that were freed in the last seconds, and discards blocks
// when one is removed), and a job has one for each rank.
func memoryDir() string {
	const memory = "/dev/shm"
	var fs unix.Statfs_t
	if !takesFiles(os.Getenv("TMPDIR")) && unix.Statfs(memory, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && takesFiles(memory) {
		return memory
	}
	return tempDir()
}

// tempDir is where Python's tempfile, and so torchrun, puts its files: the first of
// these in which one can be made.
func tempDir() string {
	for _, dir := range []string{os.Getenv("TMPDIR"), os.Getenv("TEMP"), os.Getenv("TMP"), "/tmp", "/var/tmp", "/usr/tmp", "."} {
		if takesFiles(dir) {
			if path, err := filepath.Abs(dir); err == nil {
				return path
			}
		}
	}
	return os.TempDir() // the error names it
}

func takesFiles(dir string) bool {
	return dir != "" && unix.Access(filepath.Clean(dir)+"/.", unix.W_OK|unix.X_OK) == nil
}
