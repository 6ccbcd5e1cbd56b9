package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var (
	//go:embed csrc/helper.c
	helperC []byte
	//go:embed torchrun.py
	torchrunPy []byte
	//go:embed ssh-stand-in.sh
	sshStandIn []byte
)

// lab is what the measurements share: built programs and a scratch folder.
type lab struct {
	scratch  string // removed at the end
	helper   string // path of the worker and floor program
	compiler string // what helper was built with
	gorun    string // path of gorun, "" if there is none
	gorunWhy string // why there is none
	torchrun string // path of the torchrun starter
	ssh      string // path of the stand-in for ssh
	module   string // root of the module
	etcd     *service
	etcdWhy  string // why there is none
	runs     int    // jobs of several nodes that were started
}

// newLab builds what is needed; gorun is a path or "", which runs "make build".
func newLab(ctx context.Context, module, gorun string) (*lab, error) {
	// Short: a path of a Unix socket below it has 107 bytes at most.
	scratch, err := os.MkdirTemp("", "gorun-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{
		scratch: scratch, module: module, gorun: gorun,
		torchrun: filepath.Join(scratch, "torchrun.py"),
		ssh:      filepath.Join(scratch, "ssh"),
	}
	if err := l.prepare(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context) error {
	if err := os.WriteFile(l.torchrun, torchrunPy, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(l.ssh, sshStandIn, 0o700); err != nil {
		return err
	}
	if err := l.buildHelper(ctx); err != nil {
		return err
	}
	return l.findGorun(ctx)
}

// buildHelper prefers C: a worker of 20 µs adds no noise of its own.
func (l *lab) buildHelper(ctx context.Context) error {
	l.helper = filepath.Join(l.scratch, "helper")
	if cc, err := exec.LookPath("cc"); err == nil {
		source := l.helper + ".c"
		if err := os.WriteFile(source, helperC, 0o600); err != nil {
			return err
		}
		for _, link := range []string{"-static", "-O2"} { // not every machine has a static libc
			if exec.CommandContext(ctx, cc, "-O2", link, "-o", l.helper, source).Run() == nil {
				l.compiler = "C"
				return nil
			}
		}
	}
	l.compiler = "Go"
	return l.build(ctx, "go", "build", "-o", l.helper, "./bench/helper")
}

// findGorun copies it, as an installation would: what the linker has just written
// lies in the page cache in single pages, and starts up to 0.5 ms slower for that.
func (l *lab) findGorun(ctx context.Context) error {
	path := l.gorun
	if path == "" {
		path = filepath.Join(l.module, "bin", "gorun")
		if err := l.build(ctx, "make", "build"); err != nil {
			l.gorunWhy = "does not build"
			fmt.Fprintln(os.Stderr, "bench:", err)
			return nil
		}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot use -gorun: %w", err)
	}
	l.gorun = filepath.Join(l.scratch, "gorun")
	return os.WriteFile(l.gorun, program, 0o700)
}

// build runs a command in the module's root.
func (l *lab) build(ctx context.Context, line ...string) error {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = l.module
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot run %s: %w\n%s", strings.Join(line, " "), err, text)
	}
	return nil
}

func (l *lab) close() {
	if l.etcd != nil {
		l.etcd.end()
	}
	os.RemoveAll(l.scratch)
}
