package worker

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/worker/contract"
)

// ErrClosed is the cause of the world's context after World.Close.
var ErrClosed = errors.New("gorun: the world is closed")

// AbortError: the job's round was aborted. Its text begins with
// "gorun: aborted: ", by which the failure report knows a worker that ends with
// it for a consequence of the cause and not for the cause.
type AbortError struct {
	Cause contract.Cause
}

func (e *AbortError) Error() string { return "gorun: aborted: " + e.Cause.Text }

// aborted makes the error for an abort frame's cause, which may lack anything.
func aborted(c *contract.Cause) *AbortError {
	if c == nil {
		c = &contract.Cause{Rank: -1}
	}
	cause := *c
	if cause.Text == "" {
		cause.Text = "the agent gave no cause"
		if cause.Rank >= 0 {
			cause.Text = fmt.Sprintf("rank %d on %s failed", cause.Rank, cause.Host)
		}
	}
	return &AbortError{Cause: cause}
}
