package library

import (
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

const maxConfig = 64 << 10 // bytes of pyvenv.cfg, .python-version, a .pth file, torch/version.py

// python is an interpreter and where it looks for packages.
type python struct {
	exe     string // path as it is named; it identifies a virtual environment
	real    string // the file that is executed, "" unknown
	version string // "3.11", "3.13t"; "" unknown
	venv    string // folder of the virtual environment, "" for none
	system  bool   // the environment includes the system's packages
	prefix  string // of the installation that has the standard library, "" unknown
	flags   flags
	sites   []site // in the order of sys.path
}

// flags are the interpreter's flags that decide about sys.path.
type flags struct {
	noUser, noSite, noEnv, safePath bool
	here                            bool   // -m and -c: the working directory is the first of sys.path
	script                          string // the script, or the name of a module
}

// python finds the worker's interpreter and where it looks for packages.
func (g *gatherer) python(w worker) *python {
	p := &python{exe: g.resolveShim(w.path)}
	p.flags = readFlags(w.args)
	if w.script != "" {
		p.flags.script = w.script
	}
	if g.env.get("PYTHONNOUSERSITE") != "" && !p.flags.noEnv {
		p.flags.noUser = true
	}
	if g.env.get("PYTHONSAFEPATH") != "" && !p.flags.noEnv {
		p.flags.safePath = true
	}
	p.real, _ = filepath.EvalSymlinks(p.exe)
	home, recorded := "", ""
	for _, dir := range []string{filepath.Dir(p.exe), filepath.Dir(filepath.Dir(p.exe))} {
		text, err := readFile(filepath.Join(dir, "pyvenv.cfg"), maxConfig)
		if err == nil {
			cfg := parseConfig(string(text))
			p.venv, home, recorded = dir, cfg["home"], cfg["version"]
			p.system = strings.EqualFold(cfg["include-system-site-packages"], "true")
			if recorded == "" {
				recorded = cfg["version_info"]
			}
			break
		}
	}
	p.version = g.pythonVersion(p.real, recorded)
	starts := []string{filepath.Dir(p.real)}
	if home != "" {
		starts = []string{home, filepath.Dir(p.real)}
	}
	if set := g.env.get("PYTHONHOME"); set != "" && !p.flags.noEnv {
		p.prefix, _, _ = strings.Cut(set, ":")
	} else {
		p.prefix = g.prefix(starts, p.version)
	}
	if p.version == "" && p.prefix != "" {
		p.version = g.onlyVersion(p.prefix)
	}
	if p.version == "" {
		g.addUnknown("the version of " + p.exe + " is not known, so its packages are not found")
	}
	g.sites(p)
	return p
}

// defaultPython returns the interpreter that gorun would start for a script if
// there is no program to run; nil if there is no interpreter.
func (g *gatherer) defaultPython() *python {
	path := g.lookPath(g.env.get("PYTHON_EXEC"))
	if venv := g.env.get("VIRTUAL_ENV"); path == "" && venv != "" {
		if name := filepath.Join(venv, "bin/python"); isFile(name) {
			path = name
		}
	}
	for _, name := range []string{"python3", "python"} {
		if path == "" {
			path = g.lookPath(name)
		}
	}
	if path == "" {
		return nil
	}
	return g.python(worker{kind: pythonWorker, path: path})
}

// readFlags reads the interpreter's arguments before the script
// (Python/getopt.c).
func readFlags(args []string) (f flags) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			f.script = arg
			return f
		}
		if strings.HasPrefix(arg, "--") {
			if arg == "--check-hash-based-pycs" && len(args) > 0 {
				args = args[1:]
			}
			continue
		}
		for i, c := range arg[1:] {
			switch c {
			case 's':
				f.noUser = true
			case 'S':
				f.noSite = true
			case 'E':
				f.noEnv = true
			case 'P':
				f.safePath = true
			case 'I':
				f.noUser, f.noEnv, f.safePath = true, true, true
			case 'c', 'm':
				f.here = true
				return f
			}
			if c == 'W' || c == 'X' {
				if arg[2+i:] == "" && len(args) > 0 {
					args = args[1:]
				}
				break
			}
		}
	}
	return f
}

// parseConfig reads lines of "key = value", as pyvenv.cfg has them.
func parseConfig(text string) map[string]string {
	cfg := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, "=")
		if ok && len(cfg) < 100 {
			cfg[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return cfg
}

// pythonVersion returns a version such as "3.11". It takes it from the name of
// the file, the libpython that the file needs, or the record of the virtual
// environment.
func (g *gatherer) pythonVersion(real, recorded string) string {
	if v := minorVersion(strings.TrimPrefix(filepath.Base(real), "python")); v != "" {
		return v
	}
	if f, err := ldso.Open(real); err == nil {
		defer f.Close()
		needed, _ := f.Needed()
		for _, name := range needed {
			if rest, ok := strings.CutPrefix(name, "libpython"); ok {
				rest, _, _ = strings.Cut(rest, ".so")
				if v := minorVersion(rest); v != "" {
					return v
				}
			}
		}
	}
	if parts := strings.SplitN(recorded, ".", 3); len(parts) > 1 {
		return minorVersion(parts[0] + "." + parts[1])
	}
	return ""
}

// minorVersion accepts "3.11" and "3.13t" only.
func minorVersion(s string) string {
	major, minor, ok := strings.Cut(s, ".")
	if !ok || !isNumber(major) || !isNumber(strings.TrimSuffix(minor, "t")) {
		return ""
	}
	return s
}

func isNumber(s string) bool {
	return len(s) > 0 && len(s) < 6 && strings.Trim(s, "0123456789") == ""
}

// prefix returns the folder with the standard library. It goes up from the
// interpreter's folder (Modules/getpath.py).
func (g *gatherer) prefix(starts []string, version string) string {
	for _, start := range starts {
		if !filepath.IsAbs(start) {
			continue
		}
		for dir := filepath.Clean(start); ; dir = filepath.Dir(dir) {
			for _, lib := range []string{"lib", "lib64"} {
				if version != "" && isFile(filepath.Join(dir, lib, "python"+version, "os.py")) {
					return dir
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	// The installation may lack its library, or its version may be unknown.
	if start := starts[0]; filepath.Base(start) == "bin" {
		return filepath.Dir(start)
	}
	return ""
}

// onlyVersion returns the version of Python whose library a prefix has, if it
// has exactly one.
func (g *gatherer) onlyVersion(prefix string) string {
	names, _ := smallfile.Names(filepath.Join(prefix, "lib"), maxNames)
	found := ""
	for _, name := range names {
		v := ""
		if rest, ok := strings.CutPrefix(name, "python"); ok {
			v = minorVersion(rest)
		}
		if v == "" || v == found {
			continue
		}
		if found != "" {
			return ""
		}
		found = v
	}
	return found
}
