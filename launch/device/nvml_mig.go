//go:build linux && cgo && !nonvml

package device

import "github.com/NVIDIA/go-nvml/pkg/nvml"

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
