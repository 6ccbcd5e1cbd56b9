package cuda

import (
	"errors"
	"fmt"
	"strings"
)

// Error says that the GPU or a library of this rank failed, or of another one.
type Error struct {
	Rank int // whose it is, in the world; -1: this process's, before it had a rank
	Err  error
}

func (e *Error) Error() string {
	if e.Rank < 0 {
		return fmt.Sprintf("gorun: no GPU can be used: %v", e.Err)
	}
	return fmt.Sprintf("gorun: rank %d cannot use its GPU: %v", e.Rank, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// SharedDeviceError says that two ranks have the same GPU, which NCCL does not allow.
type SharedDeviceError struct {
	Ranks [2]int // in the world
	UUID  string
}

func (e *SharedDeviceError) Error() string {
	return fmt.Sprintf("gorun: ranks %d and %d have the same GPU, %s: NCCL takes one rank for each: start as many workers as there are GPUs, or give each its own by CUDA_VISIBLE_DEVICES",
		e.Ranks[0], e.Ranks[1], e.UUID)
}

// LibraryError says that two ranks opened different releases of NCCL.
type LibraryError struct {
	Ranks    [2]int // in the world
	Versions [2]string
	Paths    [2]string
}

func (e *LibraryError) Error() string {
	return fmt.Sprintf("gorun: the ranks have different releases of NCCL: rank %d has %s (%s), rank %d has %s (%s): install the same one everywhere, or set GORUN_NCCL_LIB to its path",
		e.Ranks[0], e.Versions[0], e.Paths[0], e.Ranks[1], e.Versions[1], e.Paths[1])
}

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("gorun: the communicator of GPUs is closed")

// errNoComm is the error of calls with a nil Comm.
var errNoComm = errors.New("gorun: the communicator of GPUs is nil: Open failed")

// errNoStream is the error of calls with a nil Stream or Event.
var errNoStream = errors.New("gorun: the stream or event is nil: Open, NewStream, ForeignStream or Record failed")

// errFreed is the error of calls with a Buffer that has no memory any more.
var errFreed = errors.New("the buffer was freed")

// voiced returns err as exported functions return errors: they begin with "gorun: ".
func voiced(err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "gorun: ") {
		return err
	}
	return fmt.Errorf("gorun: %w", err)
}
