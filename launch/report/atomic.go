package report

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gorun/gorun/internal/smallfile"
	"golang.org/x/sys/unix"
)

// writeWhole makes path hold b. A reader sees the old content or the new content,
// never a part. writeWhole writes directly to a path that is no regular file (a
// pipe, a terminal), and to a path that names this process's standard output or
// error.
func writeWhole(path string, b []byte) error {
	if fd := standardFD(path); fd > 0 {
		return writeStandard(path, fd, b)
	}
	// Replace the target of a link, not the link.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case err == nil && !info.Mode().IsRegular():
		if err := smallfile.Write(path, b); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp := path + "." + rand.Text()[:8] + ".tmp"
	if err := writeNew(temp, b); err != nil {
		os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

// standardFD returns the descriptor that path names: 1, 2, or 0 for none.
func standardFD(path string) int {
	switch filepath.Clean(path) {
	case "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
		return 1
	case "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2":
		return 2
	}
	return 0
}

// writeStandard writes at the descriptor's present position. A newly opened file
// would start at the beginning, although other processes write to it as well.
func writeStandard(path string, fd int, b []byte) error {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f := os.NewFile(uintptr(dup), path)
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// writeNew writes b to a file that does not exist yet.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		// Without it a crash soon after the rename can leave an empty file.
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
