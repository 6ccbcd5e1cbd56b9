package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// engine is a Docker engine with the images of examples/docker. Their base images
// have other names and other contents here: files of this machine's packages, since
// a test machine has no registry, and programs that were built before, since
// compiling gorun takes minutes.
type engine struct {
	testing.TB
	prefix string // of all names that the test makes in the engine
	dir    string
	images []string
}

// newEngine needs a Docker engine and builds nothing. All that the test made is
// removed in the end.
func newEngine(t *testing.T) *engine {
	t.Helper()
	d := &engine{TB: t, prefix: fmt.Sprintf("gorun-e2e-%d", os.Getpid()), dir: t.TempDir()}
	// Where CI has no engine, the test is skipped there, too.
	if out, err := d.try("version", "--format", "{{.Server.Version}}"); err != nil {
		t.Skipf("missing: a Docker engine (%v %.200s)", err, out)
	}
	t.Cleanup(d.clean)
	return d
}

// try runs a command of docker, and returns what it prints.
func (d *engine) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return d.run(exec.CommandContext(ctx, "docker", args...))
}

func (d *engine) run(cmd *exec.Cmd) (string, error) {
	cmd.Env = append(cmd.Environ(), "DOCKER_BUILDKIT=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// do is try for a command that must work.
func (d *engine) do(args ...string) string {
	d.Helper()
	out, err := d.try(args...)
	if err != nil {
		d.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (d *engine) clean() {
	list, _ := d.try("ps", "-aq", "--filter", "name="+d.prefix)
	if ids := strings.Fields(list); len(ids) > 0 {
		if d.Failed() {
			for _, id := range ids {
				logs, _ := d.try("logs", "-t", id)
				d.Logf("--- %s\n%s", id, clip(logs))
			}
		}
		_, _ = d.try(append([]string{"rm", "-f", "-v"}, ids...)...)
	}
	list, _ = d.try("network", "ls", "-q", "--filter", "name="+d.prefix)
	if ids := strings.Fields(list); len(ids) > 0 {
		_, _ = d.try(append([]string{"network", "rm"}, ids...)...)
	}
	for _, image := range slices.Backward(d.images) {
		if out, err := d.try("rmi", "-f", image); err != nil {
			d.Errorf("docker rmi %s: %v\n%s", image, err, out)
		}
	}
}

// image returns the name of an image or a container of this test.
func (d *engine) name(of string) string { return d.prefix + "-" + of }

// importBase makes an image that stands for one of a registry.
func (d *engine) importBase(name string, programs ...string) string {
	d.Helper()
	d.images = append(d.images, d.name(name))
	pipe := exec.Command("bash", append([]string{"-c", `set -o pipefail; name=$1; shift; testdata/docker/debian-image.sh "$@" | docker import - "$name"`, "-", d.name(name)}, programs...)...)
	if out, err := d.run(pipe); err != nil {
		d.Fatalf("docker import: %v\n%s", err, out)
	}
	return d.name(name)
}

// fakeGo takes the place of the Go toolchain: it copies the program that the test
// has built.
const fakeGo = `#!/bin/sh
while [ "$1" != -o ]; do shift; done
mkdir -p "${2%/*}"
exec cp "/prebuilt/${2##*/}${CGO_ENABLED:+-static}" "$2"
`

// toolchain makes the image in which examples/docker builds Go programs.
func (d *engine) toolchain() string {
	d.Helper()
	base := d.importBase("base", "sh", "cp", "mkdir")
	write := func(name string, text []byte) {
		d.Helper()
		if err := os.WriteFile(filepath.Join(d.dir, name), text, 0o755); err != nil {
			d.Fatal(err)
		}
	}
	for out, source := range map[string]string{"gorun-static": "../cmd/gorun", "allreduce-static": "../examples/allreduce"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(d.dir, out), source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if b, err := cmd.CombinedOutput(); err != nil {
			d.Fatalf("go build %s: %v\n%s", source, err, b)
		}
	}
	program, err := os.ReadFile(os.Getenv(envGorun))
	if err != nil {
		d.Fatal(err)
	}
	write("gorun", program)
	write("go", []byte(fakeGo))
	write("Dockerfile", []byte("FROM "+base+"\nCOPY go /usr/bin/\nCOPY gorun gorun-static allreduce-static /prebuilt/\n"))
	d.images = append(d.images, d.name("go"))
	d.do("build", "-q", "-t", d.name("go"), d.dir)
	return d.name("go")
}

// build builds an image of examples/docker. Its first stage gets a name, too, because
// an old builder leaves it behind.
func (d *engine) build(example string, arguments ...string) {
	d.Helper()
	line := []string{"build", "-q", "--force-rm", "-f", "../examples/docker/" + example + ".Dockerfile"}
	for _, a := range arguments {
		line = append(line, "--build-arg", a)
	}
	d.images = append(d.images, d.name(example+"-build"), d.name(example))
	d.do(append(slices.Clip(line), "--target", "build", "-t", d.name(example+"-build"), "..")...)
	d.do(append(slices.Clip(line), "-t", d.name(example), "..")...)
}

// container is a container that runs, or has run.
type container struct {
	d    *engine
	name string
}

// start runs the DDP example's image, with another command if there is one.
func (d *engine) start(t testing.TB, name string, options []string, command ...string) container {
	t.Helper()
	own := &engine{TB: t, prefix: d.prefix}
	c := container{own, d.name(name)}
	line := slices.Concat([]string{"run", "-d", "--name", c.name}, options, []string{d.name("ddp")}, command)
	own.do(line...)
	return c
}

func (c container) logs() string {
	out, _ := c.d.try("logs", c.name)
	return out
}

// code returns the exit code; false while the container runs.
func (c container) code() (int, bool) {
	var code int
	var running bool
	out := c.d.do("inspect", "-f", "{{.State.ExitCode}} {{.State.Running}}", c.name)
	if _, err := fmt.Sscan(out, &code, &running); err != nil {
		c.d.Fatalf("docker inspect: %q: %v", out, err)
	}
	return code, !running
}

func (c container) waitForOutput(text string, n int) {
	c.d.Helper()
	eventually(c.d, longWait, fmt.Sprintf("%s prints %d × %s", c.name, n, text), func() bool { return strings.Count(c.logs(), text) >= n })
}

// wantExit waits until the container has ended. Three of them import PyTorch at the
// same time, which takes a busy machine a while.
func (c container) wantExit(code int) {
	c.d.Helper()
	eventually(c.d, 3*longWait, c.name+" ends", func() bool { _, ended := c.code(); return ended })
	if got, _ := c.code(); got != code {
		c.d.Errorf("%s: exit code %d, want %d:\n%s", c.name, got, code, clip(c.logs()))
	}
}

// elastic starts an elastic job of three containers that meet by their names.
func (d *engine) elastic(t testing.TB, job, conf string) []container {
	t.Helper()
	network := d.name(job)
	d.do("network", "create", network)
	var names []string
	for i := range 3 {
		names = append(names, fmt.Sprintf("%s-%d", job, i))
	}
	var all []container
	for _, name := range names {
		all = append(all, d.start(t, name, []string{
			"--network", network, "--network-alias", name, "-e", "GORUN_NNODES=2:3", "-e", "GORUN_MAX_RESTARTS=100",
			"-e", "GORUN_RDZV_ENDPOINT=" + strings.Join(names, ","), "-e", "GORUN_RDZV_CONF=" + conf,
			"-e", "GORUN_SECRET=" + jobSecret,
		}, "sh", "-c", `echo "rank $RANK of $WORLD_SIZE"; while [ ! -e /tmp/end ]; do sleep 0.05; done`))
	}
	waitForWorld(t, all...)
	return all
}

// waitForWorld waits until the last workers of each container are those of a world of
// as many nodes.
func waitForWorld(t testing.TB, all ...container) {
	t.Helper()
	for _, c := range all {
		what := fmt.Sprintf("%s runs in a world of %d", c.name, len(all))
		eventually(t, longWait, what, func() bool {
			_, last, ok := strings.Cut(c.logs(), "rank ")
			last = last[strings.LastIndex(last, "rank ")+1:]
			return ok && strings.Contains(last, fmt.Sprintf(" of %d\n", len(all)))
		})
	}
}
