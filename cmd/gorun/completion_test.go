package main

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// output of a command line that names one of the commands.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var b bytes.Buffer
	root := newRootCommand()
	root.SetOut(&b)
	if err := execute(root, args); err != nil {
		t.Fatalf("gorun %q: %v", args, err)
	}
	return b.String()
}

func TestComplete(t *testing.T) {
	t.Setenv("GORUN_TEST_COMPLETE", "")
	const files = ":0"
	for _, c := range []struct {
		args string
		want string // separated by spaces; the last is cobra's directive
	}{
		{"che", "check :0"},
		{"--nno", "--nnodes :4"},
		{"run --nno", "--nnodes :4"},
		{"check --st", "--strict --standalone --store-open --start-method :4"},
		{"check --log-d", "--log-dir :4"},
		{"check --from ", files},
		{"status --w", "--watch :4"},
		{"--preflight ", "error warn off :4"},
		{"--nproc_per_node g", "gpu :4"},
		{"--nproc g", "gpu :4"},
		{"check --nno=2 --pre w", "warn :4"},
		{"--nnodes 2 --iface a", "auto :4"},
		{"--nnodes=2 -r 3 --preflight=w", "warn :4"}, // the shells' scripts add the flag
		{"-r ", "0 1 2 3 :4"},
		{"--rdzv-backend s", "static standalone :4"},
		{"--numa-binding e", "exclusive :4"},
		{"--ignore V01,V02", "V01,V02 :6"},
		{"--rdzv-conf ttl=5,last", "ttl=5,last_call_timeout= :6"},
		{"--iface l", "lo :4"},
		{"--local-addr 127.", "127.0.0.1 :4"},
		{"-x GORUN_TEST_COMPLE", "GORUN_TEST_COMPLETE :4"},
		{"--rdzv-id ", ":4"},
		{"--env-file ", files},
		{"--log-dir=", files},
		{"completion ", "bash zsh fish :4"},
		{"--print-completion z", "zsh :4"},
		{"help f", "flags :4"},
		{"vers", "version :0"},
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

// TestBashWords checks that in bash the words are those of a shell, without the package
// bash-completion.
func TestBashWords(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	script := output(t, "completion", "bash") + `
COMP_LINE=$1 COMP_POINT=$2 COMP_CWORD=$3
COMP_WORDS=("${@:4}")
__gorun_init_completion -n =:
printf '%s|' "$cur" "$prev" "$cword" "${words[@]}"
`
	for _, c := range []struct {
		before, after string // the cursor
		words         string // as bash has them; the cursor is in the last one
		want          string // cur, prev, cword, words
	}{
		{"gorun ", "", "gorun| ", "|gorun|1|gorun||"},
		{"gorun --nno", "", "gorun|--nno", "--nno|gorun|1|gorun|--nno|"},
		{"gorun --preflight=", "", "gorun|--preflight|=", "--preflight=|gorun|1|gorun|--preflight=|"},
		{"gorun --nnodes=2 --preflight=er", "", "gorun|--nnodes|=|2|--preflight|=|er", "--preflight=er|--nnodes=2|2|gorun|--nnodes=2|--preflight=er|"},
		{"gorun  --rdzv-endpoint a:29400,b:1 -r ", "", "gorun|--rdzv-endpoint|a|:|29400,b|:|1|-r| ", "|-r|4|gorun|--rdzv-endpoint|a:29400,b:1|-r||"},
		{"gorun -x 'A=b c' --tee ", "", "gorun|-x|'A=b c'|--tee| ", "|--tee|4|gorun|-x|'A=b c'|--tee||"},
		{"gorun --pin ex", "clusive x", "gorun|--pin|exclusive", "ex|--pin|2|gorun|--pin|ex|"},
	} {
		words := strings.Split(strings.ReplaceAll(c.words, "| ", "|"), "|")
		args := append([]string{"--norc", "--noprofile", "-c", script, "bash", c.before + c.after, strconv.Itoa(len(c.before)), strconv.Itoa(len(words) - 1)}, words...)
		got, err := exec.Command(bash, args...).CombinedOutput()
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.before, got, err, c.want)
		}
	}
}

// TestHelpFits checks that no help is wider than a plain terminal, and those of commands
// fit on it, with the prompt.
func TestHelpFits(t *testing.T) {
	topics := append(commandNames(newRootCommand()), "flags", "")
	for _, topic := range topics {
		text := output(t, slices.DeleteFunc([]string{"help", topic}, func(s string) bool { return s == "" })...)
		if n := strings.Count(text, "\n"); n > 23 && topic != "flags" {
			t.Errorf("gorun help %s: %d lines", topic, n)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("gorun help %s: %d columns: %s", topic, n, line)
			}
		}
	}
}

// The first screen names flags and commands that there are, ten of the flags.
func TestFirstScreen(t *testing.T) {
	known := flagNames(jobFlags()...)
	listed := 0
	for line := range strings.Lines(firstScreen) {
		for _, word := range strings.Fields(line) {
			if name, ok := strings.CutPrefix(word, "--"); ok && !slices.Contains(known, name) && name != "watch" {
				t.Errorf("there is no flag %s", word)
			}
		}
		if strings.HasPrefix(line, "      --") || strings.HasPrefix(line, "  -") {
			listed++
		}
	}
	want := commandNames(newRootCommand())
	if got := strings.Fields(between(firstScreen, "Commands:", "More:")); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("commands %q, want %q", got, want)
	}
	if listed != 10 {
		t.Errorf("%d flags are listed", listed)
	}
}

func TestHelp(t *testing.T) {
	for topic, want := range map[string]string{
		"":           firstScreen,
		"run":        firstScreen,
		"check":      "Put\nthe word check into",
		"explain":    "standard input is read",
		"completion": "gorun completion bash|zsh|fish",
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
		root := newRootCommand()
		root.SetOut(io.Discard)
		if err := execute(root, append([]string{"check"}, strings.Fields(args)...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("gorun check %s: %v, want %q", args, err, want)
		}
	}
}
