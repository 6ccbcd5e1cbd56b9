package worker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorun/gorun/worker/contract"
)

// ErrClosed is the cause of the world's context after World.Close.
var ErrClosed = errors.New("gorun: the world is closed")

// ErrAborted is what errors.Is finds in every *AbortError.
var ErrAborted = errors.New("gorun: aborted")

// AbortError says that the job's round was aborted. Its text begins with
// "gorun: aborted: ". By these words the failure report recognises a worker that ends
// with this error as a consequence and not as the cause.
type AbortError struct {
	Cause contract.Cause
}

func (e *AbortError) Error() string { return "gorun: aborted: " + e.Cause.Text }

// Is reports whether target is ErrAborted.
func (e *AbortError) Is(target error) bool { return target == ErrAborted }

// voiced returns err as the exported functions of this package return errors: they begin
// with "gorun: ".
func voiced(err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "gorun: ") {
		return err
	}
	return fmt.Errorf("gorun: %w", err)
}

// aborted makes the error for an abort frame's cause. Any part of the cause may be
// missing.
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
