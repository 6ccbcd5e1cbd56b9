package driver

import "unsafe"

// Ptr is an address of device memory.
type Ptr uintptr

// Stream is a queue of work on a GPU.
type Stream uintptr

// Event marks a place in a stream.
type Event uintptr

// NewStream makes a stream that does not wait for the default one.
func (d *Driver) NewStream() (Stream, error) {
	const nonBlocking = 1
	p := new(uintptr)
	err := d.failure("cuStreamCreate", d.streams.create.Call(uintptr(unsafe.Pointer(p)), nonBlocking))
	return Stream(*p), err
}

// DestroyStream gives s back when its work has ended.
func (d *Driver) DestroyStream(s Stream) error {
	return d.failure("cuStreamDestroy", d.streams.destroy.Call(uintptr(s)))
}

// Idle reports whether all work of s has ended.
func (d *Driver) Idle(s Stream) (bool, error) {
	code := d.streams.query.Numbers(uintptr(s))
	if code == NotReady {
		return false, nil
	}
	return code == 0, d.failure("cuStreamQuery", code)
}

// NewEvent makes an event; timed: Elapsed takes it.
func (d *Driver) NewEvent(timed bool) (Event, error) {
	flags := uintptr(2) // no timing
	if timed {
		flags = 0
	}
	p := new(uintptr)
	err := d.failure("cuEventCreate", d.streams.eventCreate.Call(uintptr(unsafe.Pointer(p)), flags))
	return Event(*p), err
}

// DestroyEvent gives e back.
func (d *Driver) DestroyEvent(e Event) error {
	return d.failure("cuEventDestroy", d.streams.eventDestroy.Call(uintptr(e)))
}

// Record puts e behind the work of s.
func (d *Driver) Record(e Event, s Stream) error {
	return d.failure("cuEventRecord", d.streams.eventRecord.Numbers(uintptr(e), uintptr(s)))
}

// Reached reports whether the work before e has ended.
func (d *Driver) Reached(e Event) (bool, error) {
	code := d.streams.event.Numbers(uintptr(e))
	if code == NotReady {
		return false, nil
	}
	return code == 0, d.failure("cuEventQuery", code)
}

// WaitEvent makes the later work of s wait for e.
func (d *Driver) WaitEvent(s Stream, e Event) error {
	return d.failure("cuStreamWaitEvent", d.streams.waitEvent.Numbers(uintptr(s), uintptr(e), 0))
}

// Elapsed returns the milliseconds from one timed event to another.
func (d *Driver) Elapsed(from, to Event) (float32, error) {
	ms := new(float32)
	err := d.failure("cuEventElapsedTime", d.streams.elapsed.Call(uintptr(unsafe.Pointer(ms)), uintptr(from), uintptr(to)))
	return *ms, err
}

// Alloc returns n bytes of device memory.
func (d *Driver) Alloc(n int) (Ptr, error) {
	p := new(uintptr)
	err := d.failure("cuMemAlloc", d.mem.alloc.Call(uintptr(unsafe.Pointer(p)), uintptr(n)))
	return Ptr(*p), err
}

// Free gives memory of Alloc back.
func (d *Driver) Free(p Ptr) error { return d.failure("cuMemFree", d.mem.free.Call(uintptr(p))) }

// ToDevice copies n bytes of the host's memory. They are read when the stream is idle.
func (d *Driver) ToDevice(to Ptr, from unsafe.Pointer, n int, s Stream) error {
	return d.failure("cuMemcpyHtoDAsync", d.mem.toDevice.Call(uintptr(to), uintptr(from), uintptr(n), uintptr(s)))
}

// ToHost copies n bytes to the host's memory. They are there when the stream is idle.
func (d *Driver) ToHost(to unsafe.Pointer, from Ptr, n int, s Stream) error {
	return d.failure("cuMemcpyDtoHAsync", d.mem.toHost.Call(uintptr(to), uintptr(from), uintptr(n), uintptr(s)))
}

// Copy copies n bytes of device memory.
func (d *Driver) Copy(to, from Ptr, n int, s Stream) error {
	return d.failure("cuMemcpyDtoDAsync", d.mem.copy.Numbers(uintptr(to), uintptr(from), uintptr(n), uintptr(s)))
}

// Clear sets n bytes to 0.
func (d *Driver) Clear(p Ptr, n int, s Stream) error {
	return d.failure("cuMemsetD8Async", d.mem.set.Numbers(uintptr(p), 0, uintptr(n), uintptr(s)))
}
