// Package collectives times all-reduces of float32 sums: by Go workers, by Open MPI and by
// torch's gloo. A program of each measures the same sizes in the same way: it writes its
// buffer anew, all ranks meet in a barrier, then rank 0 takes the time of the call, or of a
// batch of calls where one is too short. A run yields the median of each size.
package collectives

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

var (
	//go:embed csrc/mpi.c
	mpiC []byte
	//go:embed gloo.py
	glooPy []byte
)

// Size is a buffer that is measured.
type Size struct {
	Name  string
	Bytes int
	Reps  int // measurements
	Batch int // calls in one measurement
}

// Sizes returns the sizes, with fewer measurements if quick.
func Sizes(quick bool) []Size {
	all := []Size{
		{"8 B", 8, 200, 100},
		{"4 KiB", 4 << 10, 2000, 1},
		{"64 KiB", 64 << 10, 1000, 1},
		{"256 KiB", 256 << 10, 400, 1},
		{"1 MiB", 1 << 20, 200, 1},
		{"16 MiB", 16 << 20, 12, 1},
	}
	if quick {
		for i := range all {
			all[i].Reps = max(3, all[i].Reps/10)
		}
	}
	return all
}

// arguments returns the sizes as the programs take them.
func arguments(sizes []Size) []string {
	var args []string
	for _, s := range sizes {
		args = append(args, strconv.Itoa(s.Bytes), strconv.Itoa(s.Reps), strconv.Itoa(s.Batch))
	}
	return args
}

// Programs are the built programs of each side.
type Programs struct {
	worker, mpi, gloo string
	mpiWhy            string // why there is no program for Open MPI
}

// Build writes the programs into a folder. module is the root of gorun's module.
func Build(ctx context.Context, module, folder string) (*Programs, error) {
	p := &Programs{worker: filepath.Join(folder, "allreduce-go"), mpi: filepath.Join(folder, "allreduce-mpi"), gloo: filepath.Join(folder, "gloo.py")}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.worker, "./bench/collectives/worker")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the Go worker: %w: %s", err, out)
	}
	source := p.mpi + ".c"
	if err := errors.Join(os.WriteFile(source, mpiC, 0o600), os.WriteFile(p.gloo, glooPy, 0o600)); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "cc", "-O2", "-o", p.mpi, source, "-l:libmpi.so.40").CombinedOutput(); err != nil {
		p.mpiWhy = fmt.Sprintf("not installed: %s", strings.TrimSpace(string(out)))
	}
	return p, nil
}

// Side is one way to run the ranks of a node.
type Side struct {
	Name    string
	Missing string // why it cannot run, "" if it can
	command func(ranks int, bound bool) []string
	env     []string
}

// Tools are the programs that start ranks; "" where one is missing.
type Tools struct{ Gorun, MPIRun, Python string }

// Sides returns all sides, Go workers over shared memory first.
func (p *Programs) Sides(t Tools) []Side {
	gorun := func(args ...string) func(int, bool) []string {
		return func(ranks int, bound bool) []string {
			line := []string{t.Gorun, "--standalone", "--nproc-per-node", strconv.Itoa(ranks), "--no-python"}
			if bound {
				line = append(line, "--numa-binding", "exclusive")
			}
			return append(append(line, p.worker), args...)
		}
	}
	mpirun := func(args ...string) func(int, bool) []string {
		return func(ranks int, bound bool) []string {
			line := append([]string{t.MPIRun, "-n", strconv.Itoa(ranks)}, args...)
			if bound {
				line = append(line, "--bind-to", "core")
			} else {
				line = append(line, "--oversubscribe", "--bind-to", "none")
			}
			return append(line, p.mpi)
		}
	}
	python := func(ranks int, bound bool) []string {
		line := []string{t.Gorun, "--standalone", "--nproc-per-node", strconv.Itoa(ranks), "--no-python"}
		if bound {
			line = append(line, "--numa-binding", "exclusive")
		}
		return append(line, t.Python, p.gloo)
	}
	root := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	missing := func(path, why string) string {
		if path == "" {
			return "not installed"
		}
		return why
	}
	return []Side{
		{Name: "gorun", Missing: missing(t.Gorun, ""), command: gorun("plain")},
		{Name: "gorun, Alloc", Missing: missing(t.Gorun, ""), command: gorun("alloc")},
		{Name: "Open MPI", Missing: missing(t.MPIRun, p.mpiWhy), command: mpirun(), env: root},
		{Name: "gorun, TCP", Missing: missing(t.Gorun, ""), command: gorun("tcp")},
		{Name: "Open MPI, TCP", Missing: missing(t.MPIRun, p.mpiWhy), command: mpirun("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"), env: root},
		{Name: "gloo", Missing: missing(t.Python, missing(t.Gorun, "")), command: python},
	}
}

// Run measures the sizes with so many ranks and returns the medians in µs, by bytes. bound
// says that there is a CPU for each rank, to which it is bound.
func (s Side) Run(ctx context.Context, ranks int, bound bool, sizes []Size) (map[int]float64, error) {
	line := append(s.command(ranks, bound), arguments(sizes)...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), s.env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		text := errs.String()
		return nil, fmt.Errorf("%s: %w: %s", s.Name, err, text[max(0, len(text)-500):])
	}
	medians := parse(string(out))
	if len(medians) != len(sizes) {
		return nil, fmt.Errorf("%s measured %d sizes of %d", s.Name, len(medians), len(sizes))
	}
	return medians, nil
}

// parse reads lines of bytes and µs; others are not for it.
func parse(out string) map[int]float64 {
	medians := map[int]float64{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		text := lines.Text()
		var bytes int
		var us float64
		if i := strings.Index(text, "median "); i >= 0 {
			if n, _ := fmt.Sscanf(text[i:], "median %d %g", &bytes, &us); n == 2 {
				medians[bytes] = us
			}
		}
	}
	return medians
}
