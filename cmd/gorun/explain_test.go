package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/diagnose"
)

const oomLog = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"

// explained runs gorun explain with in as standard input.
func explained(in string, args ...string) (code int, out string) {
	var b bytes.Buffer
	root := newRootCommand()
	root.SetIn(strings.NewReader(in))
	root.SetOut(&b)
	root.SetErr(&b)
	return exitCode(execute(root, append([]string{"explain"}, args...))), b.String()
}

func TestExplainCommand(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "job.log")
	if err := os.WriteFile(log, []byte(oomLog), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "dump_0")
	if err := os.WriteFile(broken, []byte("\x80\x02}q\x00("), 0o600); err != nil {
		t.Fatal(err)
	}
	mixed := t.TempDir()
	if err := os.WriteFile(filepath.Join(mixed, "dump_0"), []byte("\x80\x02}q\x00("), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mixed, "job.log"), []byte(oomLog), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.log")
	cut := filepath.Join(t.TempDir(), "cut.log.gz")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 20_000 {
		fmt.Fprintf(z, "%sstep %d\n", oomLog, i*i)
	}
	if err := errors.Join(z.Close(), os.WriteFile(empty, nil, 0o600), os.WriteFile(cut, packed.Bytes()[:packed.Len()/2], 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		args []string
		code int
		want string
	}{
		{oomLog, nil, 0, "[X-CUDAOOM]\n  blame: rank 3\n  -:1: "},
		{oomLog, []string{"-"}, 0, "Root cause: the worker ran out of GPU memory"},
		{"", []string{log}, 0, log + ":1: "},
		{"step 1\n", nil, 0, "nothing found"},
		{"step 1\n", []string{"--json"}, 0, "[]\n"},
		{"\x7fELF\x02\x01\x01" + strings.Repeat("\x00\x03\x00\x10", 500), nil, 0, "gorun: - is not text: give gorun explain the output of a job\n"},
		{"\x7fELF\x02\x01\x01" + strings.Repeat("\x00\x03\x00\x10", 500), []string{"--json"}, 0, "[]\n"},
		{"", []string{filepath.Join(dir, "none")}, 2, ""},
		{"", []string{"/dev/zero"}, 2, ""},
		{"", []string{dir}, 0, log + ":1: "},
		{"", []string{"testdata/flight"}, 0, "Root cause: rank 1 did not call all_reduce [4] Float, number 6 of default_pg, in which rank 0 waits (step (train.py:14)); its last call there was all_reduce [4] Float, number 5 (step (train.py:12)) [X-HANG]\n  blame: rank 1\n"},
		{"", []string{"testdata/flight/dump_1"}, 0, "nothing found"},
		{"", []string{"testdata/flight/dump_0", "--json"}, 0, `"rank": 1`},
		{"", []string{broken}, 2, broken + " looks like a dump of PyTorch's flight recorder and is not readable: "},
		{"", []string{mixed}, 0, mixed + "/job.log:1: "},
		{"", []string{mixed}, 0, "gorun: " + mixed + "/dump_0 looks like a dump of PyTorch's flight recorder and is not readable: "},
		{"", []string{"--jason"}, 2, ""},
		{"", []string{"--since", "yesterday", log}, 2, ""},
		{"", []string{"--since", "1h", log}, 0, log + ":1: "},
		{"", []string{"--since", "2100-01-01", log}, 0, "nothing found"},
		{"", []string{"--since", "2100-01-01", dir}, 0, ""},
		{"", []string{"--since", "2020-01-01T00:00:00Z", log}, 0, log + ":1: "},
		{"", nil, 0, "gorun: standard input is empty\nnothing found"},
		{"", []string{empty}, 0, "gorun: " + empty + " is empty\n"},
		{"", []string{t.TempDir()}, 2, ""},
		{"", []string{cut}, 0, cut + " ends in the middle; what there is of it was read\nRoot cause: "},
		{"", []string{"--teach", dir}, 2, ""},
		{"", []string{"--teach", log}, 0, "no line looks like an error that gorun explain does not know\n"},
		{"frob: cannot map window 17\n", []string{"--teach", "-"}, 0, "Pattern: `frob: cannot map window \\d+`,\n"},
		{"", []string{"--teach", filepath.Join(dir, "none")}, 2, ""},
		{"", []string{"--help"}, 0, "gorun explain [flags] [LOG|DIR...|-]"},
	} {
		code, out := explained(c.in, c.args...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("explain %q: code %d, want %d; output %q, want %q", c.args, code, c.code, out, c.want)
		}
	}
}

func TestExplainJSON(t *testing.T) {
	_, out := explained(oomLog+"node1:1:2 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer node2<4>\n", "--json")
	var found []diagnose.Finding
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(found) != 2 || found[0].ID != "X-CUDAOOM" || found[0].Rank != 3 || found[0].File != "-" || found[0].Line != 1 || found[1].Severity != diagnose.SeverityConsequence {
		t.Errorf("got %+v", found)
	}
}
