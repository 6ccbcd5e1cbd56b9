package host

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/environ"
)

// logs checks the folder that NCCL_DEBUG_FILE names, because NCCL creates no
// folder and drops the log without one. %h in the folder's name is the host's
// name.
func (o Options) logs() (files []File, why string) {
	name := o.Log
	if name == "" {
		name = environ.Get(o.Env, "NCCL_DEBUG_FILE")
	}
	if name == "" || name == "/dev/stdout" || name == "/dev/stderr" || name == os.DevNull {
		return nil, ""
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(o.Dir, name)
	}
	dir := filepath.Dir(name)
	if strings.Contains(dir, "%h") {
		host, _ := os.Hostname()
		dir = strings.ReplaceAll(dir, "%h", host)
	}
	return []File{o.folder(dir)}, ""
}

func (o Options) folder(dir string) File {
	f := File{Path: dir, Free: -1}
	var fs unix.Statfs_t
	if err := unix.Statfs(o.Root+dir, &fs); err != nil {
		f.Error = err.Error()
		return f
	}
	f.Free = space(fs.Bavail, fs.Bsize)
	// Faccessat checks as the kernel would for an open: by the effective user.
	if err := unix.Faccessat(unix.AT_FDCWD, o.Root+dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		f.Error = err.Error()
		return f
	}
	f.Writable = true
	return f
}
