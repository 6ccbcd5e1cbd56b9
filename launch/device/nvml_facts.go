//go:build linux && cgo && !nonvml

package device

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// facts reads the state of a GPU.
func (r reader) facts(dev nvml.Device) *Facts {
	f := &Facts{
		ComputeMode: computeMode(dev),
		Persistence: enabled(ask(dev.GetPersistenceMode)),
		Uncorrected: ask(func() (uint64, nvml.Return) {
			return dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		}),
		ECC: enabled(ask(func() (nvml.EnableState, nvml.Return) {
			now, _, ret := dev.GetEccMode()
			return now, ret
		})),
		RetirePending: enabled(ask(dev.GetRetiredPagesPendingStatus)),
		Clocks:        r.clocks(dev),
		Links:         links(dev),
		Fabric:        r.fabric(dev),
	}
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

func (r reader) clocks(dev nvml.Device) *Clocks {
	mask := askOf(r, "nvmlDeviceGetCurrentClocksEventReasons", dev.GetCurrentClocksEventReasons)
	if mask == nil { // its name before R535
		mask = ask(dev.GetCurrentClocksThrottleReasons)
	}
	return (*Clocks)(mask)
}

// links tells of each NVLink that the GPU has whether it is up.
func links(dev nvml.Device) []bool {
	var up []bool
	for i := range nvml.NVLINK_MAX_LINKS {
		switch state, ret := dev.GetNvLinkState(i); ret {
		case nvml.SUCCESS:
			up = append(up, state == nvml.FEATURE_ENABLED)
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT: // no such link
			if up == nil {
				up = []bool{}
			}
		default:
			return nil
		}
	}
	return up
}

// fabric asks how the Fabric Manager left the GPU.
func (r reader) fabric(dev nvml.Device) *Fabric {
	var state uint8
	var status uint32
	switch {
	case r.has("nvmlDeviceGetGpuFabricInfoV"):
		info, ret := dev.GetGpuFabricInfoV().V2()
		if ret != nvml.SUCCESS {
			return noFabric(ret)
		}
		state, status = info.State, info.Status
	case r.has("nvmlDeviceGetGpuFabricInfo"):
		info, ret := dev.GetGpuFabricInfo()
		if ret != nvml.SUCCESS {
			return noFabric(ret)
		}
		state, status = info.State, info.Status
	default:
		return nil
	}
	f := &Fabric{State: FabricUnknown}
	if int(state) < len(fabricStates) {
		f.State = fabricStates[state]
	}
	if s := nvml.Return(status); f.State == FabricCompleted && s != nvml.SUCCESS {
		f.Status = s.Error()
	}
	return f
}

func noFabric(ret nvml.Return) *Fabric {
	if ret == nvml.ERROR_NOT_SUPPORTED {
		return &Fabric{State: FabricUnsupported}
	}
	return nil
}

// enabled turns NVML's switch into a truth value.
func enabled(s *nvml.EnableState) *bool {
	if s == nil {
		return nil
	}
	return new(*s == nvml.FEATURE_ENABLED)
}
