package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gorun/gorun/worker/cuda/internal/driver"
	"github.com/gorun/gorun/worker/cuda/internal/nccl"
)

// Device is the GPU of this process with the libraries that use it.
type Device struct {
	set   Settings
	begin time.Time

	// What follows is set before gpuReady is closed.
	gpuReady chan struct{}
	gpuErr   error
	driver   *driver.Driver
	gpu      driver.GPU
	context  driver.Context
	visible  int

	// What follows is set before libReady is closed.
	libReady chan struct{}
	libErr   error
	nccl     *nccl.Library

	times Timings
}

// Facts is what is known of a Device.
type Facts struct {
	Name     string // "NVIDIA H100 80GB HBM3"
	UUID     string
	BusID    string
	Memory   uint64 // bytes
	Visible  int    // GPUs that this process sees
	Driver   int    // newest CUDA that the driver knows: 13000 for 13.0
	CUDAPath string
	NCCL     int // 22809 for 2.28.9
	NCCLPath string
}

// Timings says when each part of a start was done, since its beginning: the GPU's part runs
// beside the library's and the exchange between the ranks.
type Timings struct {
	Driver   time.Duration // libcuda is open
	Init     time.Duration // cuInit has returned
	Context  time.Duration // the GPU has a context
	Library  time.Duration // libnccl is open
	Exchange time.Duration // the ranks know of each other
	Comm     time.Duration // the communicator is made
	WarmUp   time.Duration // the first all-reduce is done
}

func (t Timings) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("libcuda %.0f ms, cuInit %.0f, context %.0f; libnccl %.0f, exchange %.0f; communicator %.0f, first all-reduce %.0f",
		ms(t.Driver), ms(t.Init), ms(t.Context), ms(t.Library), ms(t.Exchange), ms(t.Comm), ms(t.WarmUp))
}

// Available says why this process cannot use a GPU, nil if it can. It starts the driver,
// for which it waits as long as that takes, but takes no memory of a GPU.
func Available() error {
	s := FromEnv(os.LookupEnv)
	d, err := driver.Open(s.CUDA)
	if err == nil {
		_, _, err = s.find(d)
	}
	if err == nil {
		_, err = s.openNCCL()
	}
	if err != nil {
		return &Error{Rank: -1, Err: err}
	}
	return nil
}

// Start begins to prepare the GPU and the libraries and returns at once, so that a program
// may do other things meanwhile.
func Start(s Settings) *Device {
	d := &Device{set: s, begin: time.Now(), gpuReady: make(chan struct{}), libReady: make(chan struct{})}
	go func() {
		defer close(d.gpuReady)
		d.gpuErr = d.openGPU()
	}()
	go func() {
		defer close(d.libReady)
		d.nccl, d.libErr = s.openNCCL()
		d.times.Library = time.Since(d.begin)
	}()
	return d
}

// openGPU makes the context of the GPU.
func (d *Device) openGPU() (err error) {
	if d.driver, err = driver.Open(d.set.CUDA); err != nil {
		return err
	}
	d.times.Driver = time.Since(d.begin)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if d.gpu, d.visible, err = d.set.find(d.driver); err != nil {
		return err
	}
	d.times.Init = time.Since(d.begin)
	if d.context, err = d.driver.Retain(&d.gpu); err != nil {
		return fmt.Errorf("%s: %w", d.gpu.UUID, err)
	}
	d.times.Context = time.Since(d.begin)
	return nil
}

// find starts the driver and returns the GPU that the Settings mean.
func (s *Settings) find(d *driver.Driver) (gpu driver.GPU, visible int, err error) {
	if err := d.Init(); err != nil {
		return gpu, 0, err
	}
	gpus, err := d.GPUs()
	if err != nil {
		return gpu, 0, err
	}
	gpu, err = s.choose(gpus)
	return gpu, len(gpus), err
}

// choose returns the GPU that the Settings mean.
func (s *Settings) choose(gpus []driver.GPU) (driver.GPU, error) {
	if s.Device != "" {
		var seen []string
		for _, g := range gpus {
			if sameDevice(g.UUID, s.Device) {
				return g, nil
			}
			seen = append(seen, g.UUID)
		}
		return driver.GPU{}, fmt.Errorf("GORUN_DEVICE is %s, but the process sees %s: look at CUDA_VISIBLE_DEVICES and at what the container was given",
			s.Device, listed(seen))
	}
	switch {
	case len(gpus) == 0:
		return driver.GPU{}, errors.New("no GPU is visible: look at CUDA_VISIBLE_DEVICES and at what the container was given")
	case len(gpus) == 1:
		return gpus[0], nil
	case s.LocalRank >= len(gpus):
		return driver.GPU{}, fmt.Errorf("local rank %d has no GPU: the process sees %d", s.LocalRank, len(gpus))
	}
	return gpus[s.LocalRank], nil
}

func listed(uuids []string) string {
	if len(uuids) == 0 {
		return "no GPU"
	}
	return "only " + strings.Join(uuids, ", ")
}

// sameDevice compares UUIDs. The driver does not say whether one is of a whole GPU or, with
// "MIG-", of a part.
func sameDevice(a, b string) bool {
	_, x, _ := strings.Cut(a, "-")
	_, y, _ := strings.Cut(b, "-")
	return strings.EqualFold(x, y) && x != ""
}

// openNCCL opens the libnccl that the Settings name, else the loader's, else one of a
// Python environment.
func (s *Settings) openNCCL() (*nccl.Library, error) {
	if s.NCCL != "" {
		l, err := nccl.Open(s.NCCL)
		if err != nil {
			return nil, fmt.Errorf("cannot open the NCCL that GORUN_NCCL_LIB names: %w", err)
		}
		return l, nil
	}
	l, err := nccl.Open(nccl.Name)
	if err == nil {
		return l, nil
	}
	for _, path := range s.places() {
		if _, missing := os.Stat(path); missing != nil {
			continue
		}
		if l, err = nccl.Open(path); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("cannot open NCCL: %w: install it, or set GORUN_NCCL_LIB to the path of %s", err, nccl.Name)
}

// Ready waits until the GPU and the libraries are ready. The error says why they will never
// be.
func (d *Device) Ready(ctx context.Context) error {
	for _, done := range []chan struct{}{d.gpuReady, d.libReady} {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("gorun: the GPU is not ready: %w", context.Cause(ctx))
		}
	}
	err := cmp.Or(d.gpuErr, d.libErr)
	if err == nil {
		return nil
	}
	if d.gpuErr != nil && d.libErr != nil {
		err = fmt.Errorf("%w; %w", d.gpuErr, d.libErr) // one line, as all errors
	}
	return &Error{Rank: -1, Err: err}
}

// Facts returns what is known of a Device by now: everything once Ready has returned.
func (d *Device) Facts() Facts {
	var f Facts
	if isClosed(d.gpuReady) {
		f = Facts{Name: d.gpu.Name, UUID: d.gpu.UUID, BusID: d.gpu.BusID, Memory: d.gpu.Memory, Visible: d.visible}
		if d.driver != nil {
			f.Driver, f.CUDAPath = d.driver.Version(), d.driver.Path
		}
	}
	if isClosed(d.libReady) && d.nccl != nil {
		f.NCCL, f.NCCLPath = d.nccl.Version, d.nccl.Path
	}
	return f
}

// isClosed reports whether a channel on which nobody sends is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// enter makes the context current on the calling thread, to which the goroutine is locked,
// until leave.
func (d *Device) enter() error {
	runtime.LockOSThread()
	if err := d.driver.Push(d.context); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	return nil
}

// leave ends what enter began. The thread has the context again that it had before.
func (d *Device) leave() {
	_ = d.driver.Pop() // what enter pushed is there
	runtime.UnlockOSThread()
}
