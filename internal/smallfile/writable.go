package smallfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Writable returns the error that writing a file would give, so that the user gets it
// now and not after days of training. An empty name gives no error.
func Writable(name string) error {
	if name == "" {
		return nil
	}
	folder := filepath.Dir(name)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s", folder)
	}
	at := folder
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return errors.New("it is a folder")
	case err == nil:
		at = name
	case !errors.Is(err, fs.ErrNotExist): // for example a name that is too long, or a link to itself
		return errors.Unwrap(err)
	}
	if err := unix.Access(at, unix.W_OK); err != nil {
		return fmt.Errorf("it cannot be written: %w", err)
	}
	return nil
}
