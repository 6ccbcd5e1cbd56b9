package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
// GPUs.
const probeTimeout = 20 * time.Second

// maxGPUs bounds the GPUs in a child's answer.
const maxGPUs = 1024

// Child says how to start this program again to call Probe.
type Child struct {
	// Run starts a program, waits for its end (or ends it with ctx) and returns
	// its output and its exit code, as program.Runner does.
	Run func(ctx context.Context, path string, argv, env []string, dir string) (output []byte, exit int, err error)
	// Stream does the same for a program that keeps running. It writes the
	// program's output to out as it comes. Only Listen needs it.
	Stream func(ctx context.Context, path string, argv, env []string, dir string, out io.Writer) (exit int, err error)
	Path   string
	Argv   []string // the Source is appended
	Env    []string
	Root   string // where /dev and /proc are looked for; "" for the real ones
}

// List returns the GPUs of this node, whatever CUDA_VISIBLE_DEVICES says. On a
// node without a driver it returns none and no error. It takes at most 40 s.
func (c Child) List(ctx context.Context) ([]GPU, error) {
	if !c.HasDriver() {
		return nil, nil
	}
	r, err := c.probe(ctx, NVML)
	return c.usableGPUs(ctx, r.GPUs, err)
}

// usableGPUs returns the GPUs of NVML or, if NVML failed, those of
// /proc/driver/nvidia.
func (c Child) usableGPUs(ctx context.Context, gpus []GPU, err error) ([]GPU, error) {
	if err == nil {
		err = openError(gpus)
	}
	if err == nil {
		return gpus, nil
	}
	r, err2 := c.probe(ctx, Procfs)
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

// Survey asks NVML about this node. It takes at most 40 s.
func (c Child) Survey(ctx context.Context) Survey {
	if !c.HasDriver() {
		return Survey{}
	}
	r, err := c.probe(ctx, All)
	s := Survey{Driver: true, GPUs: r.GPUs, Processes: r.Processes, NVML: r.NVML, Err: err}
	s.Usable, s.UsableErr = c.usableGPUs(ctx, r.GPUs, err)
	return s
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
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %v", probeTimeout))
	defer cancel()
	argv, env := c.command(from)
	output, exit, err := c.Run(ctx, c.Path, argv, env, "/")
	switch report, ok := readReport(output); {
	case ctx.Err() != nil:
		return Report{}, context.Cause(ctx)
	case err != nil:
		return Report{}, err
	case exit != 0 || !ok:
		return Report{}, fmt.Errorf("the probe ended with code %d and gave no answer", exit)
	case report.Error != "":
		return report, errors.New(report.Error)
	default:
		return report, nil
	}
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
