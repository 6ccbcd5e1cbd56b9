package report

import (
	"os"
	"time"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous"
)

// Job identifies a job before its agents have found each other.
type Job struct {
	File    string // file of --report; "": none
	RunID   string
	Started time.Time // zero: the job has taken no time
}

// WriteError writes the report of a job that ended with an error and an exit code
// before any agent could report on it.
func (j Job) WriteError(err error, code int) error {
	kind := rendezvous.KindAgent
	if code == rendezvous.ExitUsage {
		kind = rendezvous.KindStart
	}
	return j.write(rendezvous.Cause{Kind: kind, ExitCode: code, Message: err.Error()}, code)
}

// WriteKilled writes the report in place of a killed agent; e says how the agent
// ended. The keeper calls it; code is the keeper's exit code.
func (j Job) WriteKilled(e process.Exit, code int) error {
	c := rendezvous.Cause{Kind: rendezvous.KindLost, ExitCode: e.Status(), Signal: e.Signal, Message: "the agent " + e.String()}
	return j.write(c, code)
}

// write writes a report with a cause that concerns no worker.
func (j Job) write(c rendezvous.Cause, code int) error {
	if j.File == "" {
		return nil
	}
	c.Host, _ = os.Hostname()
	if c.Host == "" {
		c.Host = "localhost"
	}
	c.GroupRank, c.Rank, c.LocalRank, c.Time = -1, -1, -1, time.Now()
	if j.Started.IsZero() {
		j.Started = c.Time
	}
	return WriteJSON(j.File, Report{
		RunID: j.RunID, Started: j.Started, Ended: c.Time, ExitCode: code, Outcome: Failed,
		Cause: &c, Failures: []rendezvous.Cause{c},
	})
}
