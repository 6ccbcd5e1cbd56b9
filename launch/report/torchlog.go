package report

import (
	"fmt"
	"syscall"

	"github.com/gorun/gorun/rendezvous"
)

// Stop describes how a node begins to stop its workers, for TorchLog.
type Stop struct {
	Cause  *rendezvous.Cause
	Binary string         // what the workers execute
	Living []int          // pids of the workers that still run
	Signal syscall.Signal // that they get
}

// TorchLog returns the lines that torchrun logs when workers are stopped, so that a tool
// that searches its logs finds them (torch/distributed/elastic/multiprocessing/api.py and
// agent/server/api.py).
func TorchLog(s Stop) []string {
	var lines []string
	c := s.Cause
	if c.Kind == rendezvous.KindStopped && c.Signal != 0 {
		lines = append(lines, fmt.Sprintf("Received %d death signal, shutting down workers", int(c.Signal)))
	}
	for _, pid := range s.Living {
		lines = append(lines, fmt.Sprintf("Sending process %d closing signal %s", pid, rendezvous.SignalName(s.Signal)))
	}
	if c.Rank >= 0 && (c.Kind == rendezvous.KindExit || c.Kind == rendezvous.KindSignal) {
		code := c.ExitCode
		if c.Signal != 0 {
			code = -int(c.Signal)
		}
		lines = append(lines, fmt.Sprintf("failed (exitcode: %d) local_rank: %d (pid: %d) of binary: %s", code, c.LocalRank, c.PID, oneLine(s.Binary)))
	}
	return lines
}

// TorchKill returns the line that torchrun logs when a worker does not end by the signal
// and gets SIGKILL.
func TorchKill(pid int, sig syscall.Signal) string {
	return fmt.Sprintf("Unable to shutdown process %d via %s, forcefully exiting via SIGKILL", pid, rendezvous.SignalName(sig))
}
