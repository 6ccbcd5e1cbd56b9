package device

import (
	"encoding/json"
	"errors"
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
	Procfs    Source = "procfs" // from /proc/driver/nvidia: takes no time, and works without the library
)

// System is where a probe reads.
type System struct {
	Files   fs.FS                   // what is below /
	MayOpen func(name string) error // why this process may not open a file; it does not open the file
}

// Report holds what a probe found. The child process prints it as one line of
// JSON on its standard output.
type Report struct {
	Probe     int       `json:"gorun_gpu_probe"` // reportVersion; marks the line
	GPUs      []GPU     `json:"gpus"`
	Processes []Process `json:"held,omitempty"`  // processes that compute on a GPU now
	NVML      string    `json:"nvml,omitempty"`  // the library's version
	Error     string    `json:"error,omitempty"` // why there is no answer
	// Unsure is set by Procfs only. It says why CUDA may show other GPUs than these, ""
	// if CUDA shows these.
	Unsure string `json:"unsure,omitempty"`
}

// err returns why there is no answer.
func (r Report) err() error {
	if r.Error == "" {
		return nil
	}
	return errors.New(r.Error)
}

const (
	reportVersion = 2
	maxProcesses  = 64 // processes of one GPU that are reported
)

// Probe looks for GPUs and passes what it finds to use. It may hang or end the process, so
// call it only in a child process that does nothing else. It prints nothing.
func Probe(from Source, sys System, use func(Report)) {
	finish := func(r Report, err error) {
		locate(sys.Files, r.GPUs, from == All)
		r.Probe = reportVersion
		if err != nil {
			r.Error = err.Error()
		}
		use(r)
	}
	if from != Procfs {
		readNVML(from, sys.Files, finish)
		return
	}
	gpus, err := readProcfs(sys)
	finish(Report{GPUs: gpus, Unsure: unsureReason(sys.Files, gpus)}, err)
}

// Answer is what the child process runs. It writes the Report of Probe or, for
// Events, each event until a write fails.
func Answer(w io.Writer, from Source, sys System) (err error) {
	if from == Events {
		return writeEvents(w)
	}
	Probe(from, sys, func(r Report) { err = json.NewEncoder(w).Encode(r) })
	return err
}
