// Package smallfile reads and writes the files that a user names on the command line,
// and reads small files of the system. It handles whole files of bounded size.
//
// Invariants: no call waits for another process to open a pipe. A call takes at most
// Wait where a device, or the reader of a pipe, is slow. A file system that hangs can
// still hold up a call.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Wait bounds the time for which a call waits for a device or for the other end of a
// pipe.
const Wait = 10 * time.Second

// Read returns a file's content, at most one byte more than most. It refuses a pipe,
// because a named pipe may never get a writer, and a pipe that a shell has made, as by
// <(COMMAND), belongs to this process's parent. The error does not name the file.
func Read(name string, most int) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, plain(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, plain(err)
	}
	mode := info.Mode()
	switch {
	case mode.IsDir():
		return nil, mode, errors.New("it is a folder")
	case mode&fs.ModeNamedPipe != 0:
		return nil, mode, errors.New("it is a pipe: give a file")
	}
	_ = f.SetReadDeadline(time.Now().Add(Wait)) // fails for a file on which reads do not wait
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it did not end within %v: does a program still write to it?", Wait)
	}
	return text, mode, plain(err)
}

// Names lists at most most entries of a folder, unsorted. It returns an error for a pipe
// at once.
func Names(dir string, most int) ([]string, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, plain(err)
	}
	defer d.Close()
	var names []string
	for len(names) < most {
		some, err := d.Readdirnames(min(most-len(names), 1024))
		names = append(names, some...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return names, plain(err)
		}
	}
	return names, nil
}

// Save makes a file have the content, or writes the content into one that is not regular.
// The error does not name the file.
func Save(name string, content []byte) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return Write(name, content)
	}
	return plain(os.WriteFile(name, content, 0o666))
}

// Write writes the content into an existing file that is not regular.
func Write(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return errors.New("it is a named pipe that no program reads")
	}
	if err != nil {
		return plain(err)
	}
	_ = f.SetWriteDeadline(time.Now().Add(Wait))
	_, err = f.Write(content)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no program has read it within %v", Wait)
	}
	return errors.Join(plain(err), f.Close())
}

func plain(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
