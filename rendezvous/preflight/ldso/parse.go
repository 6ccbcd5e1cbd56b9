package ldso

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Answer is what ld.so prints about a program.
type Answer struct {
	Requests []Request // in the loader's order; each name that it searched for
	Stopped  string    // why the program would not start; "" if it would
}

// Request is a library that a program or a library asks for.
type Request struct {
	Name     string
	By       string     // the file that asks
	Path     string     // the file that the loader finds, "" for none
	Why      string     // how the loader finds it: "RPATH of /.../libtorch_cuda.so", "LD_LIBRARY_PATH", "ld.so.cache"
	Err      string     // why there is no Path
	Rejected []Rejected // files of that name that the loader tried before and did not accept

	tried    []place
	searched []string
}

// Rejected is a file that the loader did not accept.
type Rejected struct {
	Path, Why string
	Err       string
}

// place is a file that the loader tries, and the part of the search that it
// belongs to.
type place struct{ path, why string }

// First returns the first request for a name that match accepts, nil for none.
func (a *Answer) First(match func(name string) bool) *Request {
	for i := range a.Requests {
		if match(filepath.Base(a.Requests[i].Name)) {
			return &a.Requests[i]
		}
	}
	return nil
}

// maxRequests bounds the requests that an answer keeps.
const maxRequests = 4096

// absent and systemPath are words of ld.so's messages.
const (
	absent     = "cannot open shared object file"
	systemPath = "system search path"
)

// parse reads what ld.so --list prints with LD_DEBUG=libs,files. The texts are
// those of glibc's elf/dl-load.c and elf/rtld.c. A line of LD_DEBUG begins with
// the number of the process.
func parse(out string) Answer {
	p := parser{}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if pid, text, ok := strings.Cut(line, ":\t"); ok && pid != "" && strings.Trim(pid, " 0123456789") == "" {
			p.debug(text)
		} else if name, why, ok := splitLine(line, "ERROR: ld.so: object '", "' from ", " cannot be preloaded"); ok {
			why = strings.TrimPrefix(strings.TrimSuffix(why, ": ignored."), " (")
			p.fail(name, cmp.Or(strings.TrimSuffix(why, ")"), absent))
		} else if name, ok := strings.CutSuffix(line, " => not found"); ok {
			p.fail(strings.TrimPrefix(name, "\t"), absent)
		} else if _, text, ok := strings.Cut(line, ": error while loading shared libraries: "); ok && p.Stopped == "" {
			name, why, _ := strings.Cut(text, ": ")
			p.Stopped = text
			p.fail(name, why)
		}
	}
	return p.Answer
}

// splitLine splits "BEGIN name MIDDLE ... END rest".
func splitLine(line, begin, middle, end string) (name, rest string, ok bool) {
	line, ok = strings.CutPrefix(line, begin)
	name, line, found := strings.Cut(line, middle)
	_, rest, last := strings.Cut(line, end)
	return name, rest, ok && found && last
}

type parser struct {
	Answer
	stage string // part of the search that is printed
}

// debug reads a line of LD_DEBUG.
func (p *parser) debug(line string) {
	if name, by, ok := splitLine(line, "file=", " [", "];  needed by "); ok {
		if i := strings.LastIndex(by, " ["); i >= 0 && len(p.Requests) < maxRequests {
			p.Requests = append(p.Requests, Request{Name: name, By: by[:i]})
		}
		p.stage = ""
		return
	}
	if len(p.Requests) == 0 {
		return
	}
	r := &p.Requests[len(p.Requests)-1]
	if rest, ok := strings.CutPrefix(line, " search path="); ok {
		_, stage, _ := strings.Cut(rest, "\t\t(")
		p.stage = strings.Replace(strings.TrimSuffix(stage, ")"), " from file ", " of ", 1)
		r.searched = append(r.searched, strings.Replace(p.stage, systemPath, "default folders", 1))
	} else if strings.HasPrefix(line, " search cache=") {
		p.stage = "ld.so.cache"
		r.searched = append(r.searched, p.stage)
	} else if path, ok := strings.CutPrefix(line, "  trying file="); ok {
		r.tried = append(r.tried, place{path, p.stage})
	}
}

// fail marks the latest request for a name, or for the file that was found for
// the name.
func (p *parser) fail(name, why string) {
	for i := len(p.Requests) - 1; i >= 0; i-- {
		if r := &p.Requests[i]; r.Name == name || len(r.tried) > 0 && r.tried[len(r.tried)-1].path == name {
			r.Err = why
			return
		}
	}
}

// finish checks the files that the loader tried. The loader has found the last
// one, unless it printed an error. Relative paths start at dir.
func (r *Request) finish(dir string) {
	if strings.Contains(r.Name, "/") {
		r.tried, r.searched = []place{{r.Name, "named by its path"}}, []string{"this path alone"}
	}
	for i := range r.tried {
		if t := &r.tried[i]; !filepath.IsAbs(t.path) {
			t.path = dir + "/" + t.path
		}
	}
	last := place{}
	if n := len(r.tried); n > 0 {
		last = r.tried[n-1]
	}
	switch {
	case r.Err == "" && isFile(last.path):
		r.Path, r.Why = cleanPath(last.path), last.describe()
		r.tried = r.tried[:len(r.tried)-1]
	case r.Err == "": // the output ends here
		r.Err = absent
	}
	denied := ""
	for _, t := range r.tried {
		if !isFile(t.path) {
			continue
		}
		rejected := Rejected{Path: cleanPath(t.path), Why: t.describe()}
		err := loadError(t.path)
		rejected.Err = err.Error()
		if errors.Is(err, fs.ErrPermission) {
			denied = rejected.Path + ": permission denied; "
		}
		r.Rejected = append(r.Rejected, rejected)
	}
	switch {
	case strings.HasPrefix(r.Err, absent):
		r.Err = fmt.Sprintf("%s: not found (%ssearched: %s)", r.Name, denied, strings.Join(slices.Compact(r.searched), ", "))
	case r.Err != "":
		r.Err = fmt.Sprintf("%s: the loader gives up at %s (%s): %s", r.Name, cleanPath(last.path), last.describe(), r.Err)
	}
}

// loadError returns why the loader does not take a file that it has tried.
func loadError(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.checkMachine(); err != nil {
		return err
	}
	return errors.New("it cannot be mapped")
}

func (p place) describe() string {
	if p.why == systemPath {
		return "default folder " + filepath.Dir(p.path)
	}
	return p.why
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// cleanPath returns the path without "..", if that leads to the same file.
func cleanPath(path string) string {
	clean := filepath.Clean(path)
	if clean == path {
		return path
	}
	a, err := os.Stat(path)
	b, err2 := os.Stat(clean)
	if err == nil && err2 == nil && os.SameFile(a, b) {
		return clean
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
