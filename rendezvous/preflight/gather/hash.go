package gather

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// maxHashed bounds what is read of a program, in bytes. Scripts are small, and
// larger programs come from one place.
const maxHashed = 16 << 20

// fileHash returns the SHA-256 of the file that the user named, "" if the user
// named no file: a Go package, a Python module, a program without a name of its
// own.
func fileHash(root string, p preflight.Program) (string, error) {
	if p.Script == "" {
		return "", nil
	}
	f, err := os.Open(filepath.Join("/", root, p.Script))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil // the agent itself reports this
	}
	if err != nil {
		return "", fmt.Errorf("the program: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxHashed {
		return "", nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxHashed)); err != nil {
		return "", fmt.Errorf("the program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
