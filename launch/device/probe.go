package device

import (
	"encoding/json"
	"io"
	"io/fs"
)

// Source says what a probe reads, and where it reads.
type Source string

const (
	NVML      Source = "nvml"   // from the driver's library: what counting and pinning need
	All       Source = "facts"  // from the driver's library: everything about each GPU
	Processes Source = "held"   // from the driver's library: which processes compute on which GPU
	Events    Source = "events" // from the driver's library: its events, until the child ends
	Procfs    Source = "procfs" // from /proc/driver/nvidia: works without the library
)

// Report holds what a probe found. The child process prints it as one line of
// JSON on its standard output.
type Report struct {
	Probe     int       `json:"gorun_gpu_probe"` // reportVersion; marks the line
	GPUs      []GPU     `json:"gpus"`
	Processes []Process `json:"held,omitempty"`  // processes that compute on a GPU now
	NVML      string    `json:"nvml,omitempty"`  // the library's version
	Error     string    `json:"error,omitempty"` // why there is no answer
}

const (
	reportVersion = 2
	maxProcesses  = 64 // processes of one GPU that are reported
)

// Probe looks for GPUs. It may hang or end the process, so call it only in a child
// process that does nothing else. It prints nothing.
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

// Answer is what the child process runs. It writes the Report of Probe or, for
// Events, each event until a write fails.
func Answer(w io.Writer, from Source, root fs.FS) error {
	if from == Events {
		return writeEvents(w)
	}
	return json.NewEncoder(w).Encode(Probe(from, root))
}
