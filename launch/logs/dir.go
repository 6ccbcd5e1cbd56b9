package logs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dir is the log folder of one run on one node.
type Dir struct {
	// Path is <base>/<run id>_<8 random characters>; "" if nothing is kept.
	Path string
}

// NewDir makes the log folder of a run below base. An empty base means a new
// folder temp, with "" one of the system's choice, torchelastic_*; os.DevNull
// means that nothing is kept. The random part keeps nodes apart that share a
// machine or a file system.
func NewDir(base, temp, runID string) (Dir, error) {
	switch base {
	case os.DevNull:
		return Dir{}, nil
	case "":
		var err error
		if temp == "" {
			temp, err = os.MkdirTemp("", "torchelastic_*")
		} else {
			err = os.Mkdir(temp, 0o700)
		}
		if err != nil {
			return Dir{}, fmt.Errorf("cannot make a folder for the workers' logs (name one with --log-dir): %w", err)
		}
		base = temp
	default:
		if err := os.MkdirAll(base, 0o777); err != nil {
			return Dir{}, fmt.Errorf("cannot make the log folder of --log-dir: %w", err)
		}
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return Dir{}, fmt.Errorf("cannot tell where the log folder is: %w", err)
	}
	prefix := filepath.Join(base, pathElement(runID)+"_")
	// 32^8 names: a second try is rare, a tenth means that something else is wrong.
	for range 10 {
		path := prefix + randomName()
		// 0700 as mkdtemp has it: logs may hold what others must not read.
		err = os.Mkdir(path, 0o700)
		if err == nil {
			return Dir{Path: path}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return Dir{}, fmt.Errorf("cannot make a folder for the workers' logs: %w", err)
}

// Attempt removes what an earlier job left of attempt n and makes its folder
// anew, with one for each worker. Rounds that are no restart, because a node came
// or left, have the number of the attempt before: again counts them, and the
// folder of the second is attempt_<n>.1. The result is "" if nothing is kept.
func (d Dir) Attempt(n, again, workers int) (string, error) {
	if d.Path == "" {
		return "", nil
	}
	name := "attempt_" + strconv.Itoa(n)
	if again > 0 {
		name += "." + strconv.Itoa(again)
	}
	path := filepath.Join(d.Path, name)
	if err := os.RemoveAll(path); err != nil {
		return "", fmt.Errorf("cannot remove the logs of an earlier attempt: %w", err)
	}
	// MkdirAll: a cleaner of temporary files may have taken the run's folder.
	err := os.MkdirAll(path, 0o700)
	for i := 0; i < workers && err == nil; i++ {
		err = os.Mkdir(filepath.Join(path, strconv.Itoa(i)), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("cannot make a folder for the workers' logs: %w", err)
	}
	return path, nil
}

// pathElement turns a run id, which may be any text, into the start of a file
// name: letters, digits and a few signs stay, no leading dot, at most 128 bytes
// (a name may have 255).
func pathElement(runID string) string {
	clean := strings.Map(func(r rune) rune {
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-+=@:,", r)) {
			return r
		}
		return '_'
	}, runID)
	if strings.HasPrefix(clean, ".") {
		clean = "_" + clean[1:]
	}
	for len(clean) > 128 {
		_, size := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-size]
	}
	return clean
}

func randomName() string {
	const letters = "abcdefghijklmnopqrstuvwxyz012345" // 32, so that a byte divides evenly
	var b [8]byte
	rand.Read(b[:]) // never fails
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b[:])
}
