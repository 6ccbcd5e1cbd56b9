package library

import (
	"fmt"
	"os"

	"github.com/gorun/gorun/internal/smallfile"
)

// readHead reads the beginning of a file, at most limit bytes.
func readHead(path string, limit int) ([]byte, error) {
	b, _, err := smallfile.Read(path, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b[:min(len(b), limit)], nil
}

// readFile reads a whole file of at most limit bytes; a longer file is an
// error.
func readFile(path string, limit int) ([]byte, error) {
	b, _, err := smallfile.Read(path, limit)
	if err == nil && len(b) > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
