//go:build !linux

package board

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

func newMemfd(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

func mapShared(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return errors.ErrUnsupported }

func wait(_ *atomic.Uint32, _ uint32, limit time.Duration) { time.Sleep(limit) }

func wake(*atomic.Uint32) {}

func isSealed(*os.File) bool { return false }

func identify(*os.File) (dev, inode uint64, err error) { return 0, 0, errors.ErrUnsupported }

func yield() { runtime.Gosched() }

// MachineMemory returns what a program of Go can have at most: this system is not asked.
func MachineMemory() uint64 { return maxHeap }
