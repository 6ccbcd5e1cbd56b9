// Package scratch names the files and folders that an agent uses while it runs:
// sockets, log files, programs that it builds.
//
// Invariants: all names contain the agent's Tag. The keeper that chose the tag can
// remove what a killed agent left. Remove keeps log files that are not empty.
package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Tag is part of the names of all files that an agent uses. Each agent has its own.
type Tag string

// Socket returns the path of the worker socket.
func (t Tag) Socket() string { return filepath.Join(memoryDir(), "gorun-"+string(t)+".sock") }

// Timers returns the path of the pipe for torch's file timers.
func (t Tag) Timers() string { return filepath.Join(memoryDir(), "gorun-"+string(t)+".timers") }

// Recorder returns the folder for the pipes of PyTorch's flight recorders.
func (t Tag) Recorder() string { return filepath.Join(memoryDir(), "gorun-"+string(t)+".recorder") }

// Build returns the folder of a Go program that is built here.
func (t Tag) Build() string { return filepath.Join(tempDir(), "gorun-"+string(t)+".build") }

// Logs returns the folder for the workers' error files, and for log files if the user
// names no other: where torchrun has it.
func (t Tag) Logs() string { return filepath.Join(tempDir(), "torchelastic_"+string(t)) }

// removeTime bounds Remove where a file system does not answer.
const removeTime = 2 * time.Second

// Remove removes these files and folders, in at most removeTime. Of the folders for log
// files it removes only the empty ones.
func (t Tag) Remove() {
	done := make(chan struct{})
	go func() {
		t.remove()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(removeTime):
	}
}

func (t Tag) remove() {
	_ = os.Remove(t.Socket())
	_ = os.Remove(t.Timers())
	_ = os.RemoveAll(t.Recorder())
	_ = os.RemoveAll(t.Build())
	removeEmpty(t.Logs())
}

// IsUnwritable reports whether an error says that nothing can be written at a place.
// A job that needs no files must not end for that.
func IsUnwritable(err error) bool {
	for _, e := range []error{unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// removeEmpty removes the folders of a tree that contain no file.
func removeEmpty(root string) {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir) // fails if the folder is not empty
	}
}

// memoryDir returns the folder for sockets and pipes, which belong in memory. It is TMPDIR
// if the user set TMPDIR and files can be made there.
func memoryDir() string {
	const memory = "/dev/shm"
	var fs unix.Statfs_t
	if !isWritable(os.Getenv("TMPDIR")) && unix.Statfs(memory, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && isWritable(memory) {
		return memory
	}
	return tempDir()
}

// tempDir returns the folder in which Python's tempfile, and so torchrun, puts its
// files: the first of these in which a file can be made.
func tempDir() string {
	for _, dir := range []string{os.Getenv("TMPDIR"), os.Getenv("TEMP"), os.Getenv("TMP"), "/tmp", "/var/tmp", "/usr/tmp", "."} {
		if isWritable(dir) {
			if path, err := filepath.Abs(dir); err == nil {
				return path
			}
		}
	}
	return os.TempDir() // the error of a later call names it
}

func isWritable(dir string) bool {
	return dir != "" && unix.Access(filepath.Clean(dir)+"/.", unix.W_OK|unix.X_OK) == nil
}
