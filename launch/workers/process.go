package workers

import (
	"context"
	"syscall"

	"github.com/gorun/gorun/launch/process"
)

// Table is the part of a [process.Table] that a round uses.
type Table interface {
	// StartAll starts processes and returns them in the order of their Specs, nil
	// for each that was not started.
	StartAll(specs []process.Spec) ([]Process, error)
	// Stop ends processes and everything that they left.
	Stop(o process.StopOptions, procs []Process) error
}

// Process is the part of a [process.Process] that a round uses.
type Process interface {
	Pid() int
	Done() <-chan struct{}
	Exit() process.Exit
	// Dying returns how the process will end, with the time that Exit will have, if the
	// kernel is already ending it with a failure.
	Dying() (process.Exit, bool)
	Signal(sig syscall.Signal) error
}

// Processes returns a Table for the table that owns all children of this process.
func Processes(t *process.Table) Table { return processes{t} }

type processes struct{ table *process.Table }

func (p processes) StartAll(specs []process.Spec) ([]Process, error) {
	procs, err := p.table.StartAll(specs)
	all := make([]Process, len(procs))
	for i, proc := range procs {
		if proc != nil {
			all[i] = proc
		}
	}
	return all, err
}

func (p processes) Stop(o process.StopOptions, procs []Process) error {
	list := make([]*process.Process, len(procs))
	for i, proc := range procs {
		list[i] = proc.(*process.Process)
	}
	_, err := p.table.Stop(context.Background(), o, list...)
	return err
}
