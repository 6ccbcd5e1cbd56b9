package handout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/internal/smallfile"
	"golang.org/x/sys/unix"
)

// networkTypes are the types of file systems that several machines share and that know
// owners and modes (statfs(2)).
func networkTypes() []int64 {
	return []int64{
		unix.NFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC,
		0x0BD00BD0, // Lustre
		0x47504653, // GPFS
		0x19830326, // BeeGFS
		0x20030528, // OrangeFS
		0xAAD7AAEA, // PanFS
	}
}

// folder is the place for files with keys.
type folder struct {
	path   string // "": there is no home folder
	shared bool   // it is in a network file system
}

// findFolder returns the folder that an environment names.
func findFolder(env []string) folder {
	base := environ.Get(env, "XDG_STATE_HOME")
	path := filepath.Join(base, "gorun")
	if !filepath.IsAbs(base) {
		base = environ.Get(env, "HOME")
		path = filepath.Join(base, ".gorun")
	}
	if !filepath.IsAbs(base) {
		return folder{}
	}
	var fs unix.Statfs_t
	err := unix.Statfs(base, &fs)
	return folder{path, err == nil && slices.Contains(networkTypes(), int64(fs.Type)&0xffffffff)}
}

// content is what a file has.
type content struct {
	Run string `json:"run"`
	Key string `json:"key"`
}

// prefix returns how the names of a run's files begin.
func prefix(run string) string { return "secret-" + run[:16] + "-" }

// leftAfter is the age at which a file with a key counts as left by a killed node: a job
// removes its own when its nodes have joined.
const leftAfter = 24 * time.Hour

// write makes a new file with a key, which only its owner may read. It returns the
// name. It removes what killed nodes have left, but not the files of another job that
// waits for its nodes, which may have the same run id.
func (f folder) write(run, key string) (name string, err error) {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return "", err
	}
	names, _ := smallfile.Names(f.path, 10_000)
	for _, old := range names {
		if !fileName.MatchString(old) {
			continue
		}
		if info, err := os.Lstat(filepath.Join(f.path, old)); err == nil && time.Since(info.ModTime()) > leftAfter {
			f.remove(old)
		}
	}
	name = prefix(run) + randomText()[:32]
	path := filepath.Join(f.path, name)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.Write(line(content{run, key}))
	// A close writes the content to the server of a network file system.
	if err = errors.Join(err, isPrivate(file), file.Sync(), file.Close()); err != nil {
		f.remove(name)
		return "", fmt.Errorf("cannot keep a secret in %s: %w", path, err)
	}
	return name, nil
}

// read returns the key in a file of this user.
func (f folder) read(name, run string) (key string, err error) {
	if f.path == "" {
		return "", errors.New("this node has no home folder (HOME)")
	}
	if !fileName.MatchString(name) || !strings.HasPrefix(name, prefix(run)) {
		return "", errors.New("it is no file of this run")
	}
	file, err := os.OpenFile(filepath.Join(f.path, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := isPrivate(file); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxRequest))
	var c content
	if err == nil && (json.Unmarshal(text, &c) != nil || c.Run != run || !isRandomText(c.Key)) {
		err = errors.New("it has no key of this run")
	}
	return c.Key, err
}

func (f folder) remove(name string) { _ = os.Remove(filepath.Join(f.path, name)) }

// isPrivate returns an error unless a file is a regular one of this user that no other
// user can read.
func isPrivate(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	case !ok || int(stat.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users can use it (mode %04o)", info.Mode().Perm())
	}
	return nil
}
