//go:build linux && cgo && !nonvml

package device

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// state reads the state of a GPU.
func (r reader) state(dev nvml.Device) *preflight.DeviceState {
	f := &preflight.DeviceState{
		ComputeMode: computeMode(dev),
		Persistence: enabled(ask(dev.GetPersistenceMode)),
		Uncorrected: ask(func() (uint64, nvml.Return) {
			return dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		}),
		RetirePending: enabled(ask(dev.GetRetiredPagesPendingStatus)),
		Slowed:        r.clocks(dev).SlowReasons(),
		Links:         links(dev),
	}
	f.Fabric, f.FabricError = r.fabric(dev)
	if m := ask(dev.GetMemoryInfo); m != nil {
		f.MemoryMiB = new(m.Total >> 20)
	}
	if major, minor, ret := dev.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		f.Capability = fmt.Sprintf("%d.%d", major, minor)
	}
	if r.has("nvmlDeviceGetRemappedRows") {
		if _, _, pending, failed, ret := dev.GetRemappedRows(); ret == nvml.SUCCESS {
			f.RemapPending, f.RemapFailed = &pending, &failed
		}
	}
	return f
}

func computeMode(dev nvml.Device) string {
	mode, ret := dev.GetComputeMode()
	switch {
	case ret != nvml.SUCCESS:
		return ""
	case mode == nvml.COMPUTEMODE_DEFAULT:
		return ModeDefault
	case mode == nvml.COMPUTEMODE_PROHIBITED:
		return ModeProhibited
	}
	return ModeExclusiveProcess
}

func (r reader) clocks(dev nvml.Device) Clocks {
	mask := askOf(r, "nvmlDeviceGetCurrentClocksEventReasons", dev.GetCurrentClocksEventReasons)
	if mask == nil { // its name before R535
		mask = ask(dev.GetCurrentClocksThrottleReasons)
	}
	if mask == nil {
		return 0
	}
	return Clocks(*mask)
}

// links says for each NVLink of the GPU whether the link is up.
func links(dev nvml.Device) []bool {
	var up []bool
	for i := range nvml.NVLINK_MAX_LINKS {
		switch state, ret := dev.GetNvLinkState(i); ret {
		case nvml.SUCCESS:
			up = append(up, state == nvml.FEATURE_ENABLED)
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT: // no such link
		default:
			return nil
		}
	}
	return up
}

// fabric reads the state in which the Fabric Manager left the GPU, and why the
// Fabric Manager failed.
func (r reader) fabric(dev nvml.Device) (state, failure string) {
	var code uint8
	var status uint32
	var ret nvml.Return
	switch {
	case r.has("nvmlDeviceGetGpuFabricInfoV"):
		info, got := dev.GetGpuFabricInfoV().V2()
		code, status, ret = info.State, info.Status, got
	case r.has("nvmlDeviceGetGpuFabricInfo"):
		info, got := dev.GetGpuFabricInfo()
		code, status, ret = info.State, info.Status, got
	default:
		return "", ""
	}
	switch s := nvml.Return(status); {
	case ret == nvml.ERROR_NOT_SUPPORTED:
		return FabricUnsupported, ""
	case ret != nvml.SUCCESS:
		return "", ""
	case int(code) >= len(fabricStates):
		return FabricUnknown, ""
	case fabricStates[code] == FabricCompleted && s != nvml.SUCCESS:
		return FabricCompleted, s.Error()
	}
	return fabricStates[code], ""
}

// enabled turns NVML's switch into a truth value.
func enabled(s *nvml.EnableState) *bool {
	if s == nil {
		return nil
	}
	return new(*s == nvml.FEATURE_ENABLED)
}
