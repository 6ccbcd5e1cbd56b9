//go:build !earlyfork || !cgo

package main

import (
	"syscall"
	"time"
)

// Without early.c the keeper starts every agent as a new process.

func earlyAgent() (lifeline int, ok bool) { return 0, false }

func stepBack() bool { return false }

func earlyTell(int) {}

func earlyTag() string { return "" }

func earlyBorn() time.Time { return time.Time{} }

func earlySlack() time.Duration { return 0 }

func earlyEnd() (ws syscall.WaitStatus, killed int, ok bool) { return 0, 0, false }
