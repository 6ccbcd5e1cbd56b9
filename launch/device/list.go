package device

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// probeTimeout bounds each child. A healthy driver answers in well under a
// second, but loading an idle driver takes some seconds on a node with many
// GPUs. filesTimeout bounds a child that only reads the driver's files.
const (
	probeTimeout = 20 * time.Second
	filesTimeout = 5 * time.Second
)

// maxGPUs bounds the GPUs in a child's answer.
const maxGPUs = 1024

// Child says how to start this program again to call Probe.
type Child struct {
	// Run starts a program, waits for its end (or ends it with ctx) and returns
	// its output and its exit code, as program.Runner does.
	Run func(ctx context.Context, path string, argv, env []string, dir string) (output []byte, exit int, err error)
	// Stream does the same for a program that keeps running. It writes the
	// program's output to out as it comes. Listen and Survey need it.
	Stream func(ctx context.Context, path string, argv, env []string, dir string, out io.Writer) (exit int, err error)
	Path   string
	Argv   []string // the Source is appended
	Env    []string
	Root   string // where /dev and /proc are looked for; "" for the real ones
	// Exchange shares the survey with other agents; nil: there are none.
	Exchange *Exchange
}

// List returns the GPUs of this node, whatever CUDA_VISIBLE_DEVICES says. On a
// node without a driver it returns none and no error. It takes at most 25 s.
//
// The driver's files answer in a few milliseconds; NVML takes 15 ms for each GPU, and
// more while others ask it. So List asks NVML only if the files leave something open.
func (c Child) List(ctx context.Context) ([]GPU, error) {
	if !c.HasDriver() {
		return nil, nil
	}
	files, filesErr := c.probe(ctx, Procfs)
	if filesErr == nil && files.Unsure == "" && !c.namesInstance() {
		return files.GPUs, nil
	}
	r, err := c.probe(ctx, NVML)
	return c.usableGPUs(r.GPUs, err, func() (Report, error) { return files, filesErr })
}

// namesInstance reports whether a variable that gives GPUs to the workers names MIG
// instances.
func (c Child) namesInstance() bool {
	grants := ReadGrants(c.Env)
	return slices.ContainsFunc([]*string{grants.CUDA, grants.NVIDIA}, func(list *string) bool { return list != nil && strings.Contains(*list, "MIG-") })
}

// usableGPUs returns the GPUs of NVML or, if NVML failed, those of
// /proc/driver/nvidia.
func (c Child) usableGPUs(gpus []GPU, err error, readFiles func() (Report, error)) ([]GPU, error) {
	if err == nil {
		err = openError(gpus)
	}
	if err == nil {
		return gpus, nil
	}
	r, err2 := readFiles()
	if err2 == nil && c.HasDeviceFile() {
		return r.GPUs, nil
	}
	if err2 == nil {
		return nil, nil // a container sees the machine's GPUs in /proc, and may use none of them
	}
	return nil, fmt.Errorf("cannot list GPUs: NVML: %w; /proc/driver/nvidia: %w", err, err2)
}

// openError returns the error of the first GPU that the driver cannot open.
func openError(gpus []GPU) error {
	for _, g := range gpus {
		if g.Error != "" {
			return fmt.Errorf("cannot open GPU %d: %s", g.Index, g.Error)
		}
	}
	return nil
}

// Survey holds what NVML says about a node.
type Survey struct {
	Driver    bool  // the node has a driver; without a driver the other fields are empty
	GPUs      []GPU // all GPUs of the node, also those that the driver cannot open
	Processes []Process
	NVML      string // the library's version
	Err       error  // why NVML does not answer
	// Usable and UsableErr are what List returns.
	Usable    []GPU
	UsableErr error
}

// Survey asks NVML about this node. It calls use once, after at most 25 s (or 46 s if the
// first agent of an Exchange was killed while the others waited for it). It returns when the
// child has ended, which takes longer: the child has to close the library.
func (c Child) Survey(ctx context.Context, use func(Survey)) {
	if !c.HasDriver() {
		use(Survey{})
		return
	}
	answered := func(r Report, err error) {
		s := Survey{Driver: true, GPUs: r.GPUs, Processes: r.Processes, NVML: r.NVML, Err: err}
		s.Usable, s.UsableErr = c.usableGPUs(r.GPUs, err, func() (Report, error) { return c.probe(ctx, Procfs) })
		use(s)
	}
	if c.Exchange != nil {
		c.Exchange.survey(ctx, c.askEverything, answered)
	} else {
		c.askEverything(ctx, answered)
	}
}

// askEverything asks NVML for everything. It calls use once, as soon as the child has
// answered, and returns when the child has ended.
func (c Child) askEverything(ctx context.Context, use func(Report, error)) {
	ctx, cancel := withLimit(ctx, probeTimeout)
	defer cancel()
	answered := false
	out := &lineWriter{most: maxAnswer, line: func(line []byte) {
		if r, ok := readReport(line); ok && !answered {
			answered = true
			use(r, r.err())
		}
	}}
	argv, env := c.command(All)
	exit, err := c.Stream(ctx, c.Path, argv, env, "/", out)
	if !answered {
		use(Report{}, noAnswer(ctx, exit, err))
	}
}

// withLimit bounds the time for a child.
func withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
}

// noAnswer says why a child gave no answer.
func noAnswer(ctx context.Context, exit int, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	return fmt.Errorf("the probe ended with code %d and gave no answer", exit)
}

// Processes returns the processes that compute on this node's GPUs now. Their
// pids are those of the machine's own pid namespace. It takes at most 20 s.
func (c Child) Processes(ctx context.Context) ([]Process, error) {
	if !c.HasDriver() {
		return nil, nil
	}
	r, err := c.probe(ctx, Processes)
	return r.Processes, err
}

// HasDriver reports whether the node has a driver. Without a driver no child
// process is needed. A container may see the driver in /proc only.
func (c Child) HasDriver() bool { return c.HasDeviceFile() || c.exists("proc/driver/nvidia/version") }

// HasDeviceFile reports whether the node has the file through which programs call
// the driver. Under WSL this file is /dev/dxg.
func (c Child) HasDeviceFile() bool { return c.exists("dev/nvidiactl") || c.exists("dev/dxg") }

func (c Child) exists(name string) bool {
	_, err := os.Lstat(filepath.Join("/", c.Root, name))
	return err == nil
}

func (c Child) probe(ctx context.Context, from Source) (Report, error) {
	limit := probeTimeout
	if from == Procfs {
		limit = filesTimeout
	}
	ctx, cancel := withLimit(ctx, limit)
	defer cancel()
	argv, env := c.command(from)
	output, exit, err := c.Run(ctx, c.Path, argv, env, "/")
	report, ok := readReport(output)
	if ctx.Err() != nil || err != nil || exit != 0 || !ok {
		return Report{}, noAnswer(ctx, exit, err)
	}
	return report, report.err()
}

func (c Child) command(from Source) (argv, env []string) {
	// LD_BIND_NOW is removed, because it makes the loader look for every function
	// of NVML before main.
	env = slices.DeleteFunc(slices.Clone(c.Env), func(entry string) bool {
		return strings.HasPrefix(entry, "LD_BIND_NOW=")
	})
	return append(slices.Clone(c.Argv), string(from)), env
}

// readReport finds the report among the lines that libraries print.
func readReport(output []byte) (Report, bool) {
	for line := range bytes.Lines(output) {
		var r Report
		if bytes.HasPrefix(line, []byte("{")) && json.Unmarshal(line, &r) == nil &&
			r.Probe == reportVersion && len(r.GPUs) <= maxGPUs {
			return r, true
		}
	}
	return Report{}, false
}
