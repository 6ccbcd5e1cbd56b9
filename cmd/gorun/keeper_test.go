package main

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/spec"
)

// TestKeeperResult checks that the exit code is the job's once an agent has ended.
func TestKeeperResult(t *testing.T) {
	stuck := errors.New("cannot end process 7: still there")
	tests := []struct {
		name  string
		exits []process.Exit
		err   error
		want  int
	}{
		{"no agent", nil, stuck, 1},
		{"success", []process.Exit{{}}, nil, 0},
		{"the first failure", []process.Exit{{}, {Code: 7}, {Code: 8}}, nil, 7},
		{"a killed agent", []process.Exit{{Code: -1, Signal: 9}}, nil, 137},
		{"a failure and a leftover", []process.Exit{{Code: 7}}, stuck, 7},
		{"success and a leftover", []process.Exit{{}}, stuck, 0},
	}
	for _, tt := range tests {
		k := newKeeper(spec.Spec{})
		for i, e := range tt.exits {
			k.OnExit(i, e, 0)
		}
		if got := exitCode(k.result(tt.err)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
