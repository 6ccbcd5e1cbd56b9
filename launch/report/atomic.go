package report

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeWhole makes path hold b: a reader sees the old content or the new one,
// never a part. What is not a regular file (a pipe, /dev/stdout) is written to.
func writeWhole(path string, b []byte) error {
	// A link's target is replaced, not the link.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case err == nil && !info.Mode().IsRegular():
		return writeTo(path, os.O_WRONLY, b)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp := path + "." + rand.Text()[:8] + ".tmp"
	if err := writeTo(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, b); err != nil {
		os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

func writeTo(path string, flags int, b []byte) error {
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if flags&os.O_EXCL != 0 && err == nil {
		// Else a crash soon after the rename can leave an empty file.
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
