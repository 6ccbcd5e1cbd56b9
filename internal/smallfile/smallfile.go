// Package smallfile reads and writes the files that a user names on the command
// line, and reads those of the system: whole, and bounded in size.
//
// Invariants: no call waits for another process to open a pipe; a call takes at
// most Wait where a device, or the reader of a pipe, is slow. A file system that
// hangs can still hold up a call.
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

// Wait bounds the time for which another end may keep a call waiting.
const Wait = 10 * time.Second

// Read returns a file's content, at most one byte more than most. It refuses a pipe:
// the writer of a named one may never come, and one that a shell has made, as by
// <(COMMAND), is not this process's but its parent's. The error does not name the
// file.
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
		return nil, mode, errors.New("it is a pipe, whose writer may never come: give a file")
	}
	_ = f.SetReadDeadline(time.Now().Add(Wait)) // what has no deadline does not wait
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing has ended it within %v: is its writer still at work?", Wait)
	}
	return text, mode, plain(err)
}

// Names lists a folder, unsorted, at most so many entries of it. It does not wait for
// a pipe in the folder's place.
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

// Write puts the content into a file that exists and is no regular one.
func Write(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return errors.New("it is a named pipe that nobody reads")
	}
	if err != nil {
		return plain(err)
	}
	_ = f.SetWriteDeadline(time.Now().Add(Wait))
	_, err = f.Write(content)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nobody has read it within %v", Wait)
	}
	return errors.Join(plain(err), f.Close())
}

func plain(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
