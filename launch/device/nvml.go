//go:build linux && cgo && !nonvml

package device

import (
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Linked reports whether this build can ask NVML at all.
const Linked = true

// reader asks the driver's library. A call of a function that the library lacks
// ends the process, so functions newer than the R418 drivers are looked up
// first.
type reader struct {
	lib  nvml.Interface
	root fs.FS // where /dev is
}

// readNVML opens the library and passes its answer to use. It closes the library after
// that, because closing takes some milliseconds for each GPU.
func readNVML(from Source, root fs.FS, use func(Report, error)) {
	reader{nvml.New(), root}.pass(from, use)
}

func (r reader) pass(from Source, use func(Report, error)) {
	done, err := r.open()
	if err != nil {
		use(Report{}, err)
		return
	}
	defer done()
	use(r.read(from))
}

// open makes the library ready. After a failed Init no other function may be
// called, not even Shutdown, because the loader would end the process.
func (r reader) open() (done func(), err error) {
	if ret := r.lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("cannot load NVML: %w", ret)
	}
	return func() { r.lib.Shutdown() }, nil
}

// read asks the open library.
func (r reader) read(from Source) (report Report, err error) {
	report.NVML, _ = r.lib.SystemGetNVMLVersion()
	n, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return report, fmt.Errorf("cannot count GPUs: %w", ret)
	}
	n = min(n, maxGPUs)
	report.GPUs = make([]GPU, n)
	processes := make([][]Process, n)
	// A GPU takes some milliseconds to answer, all GPUs at once less than one after the
	// other.
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { report.GPUs[i], processes[i] = r.look(i, from) })
	}
	wait.Wait()
	report.Processes = slices.Concat(processes...)
	return report, nil
}

// look reads of a GPU what the source has.
func (r reader) look(i int, from Source) (g GPU, processes []Process) {
	g, dev := r.gpu(i)
	if dev != nil && (from == All || from == Processes) {
		processes = r.processes(g, dev)
	}
	if dev != nil && from == All {
		g.State = r.state(dev)
	}
	return g, processes
}

// gpu reads what counting and pinning need. dev is nil if nothing else can be read
// of the GPU.
func (r reader) gpu(i int) (g GPU, dev nvml.Device) {
	g.Index = i
	dev, ret := r.lib.DeviceGetHandleByIndex(i)
	if ret == nvml.ERROR_NO_PERMISSION {
		g.Denied = "the driver does not allow this process to use it"
		return g, nil
	}
	if ret != nvml.SUCCESS {
		g.Error = ret.Error()
		return g, nil
	}
	if g.UUID, ret = dev.GetUUID(); ret != nvml.SUCCESS {
		g.Error = "cannot read its UUID: " + ret.Error()
		return g, nil
	}
	g.Name = value(ask(dev.GetName))
	if pci := ask(dev.GetPciInfo); pci != nil {
		g.PCI = sysfsPCI(cString(pci.BusId[:]))
	}
	if g.Minor = ask(dev.GetMinorNumber); g.Minor != nil && hasControlFile(r.root) {
		g.Denied = deniedReason(openDevice(r.root, *g.Minor), *g.Minor)
	}
	g.MIG = r.migMode(dev)
	if g.MIG != nil && *g.MIG {
		r.eachInstance(dev, func(in Instance, _ nvml.Device) { g.Instances = append(g.Instances, in) })
	}
	return g, dev
}

// processes returns the processes that compute on a GPU, or on its MIG instances.
func (r reader) processes(g GPU, dev nvml.Device) (list []Process) {
	add := func(uuid string, dev nvml.Device) {
		all, _ := dev.GetComputeRunningProcesses()
		for _, p := range all[:min(len(all), maxProcesses)] {
			process := Process{UUID: uuid, PID: int(p.Pid)}
			if p.UsedGpuMemory < 1<<62 { // otherwise it is unknown
				process.MemMiB = p.UsedGpuMemory >> 20
			}
			list = append(list, process)
		}
	}
	if len(g.Instances) == 0 {
		add(g.UUID, dev)
		return list
	}
	r.eachInstance(dev, func(in Instance, dev nvml.Device) { add(in.UUID, dev) })
	return list
}

// has reports whether the installed library has a function.
func (r reader) has(symbol string) bool { return r.lib.Extensions().LookupSymbol(symbol) == nil }

// ask returns the answer to one question, nil if there is none.
func ask[T any](question func() (T, nvml.Return)) *T {
	v, ret := question()
	if ret != nvml.SUCCESS {
		return nil
	}
	return &v
}

// askOf asks with a function that an older library may lack.
func askOf[T any](r reader, symbol string, question func() (T, nvml.Return)) *T {
	if !r.has(symbol) {
		return nil
	}
	return ask(question)
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// cString reads a C string of at most len(chars) characters. The element type
// depends on go-nvml's version.
func cString[C int8 | uint8](chars []C) string {
	var b []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

// maxInstances bounds the MIG instances of one GPU. Today's GPUs have at most 7
// or 8.
const maxInstances = 64

// migMode reports whether a GPU is in MIG mode, false for a GPU without MIG,
// nil if unknown.
func (r reader) migMode(dev nvml.Device) *bool {
	if !r.has("nvmlDeviceGetMigMode") {
		return new(false)
	}
	current, _, ret := dev.GetMigMode()
	switch ret {
	case nvml.SUCCESS:
		return new(current == nvml.DEVICE_MIG_ENABLE)
	case nvml.ERROR_NOT_SUPPORTED:
		return new(false)
	}
	return nil
}

// eachInstance calls f for every MIG instance of a GPU in MIG mode. The numbers
// of instances may have gaps.
func (r reader) eachInstance(dev nvml.Device, f func(Instance, nvml.Device)) {
	for i := range min(value(ask(dev.GetMaxMigDeviceCount)), maxInstances) {
		part, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		uuid := ask(part.GetUUID)
		if uuid == nil {
			continue
		}
		f(Instance{
			UUID: *uuid, Name: value(ask(part.GetName)),
			GI: ask(part.GetGpuInstanceId), CI: ask(part.GetComputeInstanceId),
		}, part)
	}
}
