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

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/rendezvous/preflight/ldso"
)

// sinceVerbsLib is the first version that reads NCCL_IBVERBS_LIB.
const sinceVerbsLib = 23003

// symbolVersion is the symbol version that NCCL needs of libibverbs.
const symbolVersion = "IBVERBS_1.1"

// verbsNames returns the names of libibverbs that NCCL tries, in its order.
//
// Source: src/misc/ibvsymbols.cc, buildIbvSymbols.
func (g *gatherer) verbsNames() []string {
	names := []string{"libibverbs.so", "libibverbs.so.1"}
	if v := environ.Get(g.o.Env, "NCCL_IBVERBS_LIB"); v != "" && (g.o.Code == 0 || g.o.Code >= sinceVerbsLib) {
		names = append([]string{v}, names...)
	}
	return names
}

// verbs finds the libibverbs that NCCL would open.
func (g *gatherer) verbs() Library {
	missed := ""
	for _, name := range g.verbsNames() {
		found := g.found[name]
		if found.Path == "" {
			if missed = found.Err; len(found.Rejected) > 0 {
				break
			}
			continue
		}
		l := Library{Path: found.Path, Why: found.Why}
		if names, err := namesIn(found.Path); err != nil {
			l.Error = err.Error()
		} else if !slices.Contains(names, symbolVersion) {
			l.Error = found.Path + " lacks the symbol version " + symbolVersion + " that NCCL needs"
		}
		return l
	}
	return Library{Error: missed}
}

// namesIn returns the dynamic strings of a library.
func namesIn(path string) ([]string, error) {
	f, err := ldso.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	return f.Names()
}

// providers returns the drivers for which libibverbs has a library: those in
// its folder libibverbs, such as "libmlx5-rdmav34.so", and those that its
// configuration names and that are on the loader's path, such as
// "libmlx5.so.1".
func (g *gatherer) providers(verbs string) []string {
	var out []string
	add := func(driver string) {
		if driver != "" && !slices.Contains(out, driver) {
			out = append(out, driver)
		}
	}
	dirs := []string{filepath.Dir(verbs)}
	if real, err := filepath.EvalSymlinks(verbs); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	for _, dir := range dirs {
		files, _ := smallfile.Names(dir+"/libibverbs", 256)
		for _, name := range files {
			if driver, ok := providerOf(name); ok {
				add(driver)
			}
		}
	}
	for _, driver := range g.configuredDrivers() {
		// This is the same library under the name by which programs link to it.
		if g.found[providerLibrary(driver)].Path != "" {
			add(driver)
		}
	}
	slices.Sort(out)
	return out
}

// configuredDrivers returns the drivers that libibverbs' configuration names.
func (g *gatherer) configuredDrivers() (drivers []string) {
	names, _ := smallfile.Names(g.o.Root+"/etc/libibverbs.d", 64)
	for _, name := range names {
		if driver, ok := strings.CutSuffix(name, ".driver"); ok {
			drivers = append(drivers, driver)
		}
	}
	return drivers
}

func providerLibrary(driver string) string { return "lib" + driver + ".so.1" }

// providerOf returns the driver in a name such as "libmlx5-rdmav34.so".
func providerOf(file string) (driver string, ok bool) {
	name, ok := strings.CutPrefix(file, "lib")
	if !ok || !strings.HasSuffix(name, ".so") {
		return "", false
	}
	driver, _, ok = strings.Cut(name, "-rdmav")
	return driver, ok && driver != ""
}

// setVerbs finds each device's file in /dev/infiniband.
func (g *gatherer) setVerbs(devices []Device) {
	if len(devices) == 0 {
		return
	}
	nodes, _ := smallfile.Names(g.o.Root+"/sys/class/infiniband_verbs", maxDevices+1) // one more, for abi_version
	for _, node := range nodes {
		device := g.line("/sys/class/infiniband_verbs/" + node + "/ibdev")
		for i := range devices {
			if devices[i].Name == device && device != "" {
				devices[i].Verbs = node
			}
		}
	}
}

// nodes tries to open the uverbs files, as libibverbs would. It opens no other
// file there, because opening those has effects.
func (g *gatherer) nodes(ctx context.Context) []DevNode {
	names, err := smallfile.Names(g.o.Root+"/dev/infiniband", 4*maxDevices)
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
	go func() { // the goroutine ends as soon as the driver returns
		tried := slices.Clone(out)
		for i := range tried {
			if ctx.Err() == nil {
				tried[i].Error = tryOpen(g.o.Root + tried[i].Path)
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
