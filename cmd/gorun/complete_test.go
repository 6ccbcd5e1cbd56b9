package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// output of a command line that names one of the commands.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var b bytes.Buffer
	root := newRoot()
	root.DisableFlagParsing = strings.HasPrefix(args[0], "__complete")
	root.SetArgs(args)
	root.SetOut(&b)
	if err := root.Execute(); err != nil {
		t.Fatalf("gorun %q: %v", args, err)
	}
	return b.String()
}

func TestComplete(t *testing.T) {
	const files = ":0"
	for _, c := range []struct {
		args string
		want string // separated by spaces; the last is cobra's directive
	}{
		{"che", "check :0"},
		{"--nno", "--nnodes :4"},
		{"run --nno", "--nnodes :4"},
		{"check --st", "--strict --standalone :4"},
		{"check --log", ":4"}, // is for jobs only
		{"check --from ", files},
		{"--preflight ", "error warn off :4"},
		{"--nproc_per_node g", "gpu :4"},
		{"--nnodes 2 --iface a", "auto :4"},
		{"--nnodes=2 -r 3 --preflight=", files},
		{"train.py --nno", files},
		{"check --strict train.py --nno", files},
		{"-- --nno", files},
	} {
		var got []string
		for line := range strings.Lines(output(t, append([]string{"__complete"}, strings.Split(c.args, " ")...)...)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("after %q: %q, want %q", c.args, got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for topic, want := range map[string]string{
		"":           runUsage(),
		"run":        runUsage(),
		"check":      checkUsage(),
		"explain":    "standard input is read",
		"completion": "gorun completion [command]",
	} {
		if got := output(t, slices.DeleteFunc([]string{"help", topic}, func(s string) bool { return s == "" })...); !strings.Contains(got, want) {
			t.Errorf("gorun help %s: %q, want %q", topic, got, want)
		}
	}
}

func TestOfflineUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--from":                      "needs files",
		"--from a.json --strict":      "--strict comes after a file",
		"--from --save x.json a.json": "--save together with --from",
		"--from /nonexistent":         "no such file",
	} {
		raw, err := parseJob(append([]string{checkCommand}, strings.Fields(args)...))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkOffline(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("gorun check %s: %v, want %q", args, err, want)
		}
	}
}
