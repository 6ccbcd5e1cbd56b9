package gorun_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gorun/gorun"

// source is one parsed Go file of the module.
type source struct {
	path  string // from the root, with slashes
	pkg   string // the folder: "" for the root, "launch/logs"
	fset  *token.FileSet
	file  *ast.File
	lines []string
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// at returns the place of a node as path:line, which an editor understands.
func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.line(n))
}

func (s source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// imports returns the import paths of the file.
func (s source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// calls returns every call of pkg.name.
func (s source) calls(pkg, name string) []ast.Node {
	var found []ast.Node
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != name {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
			found = append(found, call)
		}
		return true
	})
	return found
}

func TestEachPackageHasOneDocComment(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		docs[s.pkg] = append(docs[s.pkg], nil...) // adds the package, even without a comment
		if s.file.Doc == nil {
			continue
		}
		docs[s.pkg] = append(docs[s.pkg], s.path)
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "" // a command's comment begins with its name, in any form
		}
		if !strings.HasPrefix(s.file.Doc.Text(), want) {
			t.Errorf("%s: the package comment does not begin with %q", s.path, want)
		}
	}
	for pkg, files := range docs {
		if len(files) != 1 {
			t.Errorf("package %q has %d package comments, not one: %v", pkg, len(files), files)
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init function: construct it where it is used", s.at(f))
			}
		}
	}
}

func TestOnlyProgramsExit(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || within(s.pkg, "cmd", "examples", "bench") {
			continue
		}
		for _, call := range s.calls("os", "Exit") {
			t.Errorf("%s: os.Exit outside a program: return an error", s.at(call))
		}
	}
}

// A test that sleeps is slow on a fast machine and fails on a slow one. Under synctest
// the clock is not real. Elsewhere a comment on the line says why the test sleeps.
func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() || slices.Contains(s.imports(), "testing/synctest") {
			continue
		}
		for _, call := range s.calls("time", "Sleep") {
			if !strings.Contains(s.lines[s.line(call)-1], "// sleep:") {
				t.Errorf("%s: time.Sleep in a test: wait for a condition, or add \"// sleep: <reason>\"", s.at(call))
			}
		}
	}
}

// TestImportsFollowTheDesign checks that imports follow the arrows of the design: cmd →
// launch → {rendezvous, envprop} and rendezvous/X → rendezvous. Tests may import any
// package.
func TestImportsFollowTheDesign(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, imp := range s.imports() {
			if why := forbidden(s.pkg, imp); why != "" {
				t.Errorf("%s imports %s: %s", s.path, imp, why)
			}
		}
	}
}

// TestOnlyLaunchSeesTheSpec checks that the parts of an agent get the options that they
// need, not all that the user asked.
func TestOnlyLaunchSeesTheSpec(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.pkg == "launch" || within(s.pkg, "launch/spec", "cmd", "bench") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Spec" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "spec" {
					t.Errorf("%s uses the whole Spec: take the options that are needed", s.at(sel))
				}
			}
			return true
		})
	}
}

func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		bad      bool
	}{
		{"cmd/gorun", module + "/launch", false},
		{"launch", module + "/rendezvous/control", false},
		{"launch", module + "/cmd/gorun", true},
		{"launch/logs", module + "/launch/process", false},
		{"launch/logs", module + "/launch", true},
		{"bench", module + "/launch/diagnose", false},
		{"rendezvous", module + "/launch", true},
		{"rendezvous", module + "/rendezvous/gossip", true},
		{"rendezvous/gossip", module + "/rendezvous", false},
		{"rendezvous/gossip", module + "/rendezvous/control", true},
		{"rendezvous/rendezvoustest", module + "/rendezvous/control", false},
		{"rendezvous/gossip", module + "/rendezvous/rendezvoustest", true},
		{"bench", module + "/rendezvous/rendezvoustest", false},
		{"rendezvous/gossip/wire", module + "/rendezvous/gossip", false},
		{"rendezvous/gossip", module + "/rendezvous/secret", false},
		{"rendezvous", module + "/rendezvous/secret", true},
		{"rendezvous", module + "/internal/term", false},
		{"internal/term", module + "/rendezvous", true},
		{"envprop", module + "/launch/device", true},
		{"envprop", module + "/envprop/ncclenv", false},
		{"envprop", module + "/rendezvous/preflight", true},
		{"envprop/ncclenv", module + "/rendezvous", true},
		{"worker", module + "/worker/contract", false},
		{"worker", module + "/rendezvous", true},
		{"worker/tcp", "golang.org/x/sys/unix", true},
		{"worker/tcp", "crypto/hmac", false},
		{"worker/cuda/internal/dl", "github.com/ebitengine/purego", false},
		{"worker/tcp", "github.com/ebitengine/purego", true},
		{"worker", module + "/worker/cuda", true},
		{"worker/cuda", module + "/worker/internal/attach", false},
		{"examples/allreduce", module + "/worker", false},
		{"examples/allreduce", module + "/launch", true},
	} {
		if why := forbidden(c.pkg, c.imp); (why != "") != c.bad {
			t.Errorf("forbidden(%q, %q) = %q, want bad = %v", c.pkg, c.imp, why, c.bad)
		}
	}
}

// forbidden says why a package must not import another, or "".
func forbidden(pkg, imp string) string {
	inside, isOurs := strings.CutPrefix(imp, module+"/")
	isStd := !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".")
	switch {
	case within(pkg, "worker/cuda") && imp == "github.com/ebitengine/purego": // which opens libcuda and libnccl
		return ""
	case within(pkg, "worker") && !isStd && !(isOurs && within(inside, "worker")):
		return "worker is linked into users' programs: standard library and worker/... only"
	case !isOurs:
		return ""
	case within(pkg, "worker") && !within(pkg, "worker/cuda") && within(inside, "worker/cuda"):
		return "programs without GPUs stay static: they import worker, not worker/cuda"
	case within(inside, "cmd"):
		return "nothing imports a command"
	case strings.HasSuffix(path.Base(inside), "test") && path.Base(inside) != "selftest" && !within(pkg, "bench") && !strings.HasSuffix(path.Base(pkg), "test"):
		return "what only tests need is not part of the program"
	case second(pkg) == "rendezvoustest": // it joins backends, streams and machines
		return ""
	case within(inside, "launch") && !within(pkg, "launch", "cmd", "bench"):
		return "launch stands above everything but cmd and bench"
	case within(pkg, "envprop") && within(inside, "rendezvous"):
		return "the environment is decided without knowing how nodes meet"
	case inside == "launch" && pkg != "launch" && within(pkg, "launch"):
		return "the parts of an agent do not know the agent"
	case pkg == "rendezvous" && within(inside, "rendezvous"):
		return "the domain does not know its backends"
	case within(pkg, "internal") && !within(inside, "internal"):
		return "internal holds what several rooms need and knows none of them"
	case inside == "rendezvous/secret" && pkg != "rendezvous": // keys know nothing of nodes
		return ""
	case within(pkg, "rendezvous") && within(inside, "rendezvous") && inside != "rendezvous" && second(pkg) != second(inside):
		return "the packages below rendezvous import rendezvous, never each other"
	case within(pkg, "examples") && !within(inside, "worker", "examples"):
		return "an example uses what a user may use: worker"
	}
	return ""
}

// mostFiles bounds the files of a package. A package that needs more has a second
// purpose.
const mostFiles = 15

// tables lists the packages whose files are rows, rules or commands, one family each.
var tables = []string{"cmd/gorun", "launch/diagnose", "rendezvous/preflight/rules"}

func TestPackagesHaveFewFiles(t *testing.T) {
	files := map[string]int{}
	for _, s := range sources(t) {
		if !s.isTest() {
			files[s.pkg]++
		}
	}
	for pkg, n := range files {
		if n > mostFiles && !slices.Contains(tables, pkg) {
			t.Errorf("%s has %d files, at most %d are allowed: give its parts rooms of their own", pkg, n, mostFiles)
		}
	}
}

// mostFields bounds the fields of a struct. A struct with more has parts that need names
// of their own. A struct that is written as JSON may have more.
const mostFields = 14

func TestStructsHaveFewFields(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok && !isJSON(st) && spec.Name.Name != "Row" { // a row has a field for each column of its table
				if n := st.Fields.NumFields(); n > mostFields {
					t.Errorf("%s: %s has %d fields, at most %d are allowed", s.at(spec), spec.Name.Name, n, mostFields)
				}
			}
			return true
		})
	}
}

func isJSON(st *ast.StructType) bool {
	return slices.ContainsFunc(st.Fields.List, func(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, "json:") })
}

// TestOnlyTermDecidesWhatIsPrintable checks that only internal/term decides what may
// reach a terminal.
func TestOnlyTermDecidesWhatIsPrintable(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || within(s.pkg, "internal/term", "worker", "examples") {
			continue
		}
		for _, name := range []string{"IsPrint", "IsGraphic", "IsControl"} {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == "unicode" {
						t.Errorf("%s: unicode.%s: use internal/term", s.at(n), name)
					}
				}
				return true
			})
		}
	}
}

// within reports whether the folder is one of the roots or below one.
func within(pkg string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		return pkg == r || strings.HasPrefix(pkg, r+"/")
	})
}

// second returns the second element of a path: "gossip" of rendezvous/gossip/wire.
func second(pkg string) string {
	if parts := strings.Split(pkg, "/"); len(parts) > 1 {
		return parts[1]
	}
	return ""
}

// sources parses every Go file of the module, without nested modules and testdata.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipFolder(name)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		s, err := parse(fset, filepath.ToSlash(name))
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatalf("cannot read the sources: %v", err)
	}
	if len(all) < 2 {
		t.Fatalf("only %d Go files found: does the test run in the module's root?", len(all))
	}
	return all
}

func skipFolder(name string) error {
	if name == "." {
		return nil
	}
	base := filepath.Base(name)
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	if err == nil || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return filepath.SkipDir
	}
	return nil
}

func parse(fset *token.FileSet, name string) (source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	s := source{path: name, fset: fset, file: file}
	if dir := path.Dir(name); dir != "." {
		s.pkg = dir
	}
	for line := range bytes.Lines(text) {
		s.lines = append(s.lines, string(line))
	}
	return s, nil
}
