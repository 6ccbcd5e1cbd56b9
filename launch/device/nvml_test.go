//go:build linux && cgo && !nonvml

package device

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// fillAnswers answers the questions that the simulated machine leaves open, as a
// healthy GPU would. A question without an answer panics, so the quick list can
// ask only its few.
func fillAnswers(s *server.Server, slow bool) {
	for i, d := range s.Devices {
		dev := d.(*server.Device)
		dev.GetPciInfoFunc = func() (p nvml.PciInfo, ret nvml.Return) {
			for k, c := range []byte("00000000:" + string("0123456789"[i]) + "A:00.0") {
				p.BusId[k] = int8(c)
			}
			return p, nvml.SUCCESS
		}
		if !slow {
			continue
		}
		dev.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, nvml.SUCCESS }
		dev.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
		dev.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, nvml.SUCCESS }
		dev.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		dev.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
		dev.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 1, nvml.SUCCESS }
		dev.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 18 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		dev.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
			return nvml.GpuFabricInfo{State: 3}, nvml.SUCCESS
		}
		dev.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
	}
	dropSymbols(s) // the handler of GetGpuFabricInfoV goes past the mock
}

// dropSymbols removes functions from the library, as in that of an older driver.
func dropSymbols(s *server.Server, symbols ...string) {
	s.LookupSymbolFunc = func(symbol string) error {
		if strings.HasSuffix(symbol, "FabricInfoV") || reflect.DeepEqual(symbols, []string{"*"}) {
			return errors.New("undefined symbol")
		}
		return nil
	}
}

func gpuAt(s *server.Server, i int) *server.Device { return s.Devices[i].(*server.Device) }

// splitSimulated gives a simulated GPU MIG instances.
func splitSimulated(s *server.Server, i int, uuids ...string) {
	dev := gpuAt(s, i)
	dev.MigMode = nvml.DEVICE_MIG_ENABLE
	dev.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	dev.GetMigDeviceHandleByIndexFunc = func(k int) (nvml.Device, nvml.Return) {
		if k%2 == 1 || k/2 >= len(uuids) { // with holes
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc:              func() (string, nvml.Return) { return uuids[k/2], nvml.SUCCESS },
			GetNameFunc:              func() (string, nvml.Return) { return "MIG 3g.40gb", nvml.SUCCESS },
			GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return k + 1, nvml.SUCCESS },
			GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
			GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
				return []nvml.ProcessInfo{{Pid: uint32(100 + k)}}, nvml.SUCCESS
			},
		}, nvml.SUCCESS
	}
}

func TestNVMLReadsFewValuesForCounting(t *testing.T) {
	for name, s := range map[string]*server.Server{"A100": dgxa100.New(), "H100": dgxh100.New()} {
		t.Run(name, func(t *testing.T) {
			fillAnswers(s, false)
			splitSimulated(s, 2, "MIG-1", "MIG-2")
			s.Devices[3].(*server.Device).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
			s.Devices[4].(*server.Device).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_UNKNOWN }
			r, err := reader{s, fstest.MapFS{}}.read(NVML)
			if err != nil || len(r.GPUs) != 8 || r.NVML == "" {
				t.Fatalf("got %+v, %v", r, err)
			}
			for i, g := range r.GPUs {
				if g.Index != i || g.UUID != gpuAt(s, i).UUID || !strings.Contains(g.Name, name) || *g.Minor != i || g.PCI != "0000:"+string("0123456789"[i])+"a:00.0" || g.State != nil || g.Denied != "" {
					t.Errorf("GPU %d: %+v", i, g)
				}
			}
			if g := r.GPUs[2]; !*g.MIG || !reflect.DeepEqual(g.Instances, []Instance{{"MIG-1", "MIG 3g.40gb", new(1), new(0)}, {"MIG-2", "MIG 3g.40gb", new(3), new(0)}}) {
				t.Errorf("the GPU in MIG mode: %+v", g)
			}
			if *r.GPUs[0].MIG || *r.GPUs[3].MIG || r.GPUs[4].MIG != nil {
				t.Errorf("MIG modes: %v, %v, %v; want false, false, unknown", *r.GPUs[0].MIG, *r.GPUs[3].MIG, r.GPUs[4].MIG)
			}
		})
	}
}

func TestNVMLFacts(t *testing.T) {
	s := dgxh100.New()
	fillAnswers(s, true)
	failing := gpuAt(s, 1)
	failing.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, nvml.SUCCESS }
	failing.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 3, nvml.SUCCESS }
	failing.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 2, true, false, nvml.SUCCESS }
	failing.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0x88, nvml.SUCCESS }
	failing.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
		return nvml.GpuFabricInfo{State: 2}, nvml.SUCCESS
	}
	silent := gpuAt(s, 2)
	silent.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN }
	silent.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	silent.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	silent.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	silent.GetGpuFabricInfoFunc = func() (i nvml.GpuFabricInfo, _ nvml.Return) { return i, nvml.ERROR_NOT_SUPPORTED }

	r, err := reader{s, fstest.MapFS{}}.read(All)
	if err != nil {
		t.Fatal(err)
	}
	up := make([]bool, 18)
	for i := range up {
		up[i] = true
	}
	healthy := preflight.DeviceState{
		MemoryMiB: new(uint64(81920)), Capability: "9.0", ComputeMode: ModeDefault, Persistence: new(true),
		Uncorrected: new(uint64(0)), RemapPending: new(false), RemapFailed: new(false),
		Links: up, Fabric: FabricCompleted,
	}
	want := healthy
	check := func(i int) {
		t.Helper()
		if !reflect.DeepEqual(*r.GPUs[i].State, want) {
			got, _ := json.Marshal(r.GPUs[i].State)
			wanted, _ := json.Marshal(want)
			t.Errorf("GPU %d:\ngot  %s\nwant %s", i, got, wanted)
		}
	}
	check(0)
	want.ComputeMode, want.Uncorrected, want.RemapPending = ModeExclusiveProcess, new(uint64(3)), new(true)
	want.Slowed, want.Fabric = (HardwareSlowdown | PowerBrake).SlowReasons(), FabricInProgress
	check(1)
	if len(want.Slowed) != 2 {
		t.Errorf("slowed: %q", want.Slowed)
	}
	want = healthy
	want.MemoryMiB, want.ComputeMode, want.Uncorrected = nil, "", nil
	want.Links, want.Fabric = nil, FabricUnsupported
	check(2)

	// Unknown and zero stay different through the pipe.
	b, err := json.Marshal(r)
	var back Report
	if err != nil || json.Unmarshal(b, &back) != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("JSON changes the report:\n%+v\n%+v", r, back)
	}
}

// TestNVMLOldDriver shows that functions which the library lacks are never
// called. Such a call would end the process; here it would panic.
func TestNVMLOldDriver(t *testing.T) {
	s := dgxa100.New()
	fillAnswers(s, true)
	dropSymbols(s, "*")
	for _, d := range s.Devices {
		dev := d.(*server.Device)
		dev.GetMigModeFunc, dev.GetRemappedRowsFunc, dev.GetCurrentClocksEventReasonsFunc, dev.GetGpuFabricInfoFunc = nil, nil, nil, nil
		dev.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0x40, nvml.SUCCESS }
	}
	r, err := reader{s, fstest.MapFS{}}.read(All)
	if err != nil {
		t.Fatal(err)
	}
	f := r.GPUs[0].State
	if *r.GPUs[0].MIG || f.RemapPending != nil || f.Fabric != "" || !slices.Equal(f.Slowed, HardwareThermal.SlowReasons()) {
		t.Errorf("got %+v", f)
	}
}

func TestNVMLProcesses(t *testing.T) {
	s := dgxh100.New()
	fillAnswers(s, true)
	splitSimulated(s, 1, "MIG-1", "MIG-2")
	gpuAt(s, 0).GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 5 << 20}, {Pid: 8, UsedGpuMemory: ^uint64(0)}}, nvml.SUCCESS
	}
	gpuAt(s, 2).GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return make([]nvml.ProcessInfo, 1000), nvml.SUCCESS
	}
	r, err := reader{s, fstest.MapFS{}}.read(Processes)
	want := []Process{{gpuAt(s, 0).UUID, 7, 5}, {gpuAt(s, 0).UUID, 8, 0}, {"MIG-1", 100, 0}, {"MIG-2", 102, 0}}
	if err != nil || len(r.Processes) != len(want)+maxProcesses || !reflect.DeepEqual(r.Processes[:len(want)], want) || r.GPUs[0].State != nil {
		t.Errorf("got %+v, %v", r.Processes, err)
	}
}

// deniedFS is a /dev in which files exist and some may not be opened.
type deniedFS struct {
	fstest.MapFS
	errs map[string]error
}

func (r deniedFS) Open(name string) (fs.File, error) {
	if err := r.errs[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return r.MapFS.Open(name)
}

func TestDeniedReason(t *testing.T) {
	s := dgxa100.New()
	fillAnswers(s, false)
	gpuAt(s, 0).Minor = 5 // of /dev/nvidia5
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		switch i {
		case 6:
			return nil, nvml.ERROR_NO_PERMISSION
		case 7:
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return s.Devices[i], nvml.SUCCESS
	}
	dev := deniedFS{fstest.MapFS{"dev/nvidiactl": {}, "dev/nvidia5": {}, "dev/nvidia2": {}, "dev/nvidia3": {}, "dev/nvidia4": {}}, map[string]error{
		"dev/nvidia5": syscall.EPERM, "dev/nvidia3": syscall.EACCES, "dev/nvidia4": syscall.EIO,
	}}
	r, err := reader{s, dev}.read(NVML)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"the cgroup does not allow /dev/nvidia5", "no /dev/nvidia1", "", "no permission for /dev/nvidia3", "", "the cgroup", "the driver does not allow", ""} {
		if got := r.GPUs[i].Denied; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("GPU %d: %q, want %q", i, got, want)
		}
	}
	if r.GPUs[6].Error != "" || r.GPUs[7].Error == "" {
		t.Errorf("errors: %q, %q", r.GPUs[6].Error, r.GPUs[7].Error)
	}
	delete(dev.MapFS, "dev/nvidiactl") // as under WSL
	if r, _ := (reader{s, dev}).read(NVML); r.GPUs[0].Denied != "" || r.GPUs[1].Denied != "" {
		t.Errorf("without files in /dev: %+v", r.GPUs[:2])
	}
}
