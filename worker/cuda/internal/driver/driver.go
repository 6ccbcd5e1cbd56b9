// Package driver calls CUDA's driver, libcuda.so.1, as far as package cuda needs it.
//
// Invariants: every method but Open and Init needs a current context on the calling
// thread (Push), so the caller locks its goroutine to the thread.
package driver

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/gorun/gorun/worker/cuda/internal/dl"
)

// Name is the library that the driver's package installs.
const Name = "libcuda.so.1"

// NotReady is the result of a query of work that has not ended.
const NotReady = 600

// Driver is an open libcuda.
type Driver struct {
	Path string // of its file

	init, version, count, get, name, uuid, bus, memory dl.Func
	devices                                            device
	mem                                                memory
	streams                                            stream
	errorName, errorText                               dl.Func
}

// device is the functions of devices and contexts.
type device struct{ retain, push, pop dl.Func }

// memory is the functions that copy and set.
type memory struct{ alloc, free, toDevice, toHost, copy, set dl.Func }

// stream is the functions of streams and events.
type stream struct {
	create, destroy, query, waitEvent             dl.Func
	eventCreate, eventDestroy, eventRecord, event dl.Func
	elapsed                                       dl.Func
}

// Open opens the library: by its path, or "" for the loader's.
func Open(path string) (*Driver, error) {
	if path == "" {
		path = Name
	}
	l, err := dl.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open CUDA's driver: %w: does this machine have a GPU and NVIDIA's driver, and does the container see it?", err)
	}
	d := &Driver{}
	err = l.FindAll(
		dl.Want{To: &d.init, Name: "cuInit"},
		dl.Want{To: &d.version, Name: "cuDriverGetVersion"},
		dl.Want{To: &d.count, Name: "cuDeviceGetCount"},
		dl.Want{To: &d.get, Name: "cuDeviceGet"},
		dl.Want{To: &d.name, Name: "cuDeviceGetName"},
		dl.Want{To: &d.bus, Name: "cuDeviceGetPCIBusId"},
		dl.Want{To: &d.memory, Name: "cuDeviceTotalMem_v2"},
		dl.Want{To: &d.devices.retain, Name: "cuDevicePrimaryCtxRetain"},
		dl.Want{To: &d.devices.push, Name: "cuCtxPushCurrent_v2"},
		dl.Want{To: &d.devices.pop, Name: "cuCtxPopCurrent_v2"},
		dl.Want{To: &d.mem.alloc, Name: "cuMemAlloc_v2"},
		dl.Want{To: &d.mem.free, Name: "cuMemFree_v2"},
		dl.Want{To: &d.mem.toDevice, Name: "cuMemcpyHtoDAsync_v2"},
		dl.Want{To: &d.mem.toHost, Name: "cuMemcpyDtoHAsync_v2"},
		dl.Want{To: &d.mem.copy, Name: "cuMemcpyDtoDAsync_v2"},
		dl.Want{To: &d.mem.set, Name: "cuMemsetD8Async"},
		dl.Want{To: &d.streams.create, Name: "cuStreamCreate"},
		dl.Want{To: &d.streams.destroy, Name: "cuStreamDestroy_v2"},
		dl.Want{To: &d.streams.query, Name: "cuStreamQuery"},
		dl.Want{To: &d.streams.waitEvent, Name: "cuStreamWaitEvent"},
		dl.Want{To: &d.streams.eventCreate, Name: "cuEventCreate"},
		dl.Want{To: &d.streams.eventDestroy, Name: "cuEventDestroy_v2"},
		dl.Want{To: &d.streams.eventRecord, Name: "cuEventRecord"},
		dl.Want{To: &d.streams.event, Name: "cuEventQuery"},
		dl.Want{To: &d.streams.elapsed, Name: "cuEventElapsedTime"},
		dl.Want{To: &d.errorName, Name: "cuGetErrorName"},
		dl.Want{To: &d.errorText, Name: "cuGetErrorString"},
	)
	if err != nil {
		return nil, err
	}
	if d.uuid = l.Find("cuDeviceGetUuid_v2"); !d.uuid.Exists() { // before CUDA 11.4
		d.uuid = l.Find("cuDeviceGetUuid")
	}
	if d.Path = d.init.File(); d.Path == "" {
		d.Path = path
	}
	return d, nil
}

// Error is a result of the driver other than success.
type Error struct {
	Doing string
	Code  int
	Name  string // CUDA_ERROR_NO_DEVICE
	Text  string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Doing, e.Name, e.Code)
	if e.Text != "" {
		s += ": " + e.Text
	}
	if hint := hints[e.Code]; hint != "" {
		s += ": " + hint
	}
	return s
}

// hints says what to do about the results that a start meets.
var hints = map[int]string{
	2:   "other processes use the memory of this GPU: see nvidia-smi",
	34:  "the libcuda that was found is the stub of the CUDA toolkit: take its folder out of LD_LIBRARY_PATH",
	46:  "another process has the GPU for itself, or its compute mode forbids this one: see nvidia-smi",
	100: "no GPU is visible: look at CUDA_VISIBLE_DEVICES, and at what the container was given",
	101: "the device is not valid: look at CUDA_VISIBLE_DEVICES",
	802: "the NVLink fabric is not ready: is nvidia-fabricmanager running?",
	803: "the kernel's driver and libcuda have different versions: was the driver updated without a restart?",
	999: "the driver has failed: nvidia-smi and dmesg may say why",
}

func (d *Driver) failure(doing string, code int32) error {
	if code == 0 {
		return nil
	}
	return &Error{Doing: doing, Code: int(code), Name: d.text(d.errorName, code), Text: d.text(d.errorText, code)}
}

func (d *Driver) text(f dl.Func, code int32) string {
	p := new(uintptr)
	if f.Call(uintptr(uint32(code)), uintptr(unsafe.Pointer(p))) != 0 {
		return "an unknown result"
	}
	return dl.GoString(*p)
}

// Init starts the driver. The first call of a process takes long.
func (d *Driver) Init() error { return d.failure("cuInit", d.init.Call(0)) }

// Version is the newest CUDA that the driver knows, as 13000 for 13.0.
func (d *Driver) Version() int {
	v := new(int32)
	d.version.Call(uintptr(unsafe.Pointer(v)))
	return int(*v)
}

// GPU is a visible GPU.
type GPU struct {
	handle int32
	Name   string // "NVIDIA H100 80GB HBM3"
	UUID   string // "GPU-…"; "MIG-…" for a part of one
	BusID  string
	Memory uint64 // bytes
}

// GPUs lists the visible ones.
func (d *Driver) GPUs() ([]GPU, error) {
	n := new(int32)
	if err := d.failure("cuDeviceGetCount", d.count.Call(uintptr(unsafe.Pointer(n)))); err != nil {
		return nil, err
	}
	var all []GPU
	for i := range int(*n) {
		h := new(int32)
		if err := d.failure("cuDeviceGet", d.get.Call(uintptr(unsafe.Pointer(h)), uintptr(i))); err != nil {
			return nil, err
		}
		all = append(all, d.describe(*h))
	}
	return all, nil
}

// describe asks what a GPU is. What the driver does not say stays empty.
func (d *Driver) describe(handle int32) GPU {
	g := GPU{handle: handle}
	dev := uintptr(uint32(handle))
	text := make([]byte, 256)
	if d.name.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)-1), dev) == 0 {
		g.Name = cut(text)
	}
	text = make([]byte, 64)
	if d.bus.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)-1), dev) == 0 {
		g.BusID = strings.ToLower(cut(text))
	}
	u := new([16]byte)
	if d.uuid.Exists() && d.uuid.Call(uintptr(unsafe.Pointer(u)), dev) == 0 {
		g.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	}
	size := new(uint64)
	if d.memory.Call(uintptr(unsafe.Pointer(size)), dev) == 0 {
		g.Memory = *size
	}
	return g
}

func cut(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.ToValidUTF8(s, "?")
}

// Context is the primary context of a GPU, which the runtime library inside of NCCL uses
// too.
type Context uintptr

// Retain makes the primary context of g, or shares it. The process keeps it until its end.
func (d *Driver) Retain(g *GPU) (Context, error) {
	p := new(uintptr)
	err := d.failure("cuDevicePrimaryCtxRetain", d.devices.retain.Call(uintptr(unsafe.Pointer(p)), uintptr(uint32(g.handle))))
	return Context(*p), err
}

// Push makes c the context of the calling thread, until Pop.
func (d *Driver) Push(c Context) error {
	return d.failure("cuCtxPushCurrent", d.devices.push.Numbers(uintptr(c)))
}

// Pop gives the calling thread the context that it had before Push. Another library of the
// process may use the thread.
func (d *Driver) Pop() error { return d.failure("cuCtxPopCurrent", d.devices.pop.Numbers(0)) }
