//go:build !(linux && cgo && !nonvml)

package device

import "errors"

// readNVML is for builds without cgo, in which NVML cannot be loaded.
func readNVML() ([]GPU, error) {
	return nil, errors.New("this build has no NVML (built without cgo or with -tags nonvml)")
}
