package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// gpus waits until the driver was asked; the strings are what stays unknown.
func (a *agent) gpus(ctx context.Context) (preflight.GPU, []string) {
	d := a.devices
	if !d.there {
		return preflight.GPU{}, nil
	}
	if !device.Linked {
		return preflight.GPU{Driver: device.Given("")}, []string{"the GPUs: this gorun was built without cgo and cannot ask NVML"}
	}
	select {
	case <-d.ready:
	case <-ctx.Done(): // whoever gathers says so
		return preflight.GPU{Driver: true}, nil
	}
	s := d.survey
	if unused(s, device.Given("")) {
		return preflight.GPU{}, nil
	}
	f := preflight.GPU{Driver: s.Driver, NVML: s.NVML, Owned: d.plan.Owned(), Shared: d.want.Pin.Oversubscribe}
	if s.Err != nil {
		f.Error = s.Err.Error()
	}
	for _, g := range s.GPUs {
		f.Devices = append(f.Devices, described(g))
	}
	visible := d.node.Visible
	if !d.seen {
		visible = device.See(s.GPUs, device.ReadGrants(a.opts.Env)).Visible
	}
	for _, g := range visible {
		f.Visible = append(f.Visible, g.UUID)
	}
	for _, h := range s.Held {
		f.Busy = append(f.Busy, holder(h))
	}
	return f, nil
}

// described is what the preflight knows of a GPU.
func described(g device.GPU) preflight.Device {
	d := preflight.Device{
		Index: g.Index, UUID: g.UUID, PCI: g.PCI, Name: g.Name, Error: g.Error, Denied: g.Denied, NUMA: g.NUMA, MIG: g.MIG,
	}
	for _, in := range g.Instances {
		d.Instances = append(d.Instances, in.UUID)
	}
	f := g.Facts
	if f == nil {
		return d
	}
	d.MemoryMiB, d.Capability, d.ComputeMode, d.Persistence = f.MemoryMiB, f.Capability, f.ComputeMode, f.Persistence
	d.ECC, d.Uncorrected = f.ECC, f.Uncorrected
	d.RemapPending, d.RemapFailed, d.RetirePending = f.RemapPending, f.RemapFailed, f.RetirePending
	if f.Clocks != nil {
		d.Slowed = f.Clocks.Slowed()
	}
	d.Links = f.Links
	if f.Fabric != nil {
		d.Fabric, d.FabricError = f.Fabric.State, f.Fabric.Status
	}
	if f.Near != nil {
		d.NICs, d.Distance = f.Near.NICs, f.Near.Distance
	}
	return d
}

// unused reports whether the workers have no GPU, whatever the machine has: the
// driver lists none, as in a Slurm job that asked for none, or a container was
// given none and sees the driver's version in /proc only.
func unused(s device.Survey, given bool) bool {
	return s.Err == nil && len(s.GPUs) == 0 || s.Err != nil && !given
}

// hidden reports whether somebody hid all GPUs; NoDevFiles is Slurm's word.
func hidden(env []string) bool {
	list, set := findEnv(env, "CUDA_VISIBLE_DEVICES")
	return set && (list == "" || list == "-1" || list == "NoDevFiles")
}

// holder names a process that computes on a GPU, as far as this user may see it.
func holder(h device.Held) preflight.Holder {
	out := preflight.Holder{GPU: h.UUID, PID: h.PID, MemMiB: int64(h.MemMiB)}
	dir := filepath.Join("/proc", strconv.Itoa(h.PID))
	if b, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
		out.Name = strings.TrimSpace(string(b))
	}
	out.User = owner(dir)
	return out
}

// owner is the user whose process a folder of /proc is. A name would need a
// directory service, which may hang.
func owner(dir string) string {
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
