package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// probeTimeout bounds each child. A healthy driver answers in well under a
// second; loading an idle one on a node with many GPUs takes some.
const probeTimeout = 10 * time.Second

// maxGPUs bounds what a child's answer may hold.
const maxGPUs = 1024

// Child says how to start this program again to call Probe.
type Child struct {
	// Run starts a program, waits for its end (or ends it with ctx) and gives
	// what it printed and its exit code, as program.Runner does.
	Run  func(ctx context.Context, path string, argv, env []string, dir string) (output []byte, exit int, err error)
	Path string
	Argv []string // the source ("nvml", "procfs") is appended
	Env  []string
	Root string // where /dev and /proc are looked for; "" for the real ones
}

// List gives the GPUs of this node, whatever CUDA_VISIBLE_DEVICES says; none
// without an error on a node without a driver. It takes at most 20 s.
func List(ctx context.Context, c Child) ([]GPU, error) {
	if !driverPresent(c.Root) {
		return nil, nil
	}
	gpus, err := c.probe(ctx, NVML)
	if err == nil {
		return gpus, nil
	}
	gpus, err2 := c.probe(ctx, Procfs)
	if err2 == nil {
		return gpus, nil
	}
	return nil, fmt.Errorf("cannot list GPUs: NVML: %w; /proc/driver/nvidia: %w", err, err2)
}

// driverPresent saves a node without GPUs the child processes. /dev/dxg is the
// driver under WSL.
func driverPresent(root string) bool {
	return slices.ContainsFunc([]string{"dev/nvidiactl", "proc/driver/nvidia/version", "dev/dxg"}, func(name string) bool {
		_, err := os.Lstat(filepath.Join("/", root, name))
		return err == nil
	})
}

func (c Child) probe(ctx context.Context, from Source) ([]GPU, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %v", probeTimeout))
	defer cancel()
	// LD_BIND_NOW makes the loader look for every function of NVML before main.
	env := slices.DeleteFunc(slices.Clone(c.Env), func(entry string) bool {
		return strings.HasPrefix(entry, "LD_BIND_NOW=")
	})
	argv := append(slices.Clone(c.Argv), string(from))
	output, exit, err := c.Run(ctx, c.Path, argv, env, "/")
	switch report, ok := readReport(output); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case exit != 0 || !ok:
		return nil, fmt.Errorf("the probe ended with code %d and no answer", exit)
	case report.Error != "":
		return nil, errors.New(report.Error)
	default:
		return report.GPUs, nil
	}
}

// readReport finds the report among whatever else libraries print.
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
