//go:build !(linux && cgo && !nonvml)

package device

import (
	"errors"
	"io"
	"io/fs"
)

// Linked reports whether this build can ask NVML at all.
const Linked = false

var errNotLinked = errors.New("this build has no NVML (built without cgo or with -tags nonvml)")

// readNVML passes an error, because a build without cgo cannot load NVML.
func readNVML(_ Source, _ fs.FS, use func(Report, error)) { use(Report{}, errNotLinked) }

func writeEvents(w io.Writer) error { return writeUnavailable(w, errNotLinked) }
