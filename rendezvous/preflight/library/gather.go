package library

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

// These bound what the facts list.
const (
	maxCandidates = 32
	maxSites      = 64
	maxPaths      = 256
)

// Options says for which workers Gather works.
type Options struct {
	Run     ldso.Runner // asks the loader; nil: it stays unknown which library the loader takes
	Brief   bool        // leave out what only a node with a GPU driver needs
	Root    string      // prefix of the system's folders, for tests
	Env     []string    // of the workers; of two entries for a name the later counts
	Dir     string      // their working directory, absolute
	Program string      // file that is executed, absolute; a folder or .go file is a Go worker; "": nothing to run
	Args    []string    // of Program, after argv[0]: they contain the flags of a Python interpreter; nil if not known
	Python  string      // the interpreter if the worker is known to run in Python, else "" to find it from Program
	Script  string      // Python's main file or module; its folder is the first of sys.path. "": found in Args
}

// gatherer is one run of Gather.
type gatherer struct {
	Options
	ctx      context.Context
	env      environ
	loader   ldso.Loader
	facts    Facts
	seen     []fs.FileInfo           // libnccl files that are in the facts
	dlopen   map[string]ldso.Request // what any program gets, by name
	route    string                  // how the loader finds the worker's libnccl, "" if it does not
	torch    bool                    // torch was found
	noAnswer bool                    // the loader gave no answer; unknown says so
	unknown  []string
}

// Gather predicts what the workers will load. The second result says what stays
// unknown and why. If ctx ends, Gather returns what is known by then.
func Gather(ctx context.Context, o Options) (Facts, []string) {
	env := environ(o.Env)
	g := &gatherer{Options: o, ctx: ctx, env: env, loader: ldso.Loader{Run: o.Run, Env: o.Env, Dir: o.Dir}}
	g.facts.LDPath = split(env.get("LD_LIBRARY_PATH"), ":;")
	g.facts.Preload = split(env.get("LD_PRELOAD"), ": ")
	g.findByName()

	w := g.worker()
	var py *python
	switch w.kind {
	case elfWorker:
		g.predictProgram(w.path)
		if isGo(w.path) {
			g.predictGo()
		}
	case goWorker:
		g.predictGo()
	case pythonWorker:
		py = g.python(w)
		g.predictPython(py)
	case noWorker:
		if py = g.defaultPython(); py != nil {
			g.predictPython(py)
		}
		g.predictAny()
	case unknownWorker:
		g.addUnknown(w.why)
	}
	if py != nil {
		g.facts.Python = py.version
		for _, s := range py.sites {
			g.facts.Sites = append(g.facts.Sites, s.dir)
			g.facts.Wheels = append(g.facts.Wheels, s.wheels...)
		}
	}
	g.addCandidates(py)
	if w.kind == pythonWorker && !g.torch && len(g.facts.Candidates) > 0 {
		g.addUnknown("no torch in the site directories of " + py.exe + ": whether the worker loads an NCCL, and which, is not known")
	}
	g.driver()
	if ctx.Err() != nil {
		g.addUnknown(fmt.Sprintf("the search for libraries ended early: %v", context.Cause(ctx)))
	}
	return g.facts, g.unknown
}

// addUnknown adds a fact that stays unknown, with the reason.
func (g *gatherer) addUnknown(why string) { g.unknown = append(g.unknown, why) }

// addNoAnswer adds, once, that the loader gave no answer.
func (g *gatherer) addNoAnswer(err error) {
	if !g.noAnswer && g.ctx.Err() == nil {
		g.addUnknown("which libraries the workers load is not known: " + err.Error())
	}
	g.noAnswer = true
}

// findByName asks the loader which NCCL and which libraries of the driver any
// program gets.
func (g *gatherer) findByName() {
	if g.Brief {
		return
	}
	var err error
	if g.dlopen, err = g.loader.Find(g.ctx, []string{"libnccl.so.2", "libcuda.so.1", "libnvidia-ml.so.1"}); err != nil {
		g.addNoAnswer(err)
	}
}

// environ is an environment as a process receives it.
type environ []string

func (e environ) get(name string) string {
	for i := len(e) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(e[i], name); ok && strings.HasPrefix(rest, "=") {
			return rest[1:]
		}
	}
	return ""
}

// split lists the elements of a path list that are not empty.
func split(text, separators string) []string {
	list := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(separators, c) })
	return list[:min(len(list), maxPaths)]
}
