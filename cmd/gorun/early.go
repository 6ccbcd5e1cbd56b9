//go:build earlyfork && cgo

package main

// #include "early.h"
import "C"

import (
	"strconv"
	"syscall"
	"time"
)

// earlyAgent returns the lifeline's descriptor if this process is an agent that
// was forked from its keeper before the runtime started.
func earlyAgent() (lifeline int, ok bool) {
	return int(C.early.lifeline), C.early.lifeline >= 0
}

// stepBack tells the keeper of an early agent that there is to be no such agent;
// the caller then ends. It reports whether this process is one.
func stepBack() bool {
	_, agent := earlyAgent()
	if agent {
		C.early_step_back()
	}
	return agent
}

// earlyTell is the last word of an early agent, its exit code, for which the keeper
// would else wait until this process is gone.
func earlyTell(code int) {
	if _, agent := earlyAgent(); agent {
		C.early_tell(C.int(code))
	}
}

// earlyTag is what both processes call the agent's temporary files.
func earlyTag() string { return strconv.FormatUint(uint64(C.early.tag), 36) }

// earlyBorn is when the keeper of an early agent has forked it, to the second.
func earlyBorn() time.Time { return time.Unix(int64(C.early.born), 0) }

// earlySlack is the timer slack of who started gorun, if an early agent has another;
// else 0.
func earlySlack() time.Duration { return time.Duration(C.early.slack) }

// earlyEnd returns how the agent ended, and how many processes that it left were
// killed, if this process is the keeper of an early one, which has left something
// to do.
func earlyEnd() (ws syscall.WaitStatus, killed int, ok bool) {
	return syscall.WaitStatus(C.early.status), int(C.early.killed), C.early.ended != 0
}
