package ncclenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/environ"
)

// Options say which workers' settings Gather and Files look for.
type Options struct {
	Root string   // where /etc and the conf files are; "" for the real ones
	Env  []string // the workers' environment, as KEY=VALUE
	Dir  string   // the workers' working directory, for a relative NCCL_CONF_FILE
	NCCL int      // version code of the NCCL that workers load; 0: unknown, taken as recent
}

// Gather reads the conf files that NCCL would read, in its order, and merges
// them with the environment, by name. Unknown lists what it could not find out.
func Gather(_ context.Context, o Options) (values []Value, confs []ConfFile, unknown []string) {
	files, unknown := Files(o)
	for _, f := range files {
		confs = append(confs, f.Facts)
	}
	return Merge(o.Env, files), confs, unknown
}

// Files reads the conf files that NCCL would read, in its order. Unknown lists what it
// could not find out.
func Files(o Options) (files []File, unknown []string) {
	readConf := func(path string, named bool) {
		f, err := o.read(path)
		if errors.Is(err, os.ErrNotExist) && !named {
			return
		}
		if err != nil {
			f = File{Facts: ConfFile{Path: path, Error: err.Error()}}
		}
		files = append(files, f)
	}
	if named := environ.Get(o.Env, "NCCL_CONF_FILE"); named != "" && (o.NCCL == 0 || o.NCCL >= 22300) {
		if named != os.DevNull { // /dev/null means: no user file
			readConf(named, true)
		}
	} else if home, sure := o.home(); home != "" {
		path := filepath.Join(home, ".nccl.conf")
		readConf(path, false)
		if !sure && len(files) > 0 {
			unknown = append(unknown, fmt.Sprintf("whether NCCL reads %s: NCCL takes the home of user %d from the password database, and /etc/passwd does not list this user", path, os.Getuid()))
		}
	}
	readConf("/etc/nccl.conf", false)
	return files, unknown
}

// read reads and parses a conf file. A file that is not regular is an error, so read
// never waits.
func (o Options) read(path string) (File, error) {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(o.Dir, full)
	}
	text, err := readFile(o.Root+full, maxConf+1)
	if err != nil {
		if strings.HasPrefix(path, "~") {
			err = fmt.Errorf("%w (NCCL does not expand ~)", err)
		}
		return File{}, err
	}
	return ParseConf(path, text), nil
}

// readFile reads at most limit bytes. Errors do not repeat the name.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return text, nil
}

// home returns the folder in which NCCL looks for .nccl.conf: the home of the password
// database, whatever $HOME says (userHomeDir in its src/misc/param.cc). Of the database
// home reads only /etc/passwd. For a user of another source (LDAP) it returns $HOME,
// which is not sure.
func (o Options) home() (home string, sure bool) {
	text, _ := readFile(o.Root+"/etc/passwd", 1<<20)
	uid := []byte(strconv.Itoa(os.Getuid()))
	for line := range bytes.Lines(text) {
		fields := bytes.Split(bytes.TrimRight(line, "\n"), []byte(":"))
		if len(fields) >= 6 && bytes.Equal(fields[2], uid) {
			return string(fields[5]), true
		}
	}
	return environ.Get(o.Env, "HOME"), false
}
