// Package tree reads a machine's files within bounds, under a folder that
// stands for "/": a container's root, a test's fake machine, or "" for the
// machine itself.
//
// Invariants: it only reads; links and ".." are followed as the kernel would in
// a chroot, so nothing outside the folder is reached; only regular files are
// read, so neither a pipe nor a device blocks; every read has a limit.
package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrIrregular is for what is no regular file.
var ErrIrregular = errors.New("not a regular file")

// maxLinks is how many links one path may pass: the kernel's own limit.
const maxLinks = 40

// Tree is the files below a folder. The zero value is the machine's own "/".
type Tree struct {
	root string
}

// New is the tree below root; "" and "/" are the machine itself.
func New(root string) Tree {
	if root == "/" {
		root = ""
	}
	return Tree{root: strings.TrimSuffix(root, "/")}
}

// ID is the identity of a file: equal for all of its names.
type ID struct {
	Dev, Ino uint64
}

// File is an open regular file.
type File struct {
	fd   int
	size int64
	id   ID
}

// Open opens a regular file for reading. Paths are absolute and of the tree.
func (t Tree) Open(path string) (*File, error) {
	at, err := t.outside(path)
	if err != nil {
		return nil, err
	}
	// Without O_NONBLOCK the opening of a pipe waits for a writer.
	fd, err := open(at, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrIrregular}
	}
	return &File{fd: fd, size: st.Size, id: identity(&st)}, nil
}

func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func identity(st *unix.Stat_t) ID { return ID{Dev: uint64(st.Dev), Ino: st.Ino} }

// Size is the file's length in bytes; 0 for files of /proc and /sys.
func (f *File) Size() int64 { return f.size }

// ID tells whether two paths are one file.
func (f *File) ID() ID { return f.id }

// Close ends the use of the file.
func (f *File) Close() error { return unix.Close(f.fd) }

// ReadAt is io.ReaderAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		m, err := unix.Pread(f.fd, b[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}

// ReadFile reads a whole file of at most limit bytes; a longer one is an error.
func (t Tree) ReadFile(path string, limit int) ([]byte, error) {
	b, whole, err := t.ReadHead(path, limit)
	if err == nil && !whole {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return b, err
}

// ReadHead reads at most limit bytes of a file and says whether that is all.
func (t Tree) ReadHead(path string, limit int) (head []byte, whole bool, err error) {
	f, err := t.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	// Files of /proc have no size; most are short.
	b := make([]byte, 0, min(int64(limit), max(f.size, 4<<10))+1)
	for {
		n, err := f.ReadAt(b[len(b):min(cap(b), limit+1)], int64(len(b)))
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b[:limit], false, nil
		case err == io.EOF:
			return b, true, nil
		case err != nil:
			return nil, false, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		b = append(b, 0)[:len(b)] // more room
	}
}

// ReadDir lists the names in a folder, unsorted, at most limit of them.
func (t Tree) ReadDir(path string, limit int) ([]string, error) {
	at, err := t.outside(path)
	if err != nil {
		return nil, err
	}
	// O_DIRECTORY fails at once on a pipe.
	fd, err := open(at, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 8<<10)
	for len(names) < limit {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return names, &fs.PathError{Op: "readdir", Path: path, Err: err}
		}
		if n <= 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], limit-len(names), names)
	}
	return names, nil
}

// Stat tells what a path leads to.
func (t Tree) Stat(path string) (ID, fs.FileMode, error) {
	at, err := t.outside(path)
	if err != nil {
		return ID{}, 0, err
	}
	var st unix.Stat_t
	if err := unix.Stat(at, &st); err != nil {
		return ID{}, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	default:
		mode |= fs.ModeIrregular
	}
	return identity(&st), mode, nil
}

// IsFile says whether the path leads to a regular file.
func (t Tree) IsFile(path string) bool {
	_, mode, err := t.Stat(path)
	return err == nil && mode.IsRegular()
}

// IsDir says whether the path leads to a folder.
func (t Tree) IsDir(path string) bool {
	_, mode, err := t.Stat(path)
	return err == nil && mode.IsDir()
}
