package loader_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
	"github.com/gorun/gorun/rendezvous/preflight/loader/elftest"
)

// scene is a process that both loaders are asked about.
type scene struct {
	program string
	dir     string // working directory
	libPath string
	preload string
}

// traced asks ld.so: the file behind every library, "" for those not found. ok
// is false when it gives up. The program is started, unless it has no PT_INTERP
// and ldso must be told.
func (s scene) traced(t *testing.T, ldso string) (files map[string]string, ok bool, text string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program)
	if ldso != "" {
		cmd = exec.CommandContext(t.Context(), ldso, "--list", s.program)
	}
	cmd.Dir = s.dir
	cmd.Env = []string{"LD_LIBRARY_PATH=" + s.libPath, "LD_PRELOAD=" + s.preload, "LD_TRACE_LOADED_OBJECTS=1"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	files = map[string]string{}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		name, path, isArrow := strings.Cut(line, " => ")
		if !isArrow { // a preloaded path, the loader itself or the vdso
			path, _, _ = strings.Cut(line, " (")
			name = path
		}
		path, _, _ = strings.Cut(path, " (")
		if path == "not found" {
			files[name] = ""
			continue
		}
		if !strings.HasPrefix(path, "/") {
			path = s.dir + "/" + path
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			files[name] = real
		}
	}
	return files, err == nil, out.String() + errs.String()
}

// predicted asks this package.
func (s scene) predicted(t *testing.T) (files map[string]string, ok bool) {
	t.Helper()
	r := loader.New(loader.Config{Dir: s.dir, LibraryPath: s.libPath, Preload: s.preload})
	p, err := r.Start(t.Context(), s.program, nil)
	if err != nil {
		t.Logf("Start: %v", err)
		return nil, false
	}
	files = map[string]string{}
	for _, o := range p.Objects[1:] {
		real, err := filepath.EvalSymlinks(o.Path)
		if err != nil {
			t.Fatal(err)
		}
		if files[real] != "" {
			t.Errorf("%s is there twice, also as %s", real, o.Path)
		}
		files[real] = real
	}
	ok = true
	for _, m := range p.Missing {
		files[m.Name] = ""
		ok = false
	}
	return files, ok
}

// compare fails the test where the two differ. When ld.so gives up it names one
// fault, so the prediction must only have one as well.
func (s scene) compare(t *testing.T, ldso string) {
	t.Helper()
	want, wantOK, text := s.traced(t, ldso)
	got, gotOK := s.predicted(t)
	if !wantOK {
		if gotOK {
			t.Errorf("ld.so gives up, but nothing is missing in %v\n%s", got, text)
		}
		return
	}
	set := func(files map[string]string) []string {
		var all []string
		for name, path := range files {
			if path == "" {
				path = name + " not found"
			}
			if base := filepath.Base(path); !strings.HasPrefix(base, "linux-vdso") && !strings.HasPrefix(base, "ld-linux") {
				all = append(all, path)
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	if g, w := set(got), set(want); !slices.Equal(g, w) {
		t.Errorf("predicted %q\n   ld.so: %q\n%s", g, w, text)
	}
}

// gcc builds programs and libraries as a user would.
func gcc(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, "gcc"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc %q: %v\n%s", args, err, out)
	}
}

// The layouts that decide which libnccl a program gets, built with gcc.
func TestLikeTheRealLoaderWithGCC(t *testing.T) {
	tool(t, "gcc")
	realLoader(t)
	root := folder(t)
	in := func(name string) string { return filepath.Join(root, name) }
	write(t, in("empty.c"), "")
	write(t, in("main.c"), "int main(void) { return 0; }")
	built := map[string]string{}
	lib := func(path, soname string, args ...string) {
		key := soname + strings.Join(args, " ")
		if err := os.MkdirAll(filepath.Dir(in(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if from, ok := built[key]; ok { // one call of gcc for the same library
			data, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			write(t, in(path), string(data))
			return
		}
		built[key] = in(path)
		gcc(t, append([]string{"-shared", "-o", in(path), in("empty.c"), "-Wl,-soname," + soname, "-Wl,--no-as-needed"}, args...)...)
	}
	for _, dir := range []string{"a", "b", "c"} {
		lib(dir+"/libnccl.so.2", "libnccl.so.2")
	}
	const rpath, runpath = "-Wl,--disable-new-dtags,-rpath,", "-Wl,--enable-new-dtags,-rpath,"
	nccl := in("a/libnccl.so.2")
	lib("t/plain/libtorch.so", "libtorch.so", nccl)
	lib("t/rpath/libtorch.so", "libtorch.so", nccl, rpath+"$ORIGIN/../../b")
	lib("t/runpath/libtorch.so", "libtorch.so", nccl, runpath+"$ORIGIN/../../b")
	main := func(name, torch string, args ...string) {
		gcc(t, append([]string{"-o", in(name), in("main.c"), "-Wl,--no-as-needed", in("t/" + torch + "/libtorch.so"), "-Wl,--allow-shlib-undefined", "-Wl,-rpath-link," + in("a")}, args...)...)
	}
	main("rpath-rpath", "rpath", rpath+"$ORIGIN/t/rpath:$ORIGIN/c")
	main("rpath-plain", "plain", rpath+"$ORIGIN/t/plain:"+in("c"))
	main("runpath-plain", "plain", runpath+"$ORIGIN/t/plain:"+in("c"))
	main("runpath-rpath", "rpath", runpath+"${ORIGIN}/t/rpath")
	main("runpath-runpath", "runpath", runpath+"$ORIGIN/t/runpath")
	main("rpath-runpath", "runpath", rpath+"$ORIGIN/t/runpath:$ORIGIN/c")
	main("none-plain", "plain")
	link(t, in("rpath-plain"), in("elsewhere/link"))
	elftest.Write(t, in("other/libnccl.so.2"), elftest.Library{Soname: "libnccl.so.2", Machine: foreign()})
	write(t, in("junk/libnccl.so.2"), "no library at all, but long enough to be read as the header of one, is it not?")

	for _, program := range []string{"rpath-rpath", "rpath-plain", "runpath-plain", "runpath-rpath", "runpath-runpath", "rpath-runpath", "none-plain", "elsewhere/link"} {
		for _, libPath := range []string{"", in("a"), in("other") + ":" + in("a"), in("junk") + ":" + in("a"), in("t/plain") + ";" + in("a"), ":", in("t/plain") + ":", "a:t/plain", "$ORIGIN/a"} {
			for _, preload := range []string{"", in("a/libnccl.so.2"), "libnccl.so.2", "libmissing.so"} {
				s := scene{program: in(program), dir: in(""), libPath: libPath, preload: preload}
				t.Run(fmt.Sprintf("%s,%s,%s", program, strings.ReplaceAll(libPath, root, ""), filepath.Base(preload)), func(t *testing.T) {
					s.compare(t, "")
				})
			}
		}
	}
}

// One file under two names is mapped once.
func TestLikeTheRealLoaderWithLinks(t *testing.T) {
	ldso := realLoader(t)
	root := folder(t)
	m := loader.HostMachine()
	elftest.Write(t, root+"/libx.so", elftest.Library{Machine: m})
	link(t, "libx.so", root+"/liby.so")
	elftest.Write(t, root+"/main", elftest.Library{Machine: m, Needed: []string{"libx.so", "liby.so"}, Rpath: "$ORIGIN"})
	scene{program: root + "/main", dir: root, preload: root + "/liby.so"}.compare(t, ldso)
}

// Random layouts: a chain of libraries, copies in several folders, path lists of
// each kind. elftest's libraries need no compiler.
func TestLikeTheRealLoaderAtRandom(t *testing.T) {
	ldso := realLoader(t)
	for seed := range uint64(100) {
		root := folder(t)
		s, tree := randomScene(t, root, rand.New(rand.NewPCG(seed, 3)))
		s.compare(t, ldso)
		if t.Failed() {
			t.Fatalf("seed %d: LD_LIBRARY_PATH=%s LD_PRELOAD=%s in %s\n%s", seed, s.libPath, s.preload, s.dir, tree)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
	}
}

func randomScene(t *testing.T, root string, rng *rand.Rand) (scene, string) {
	t.Helper()
	places := []string{".", "p", "p/q", "r", "s", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"} // the last for $LIB
	for _, p := range places {
		if err := os.MkdirAll(filepath.Join(root, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link(t, "p/q", filepath.Join(root, "l")) // a link to a folder
	element := func() string {
		return []string{"$ORIGIN", "$ORIGIN/..", "${ORIGIN}/q", root + "/r", root + "/l", root + "/l/../q", "r", "", root + "/$LIB", "$LIB", root + "/$PLATFORM", "$ORIGIN/../s"}[rng.IntN(12)]
	}
	list := func() string {
		elements := []string{element()}
		for rng.IntN(2) == 0 {
			elements = append(elements, element())
		}
		return strings.Join(elements, ":")
	}
	made := map[string]elftest.Library{}
	library := func(i int) elftest.Library {
		l := elftest.Library{Machine: loader.HostMachine(), Soname: fmt.Sprintf("lib%d.so", i)}
		for j := i + 1; j < 5; j++ {
			if rng.IntN(2) == 0 || j == i+1 {
				l.Needed = append(l.Needed, fmt.Sprintf("lib%d.so", j))
			}
		}
		rng.Shuffle(len(l.Needed), func(a, b int) { l.Needed[a], l.Needed[b] = l.Needed[b], l.Needed[a] })
		if rng.IntN(6) == 0 {
			l.Needed = append(l.Needed, "libc.so.6") // of a default folder
		}
		switch rng.IntN(8) {
		case 0, 1, 2:
			l.Rpath = list()
		case 3, 4:
			l.Runpath = list()
		case 5:
			l.Rpath, l.Runpath = list(), list()
		case 6:
			l.Soname = "" // known by the name that is asked for alone
		}
		if rng.IntN(4) == 0 {
			l.Flags1 = elf.DF_1_NODEFLIB
		}
		return l
	}
	for i := 1; i < 5; i++ {
		for _, place := range places {
			if rng.IntN(5) < 3 {
				l := library(i)
				if rng.IntN(10) == 0 {
					l.Machine = foreign()
				}
				made[fmt.Sprintf("%s/lib%d.so", place, i)] = l
			}
		}
	}
	main := library(0)
	main.Rpath, main.Runpath = list()+":"+root+"/p", ""
	if rng.IntN(3) == 0 {
		main.Rpath, main.Runpath = "", main.Rpath
	}
	made["p/main"] = main
	s := scene{program: filepath.Join(root, "p/main"), dir: root}
	if rng.IntN(2) == 0 {
		s.libPath = strings.ReplaceAll(list()+":"+root+"/s", "$ORIGIN", root+"/p")
	}
	if rng.IntN(4) == 0 {
		s.preload = []string{"lib3.so", root + "/s/lib4.so", root + "/l/lib4.so", "lib4.so:lib9.so", "lib2.so lib4.so"}[rng.IntN(5)]
	}
	var tree strings.Builder
	for _, path := range slices.Sorted(maps.Keys(made)) {
		l := made[path]
		elftest.Write(t, filepath.Join(root, path), l)
		fmt.Fprintf(&tree, "%s: %+v\n", path, l)
	}
	return s, tree.String()
}
