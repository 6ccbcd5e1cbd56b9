package main

import (
	"slices"
	"strings"
	"testing"
)

func TestCommandWithAnotherPort(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--nnodes 2 --rdzv_endpoint=a:1 --rdzv-id 7 train.py --rdzv-endpoint=x", "gorun --rdzv-endpoint=b:2 --nnodes=2 --rdzv-id=7 train.py --rdzv-endpoint=x"},
		{"--rdzv-endp a:1 --no-python -- prog --lr 1", "gorun --rdzv-endpoint=b:2 --no-python -- prog --lr 1"},
		{"check --nnodes 2 --rdzv-endpoint a:1", "gorun check --rdzv-endpoint=b:2 --nnodes=2"},
		{"--nnodes 2 train.py", "gorun --rdzv-endpoint=b:2 --nnodes=2 train.py"},
	} {
		o, err := parseJob(strings.Fields(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		got := o.commandWith("rdzv-endpoint", "b:2")
		if !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s: %q, want %s", tt.args, got, tt.want)
		}
	}
}
