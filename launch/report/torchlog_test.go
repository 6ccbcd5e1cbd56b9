package report

import (
	"slices"
	"syscall"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

func TestTorchLog(t *testing.T) {
	exit := workerCause(3, nil)
	signal := workerCause(3, func(c *rendezvous.Cause) { c.Kind, c.ExitCode, c.Signal = rendezvous.KindSignal, 0, syscall.SIGKILL })
	lost := nodeCause(rendezvous.KindLost, "no answer for 5 s")
	stopped := nodeCause(rendezvous.KindStopped, "")
	stopped.Signal = syscall.SIGINT
	for _, tt := range []struct {
		name string
		in   Stop
		want []string
	}{
		{"an exit", Stop{&exit, "/usr/bin/python3", []int{7, 8}, syscall.SIGTERM}, []string{
			"Sending process 7 closing signal SIGTERM", "Sending process 8 closing signal SIGTERM",
			"failed (exitcode: 1) local_rank: 1 (pid: 78973) of binary: /usr/bin/python3",
		}},
		{"a signal", Stop{&signal, "/bin/x", nil, syscall.SIGTERM}, []string{"failed (exitcode: -9) local_rank: 1 (pid: 78973) of binary: /bin/x"}},
		{"a lost node", Stop{&lost, "/bin/x", []int{7}, syscall.SIGTERM}, []string{"Sending process 7 closing signal SIGTERM"}},
		{"a signal to gorun", Stop{&stopped, "/bin/x", []int{7}, syscall.SIGINT}, []string{
			"Received 2 death signal, shutting down workers", "Sending process 7 closing signal SIGINT",
		}},
	} {
		if got := TorchLog(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTorchKill(t *testing.T) {
	if got, want := TorchKill(7, syscall.SIGINT), "Unable to shutdown process 7 via SIGINT, forcefully exiting via SIGKILL"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
