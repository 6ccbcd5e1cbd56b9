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

	"golang.org/x/sys/unix"
)

// FolderOptions says where the folders of a run are.
type FolderOptions struct {
	// Base is the folder of --log-dir. If it is "", a new folder Temp is the
	// base or, without Temp, a new folder torchelastic_* where the system puts
	// temporary files. os.DevNull keeps nothing.
	Base, Temp string
	RunID      string
	Workers    int // of this node
}

// Folders makes a log folder for each round of a run on one node. The zero value
// keeps nothing.
type Folders struct {
	// Path is <base>/<run id>_<8 random characters>; "" if nothing is kept.
	Path string

	temporary  bool // the user gave no base
	workers    int
	paths      []string
	roundsMade map[int]int // number of rounds by attempt
}

// NewFolders makes the folder of a run below a base. The random part of its
// name separates nodes that share a machine or a file system.
func NewFolders(o FolderOptions) (*Folders, error) {
	if o.Base == os.DevNull {
		return &Folders{}, nil
	}
	base, err := o.makeBase()
	if err != nil {
		return nil, err
	}
	prefix := filepath.Join(base, pathElement(o.RunID)+"_")
	// There are 32^8 names, so a second try is rare. After ten tries something else
	// is wrong.
	for range 10 {
		path := prefix + strings.ToLower(rand.Text()[:8])
		// The mode is 0700, as mkdtemp has it, because others must not read the
		// logs.
		err = os.Mkdir(path, 0o700)
		if err == nil {
			return &Folders{Path: path, temporary: o.Base == "", workers: o.Workers, roundsMade: map[int]int{}}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return nil, fmt.Errorf("cannot make a folder for the workers' logs: %w", err)
}

// makeBase makes the folder that contains the run's folder.
func (o FolderOptions) makeBase() (base string, err error) {
	switch base = o.Base; {
	case base != "":
		if err := os.MkdirAll(base, 0o777); err != nil {
			return "", fmt.Errorf("cannot make the log folder of --log-dir: %w", err)
		}
	case o.Temp != "":
		base, err = o.Temp, os.Mkdir(o.Temp, 0o700)
	default:
		base, err = os.MkdirTemp("", "torchelastic_*")
	}
	if err != nil {
		return "", fmt.Errorf("cannot make a folder for the workers' logs (name one with --log-dir): %w", err)
	}
	if base, err = filepath.Abs(base); err != nil {
		return "", fmt.Errorf("cannot find the path of the log folder: %w", err)
	}
	return base, nil
}

// Make makes attempt_<n>, the folder for a round of attempt n, with a folder in
// it for each worker. It returns "" if nothing is kept. A round that begins because
// a node joined or left belongs to the same attempt: its folder is attempt_<n>.1, and
// so on.
func (f *Folders) Make(attempt int) (string, error) {
	if f.Path == "" {
		return "", nil
	}
	name := "attempt_" + strconv.Itoa(attempt)
	if again := f.roundsMade[attempt]; again > 0 {
		name += "." + strconv.Itoa(again)
	}
	f.roundsMade[attempt]++
	path := filepath.Join(f.Path, name)
	// MkdirAll also makes the run's folder, which a cleaner of temporary files
	// may have removed.
	err := os.MkdirAll(path, 0o700)
	for i := 0; i < f.workers && err == nil; i++ {
		err = os.Mkdir(filepath.Join(path, strconv.Itoa(i)), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("cannot make a folder for the workers' logs: %w", err)
	}
	f.paths = append(f.paths, path)
	return path, nil
}

// minFree is the room on a file system, in bytes, below which a buffer of output may not
// fit any more.
const minFree = 64 << 10

// IsFull reports whether the file system of the folders has no room for more output.
func (f *Folders) IsFull() bool {
	var fs unix.Statfs_t
	return f.Path != "" && unix.Statfs(f.Path, &fs) == nil && fs.Bavail*uint64(fs.Bsize) < minFree
}

// RemoveEmpty removes the folders without output or error files, unless the user
// named the base. Call it after the end of the last worker.
func (f *Folders) RemoveEmpty() {
	if !f.temporary {
		return
	}
	for _, path := range f.paths {
		for i := range f.workers {
			_ = unix.Rmdir(filepath.Join(path, strconv.Itoa(i)))
		}
		_ = unix.Rmdir(path)
	}
	_ = unix.Rmdir(f.Path)
	_ = unix.Rmdir(filepath.Dir(f.Path))
}

// pathElement returns a run id, which may be any text, as the start of a file name.
// Letters, digits and a few signs stay. A leading dot does not. The result has at
// most 128 bytes, because a name may have 255.
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
