package rdma

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gorun/gorun/rendezvous/preflight/loader"
)

// sinceVerbsLib is the first version that reads NCCL_IBVERBS_LIB.
const sinceVerbsLib = 23003

// symbolVersion is what NCCL needs of libibverbs.
const symbolVersion = "IBVERBS_1.1"

// verbs finds the libibverbs that NCCL would open.
// Source: src/misc/ibvsymbols.cc, buildIbvSymbols.
func (g *gatherer) verbs() Library {
	names := []string{"libibverbs.so", "libibverbs.so.1"}
	if v := g.env("NCCL_IBVERBS_LIB"); v != "" && (g.o.Code == 0 || g.o.Code >= sinceVerbsLib) {
		names = append([]string{v}, names...)
	}
	var missed error
	for _, name := range names {
		found, err := g.find(name)
		if err != nil {
			if missed = err; len(found.Others) > 0 {
				return Library{Error: err.Error()}
			}
			continue
		}
		l := Library{Path: found.Path, Why: found.Why()}
		has := false
		if err := g.names(found.Path, func(s string) bool { has = s == symbolVersion; return !has }); err != nil {
			l.Error = err.Error()
		} else if !has {
			l.Error = found.Path + " lacks the symbol version " + symbolVersion + " that NCCL needs"
		}
		return l
	}
	return Library{Error: missed.Error()}
}

// names goes through the dynamic strings of a library until use says false.
func (g *gatherer) names(path string, use func(string) bool) error {
	f, err := g.files.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	names, err := loader.Names(f, f.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for name := range names {
		if !use(name) {
			break
		}
	}
	return nil
}

// providers are the drivers for which libibverbs has a library: those in its
// folder libibverbs, as "libmlx5-rdmav34.so", and those that its configuration
// names and that lie on the loader's path, as "libmlx5.so.1".
func (g *gatherer) providers(verbs string) []string {
	var out []string
	add := func(driver string) {
		if driver != "" && !slices.Contains(out, driver) {
			out = append(out, driver)
		}
	}
	dirs := []string{filepath.Dir(verbs)}
	if real, err := g.files.Resolve(verbs); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	for _, dir := range dirs {
		files, _ := g.files.ReadDir(dir+"/libibverbs", 256)
		for _, name := range files {
			if driver, ok := providerOf(name); ok {
				add(driver)
			}
		}
	}
	conf, _ := g.files.ReadDir("/etc/libibverbs.d", 64)
	for _, name := range conf {
		driver, ok := strings.CutSuffix(name, ".driver")
		if !ok || slices.Contains(out, driver) {
			continue
		}
		// The same library under the name by which programs link to it.
		if _, err := g.find("lib" + driver + ".so.1"); err == nil {
			add(driver)
		}
	}
	slices.Sort(out)
	return out
}

// providerOf reads "libmlx5-rdmav34.so".
func providerOf(file string) (driver string, ok bool) {
	name, ok := strings.CutPrefix(file, "lib")
	if !ok || !strings.HasSuffix(name, ".so") {
		return "", false
	}
	driver, _, ok = strings.Cut(name, "-rdmav")
	return driver, ok && driver != ""
}

// nameVerbs finds each device's file in /dev/infiniband.
func (g *gatherer) nameVerbs(devices []Device) {
	if len(devices) == 0 {
		return
	}
	nodes, _ := g.files.ReadDir("/sys/class/infiniband_verbs", maxDevices+1) // and abi_version
	for _, node := range nodes {
		device := g.line("/sys/class/infiniband_verbs/" + node + "/ibdev")
		for i := range devices {
			if devices[i].Name == device && device != "" {
				devices[i].Verbs = node
			}
		}
	}
}

// nodes tries to open the uverbs files, as libibverbs would. Other files there
// mean something when they are opened, so they are not.
func (g *gatherer) nodes(ctx context.Context) []DevNode {
	names, err := g.files.ReadDir("/dev/infiniband", 4*maxDevices)
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, func(s string) bool { return !strings.HasPrefix(s, "uverbs") })
	slices.SortFunc(names, compareNames)
	out := make([]DevNode, min(len(names), maxDevices))
	for i := range out {
		out[i].Path = "/dev/infiniband/" + names[i]
	}
	done := make(chan []DevNode, 1)
	go func() { // ends as soon as the driver lets it
		tried := slices.Clone(out)
		for i := range tried {
			if ctx.Err() == nil {
				tried[i].Error = tryOpen(filepath.Join(g.o.Root, "/", tried[i].Path))
			}
		}
		done <- tried
	}()
	select {
	case tried := <-done:
		return tried
	case <-ctx.Done():
		g.unknown = append(g.unknown, "whether /dev/infiniband can be opened: "+ctx.Err().Error())
		return out
	}
}

func tryOpen(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return err.Error()
	}
	_ = f.Close()
	return ""
}
