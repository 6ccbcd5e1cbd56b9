//go:build linux && cgo && !nonvml

package device

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// readNVML asks the driver's library. After an Init that failed no other
// function of the library may be called, not even Shutdown: the loader would
// end the process.
func readNVML() ([]GPU, error) {
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("cannot load NVML: %w", ret)
	}
	defer nvml.Shutdown()
	n, ret := nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("cannot count GPUs: %w", ret)
	}
	gpus := make([]GPU, 0, n)
	for i := range n {
		dev, ret := nvml.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("cannot open GPU %d: %w", i, ret)
		}
		g := GPU{Index: i}
		if g.UUID, ret = dev.GetUUID(); ret != nvml.SUCCESS {
			return nil, fmt.Errorf("cannot read the UUID of GPU %d: %w", i, ret)
		}
		if name, ret := dev.GetName(); ret == nvml.SUCCESS {
			g.Name = name
		}
		if pci, ret := dev.GetPciInfo(); ret == nvml.SUCCESS {
			g.PCI = sysfsPCI(cString(pci.BusId[:]))
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}

// cString reads a C string of at most len(chars) characters. go-nvml has had both
// element types.
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
