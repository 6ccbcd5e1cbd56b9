package device

import (
	"encoding/json"
	"io"
	"io/fs"
)

// Source says what a probe reads, and from where.
type Source string

const (
	NVML      Source = "nvml"   // from the driver's library: what counting and pinning need
	All       Source = "facts"  // from the driver's library: everything about each GPU
	Processes Source = "held"   // from the driver's library: which processes compute on which GPU
	Troubles  Source = "events" // from the driver's library: what goes wrong, for as long as somebody reads
	Procfs    Source = "procfs" // from /proc/driver/nvidia: works without the library
)

// Report is what a probe found. The child process prints it as one line of
// JSON on its standard output.
type Report struct {
	Probe int    `json:"gorun_gpu_probe"` // reportVersion; marks the line
	GPUs  []GPU  `json:"gpus"`
	Held  []Held `json:"held,omitempty"`  // processes that compute on a GPU now
	NVML  string `json:"nvml,omitempty"`  // the library's version
	Error string `json:"error,omitempty"` // why there is no answer
}

const (
	reportVersion = 2
	maxHeld       = 64 // processes of one GPU that are reported
)

// Probe looks for GPUs. It may never return, or end the process: call it only
// in a child process made for it. It prints nothing.
func Probe(from Source, root fs.FS) Report {
	var r Report
	var err error
	if from == Procfs {
		r.GPUs, err = readProcfs(root)
	} else {
		r, err = readNVML(from, root)
	}
	locate(root, r.GPUs, from == All)
	r.Probe = reportVersion
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// Answer is all that the child process runs. It prints what Probe found, or
// each event as it comes until nobody reads.
func Answer(w io.Writer, from Source, root fs.FS) error {
	if from == Troubles {
		return tellEvents(w)
	}
	return json.NewEncoder(w).Encode(Probe(from, root))
}
