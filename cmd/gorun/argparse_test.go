package main

import (
	"strings"
	"testing"
	"unicode"

	"github.com/gorun/gorun/internal/term"
)

func TestDidYouMean(t *testing.T) {
	for args, want := range map[string]string{
		"--nnodess 2 x":         "error: unrecognized arguments: --nnodess: did you mean --nnodes?",
		"--nprocs_per_node 2 x": "did you mean --nproc-per-node?",
		"--rdvz-endpoint a x":   "did you mean --rdzv-endpoint?",
		"-nnodes 2 x":           "error: unrecognized arguments: -nnodes: did you mean --nnodes?",
		"-nproc-per-node=2 x":   "did you mean --nproc-per-node?",
		"check --stricct x":     "did you mean --strict?",
		"--check x":             "error: unrecognized arguments: --check: did you mean the command gorun check?",
		"--status":              "did you mean the command gorun status?",
		"env --rnak 0":          "did you mean --rank?",
		"--learning-rate 1 x":   "error: unrecognized arguments: --learning-rate: gorun help flags lists all",
	} {
		if _, err := parseJob(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	for args, want := range map[string]string{
		"status --wacth":    "error: unrecognized arguments: --wacth: did you mean --watch?",
		"status -z":         "error: unrecognized arguments: -z: gorun status --help lists all",
		"status --json=2":   "error: argument --json: ignored explicit argument '2' (a switch takes no value, or true or false)",
		"status --pid=":     `--pid "" is not a whole number`,
		"status --pid 0":    "--pid 0 is not a pid",
		"status --run-id=":  "--run-id without an id",
		"abort -m":          "error: argument -m/--message: expected one argument (TEXT)",
		"explain --jsn":     "did you mean --json?",
		"help stauts":       "did you mean gorun help status?",
		"completion csh":    "name one shell",
		"completion bash x": "name one shell",
		"version x":         "takes no arguments",
	} {
		err := execute(newRootCommand(), strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != 2 {
			t.Errorf("gorun %s: %v, want %q and exit code 2", args, err, want)
		}
	}
}

// TestMistakenForAProgram checks that gorun starts a program whose name is nearly a
// command's only if it exists here, or if the user says that it is a program.
func TestMistakenForAProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"stat":                   "stat is not a command: did you mean gorun status? To run a program of that name: gorun run stat",
		"stat -c %s f":           "gorun run stat",
		"chek --nnodes 2 x":      "did you mean gorun check?",
		"statsu":                 "did you mean gorun status?",
		"evn":                    "did you mean gorun env?",
		"explian job.log":        "did you mean gorun explain?",
		"ver":                    "did you mean gorun version?",
		"--nnodes 1 status":      "the command comes first, as in gorun status --nnodes",
		"--nnodes 1 explain":     "the command comes first",
		"check run --nnodes 2 x": "run is a second command: leave it out, or give gorun check a program",
		"env --rank 0 run x":     "give gorun env a program",
		// These are programs.
		"true":              "",
		"ls":                "",
		"rm":                "",
		"sh -c true":        "",
		"sort":              "",
		"time true":         "",
		"python3 x":         "",
		"train.py status":   "",
		"./stat":            "",
		"explain.py":        "",
		"/usr/bin/stat":     "",
		"-- stat":           "",
		"--no-python stat":  "",
		"-m statu":          "",
		"--nnodes 1 stat":   "",
		"--nnodes 1 env":    "", // is on every PATH
		"check stat":        "",
		"env --rank 0 stat": "",
	} {
		if _, err := parseJob(strings.Fields(args)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("gorun %s: %v, want %q", args, err, want)
		}
	}
}

// Whatever the value of a flag is, what is said of it is one short line.
func TestBadValues(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, name := range flagNames(jobFlags()...) {
		for _, value := range []string{"", " ", "zzz", "-5", "0", "1.5", "nan", strings.Repeat("9", 1<<17), "ü", "a\nb", "a\x1b[2Jb", "\xff", "/no/such"} {
			o, err := parseJob([]string{"--" + name + "=" + value, "x"})
			if err == nil {
				_, err = o.raw.Resolve(none)
			}
			if err == nil {
				continue
			}
			if line := term.OneLine(err.Error()); len(line) > 1000 || strings.ContainsFunc(line, unicode.IsControl) || strings.Contains(line, "strconv") || !strings.Contains(line, name) {
				t.Errorf("--%s=%.20q: %q", name, value, line)
			}
		}
	}
}
