package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// WaitForGPUFacts waits for the plan. It returns what the preflight compares of the GPUs,
// and texts that say what stays unknown.
func WaitForGPUFacts(ctx context.Context, p *place.Placement) (preflight.GPU, []string) {
	open := p.Driver.HasDeviceFile()
	switch {
	case !p.HasGPUs():
		return preflight.GPU{}, nil
	case !device.Linked:
		return preflight.GPU{Driver: open}, []string{"the GPUs: this gorun was built without cgo and cannot ask NVML"}
	}
	_ = p.Wait(ctx) // the agent prints its error
	if ctx.Err() != nil {
		return preflight.GPU{Driver: true}, nil // the caller reports it
	}
	return gpuFacts(p.Plan(), p.Env, open), nil
}

// gpuFacts returns a node's facts about its GPUs: what the driver reports, and what
// the plan gives to the workers. hasDeviceFile says whether this node can call its
// driver.
func gpuFacts(p *place.Plan, env []string, hasDeviceFile bool) preflight.GPU {
	s := p.Inventory.Survey
	if isUnused(s, hasDeviceFile) {
		return preflight.GPU{}
	}
	f := preflight.GPU{Driver: s.Driver, NVML: s.NVML, Shared: p.Shared}
	if !p.Shared {
		f.Owned = p.Owned()
	}
	if s.Err != nil {
		f.Error = s.Err.Error()
	}
	for _, g := range s.GPUs {
		f.Devices = append(f.Devices, deviceFacts(g))
	}
	visible := p.Inventory.Visibility.Visible
	if !p.Inventory.Known {
		visible = device.FindVisible(s.GPUs, device.ReadGrants(env)).Visible
	}
	for _, g := range visible {
		f.Visible = append(f.Visible, g.UUID)
	}
	for _, process := range s.Processes {
		f.Busy = append(f.Busy, processFacts(process))
	}
	return f
}

// deviceFacts returns the preflight's description of a GPU.
func deviceFacts(g device.GPU) preflight.Device {
	d := preflight.Device{
		Index: g.Index, UUID: g.UUID, PCI: g.PCI, Name: g.Name, Error: g.Error, Denied: g.Denied, NUMA: g.NUMA, MIG: g.MIG,
	}
	for _, in := range g.Instances {
		d.Instances = append(d.Instances, in.UUID)
	}
	if g.State != nil {
		d.DeviceState = *g.State
	}
	return d
}

// isUnused reports whether the workers have no GPU, whatever the machine has. The
// driver may list no GPU, as in a Slurm job that asked for none. Or a container got
// no GPU and sees only the driver's version in /proc.
func isUnused(s device.Survey, hasDeviceFile bool) bool {
	return s.Err == nil && len(s.GPUs) == 0 || s.Err != nil && !hasDeviceFile
}

// processFacts describes a process that computes on a GPU, as far as this user may see
// it.
func processFacts(p device.Process) preflight.Holder {
	out := preflight.Holder{GPU: p.UUID, PID: p.PID, MemMiB: int64(p.MemMiB)}
	dir := filepath.Join("/proc", strconv.Itoa(p.PID))
	if b, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
		out.Name = strings.TrimSpace(string(b))
	}
	out.User = userOf(dir)
	return out
}

// userOf returns the user id of the process of a folder in /proc. A user name would
// need a directory service, which may hang.
func userOf(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("uid %d", st.Uid)
}
