package main

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/launch/spec"
)

func TestParseRun(t *testing.T) {
	type flags = map[string]string
	tests := []struct {
		args  string // separated by spaces
		flags flags
		cmd   string
	}{
		{"", flags{}, ""},
		{"train.py", flags{}, "train.py"},
		{"--nnodes 2 --nproc-per-node=4 train.py", flags{"nnodes": "2", "nproc_per_node": "4"}, "train.py"},
		{"--nproc_per_node 4 --rdzv_backend=c10d train.py", flags{"nproc_per_node": "4", "rdzv_backend": "c10d"}, "train.py"},
		{"--nproc 4 x", flags{"nproc_per_node": "4"}, "x"},
		{"--nproc_per 4 x", flags{"nproc_per_node": "4"}, "x"},
		{"--redirect=3 x", flags{"redirects": "3"}, "x"},
		{"--re=3 x", flags{"redirects": "3"}, "x"}, // as in torchrun, which has no --report
		{"--secret f x", flags{"secret_file": "f"}, "x"},
		{"--log /l x", flags{"log_dir": "/l"}, "x"}, // as in torchrun 1.13, which had no --logs-specs
		{"--mon 1 --run_p --start=fork x", flags{"monitor_interval": "1", "run_path": "1", "start_method": "fork"}, "x"},
		{"--stand x", flags{"standalone": "1"}, "x"},
		{"--standalone=false x", flags{"standalone": "0"}, "x"},
		{"-r3 -t 0:3,1:0 x", flags{"redirects": "3", "tee": "0:3,1:0"}, "x"},
		{"-r 3 -t=1 x", flags{"redirects": "3", "tee": "1"}, "x"},
		{"-m pkg.mod --flag", flags{"module": "1"}, "pkg.mod --flag"},
		{"-mr3 x", flags{"module": "1", "redirects": "3"}, "x"},
		{"-mr 3 x", flags{"module": "1", "redirects": "3"}, "x"},
		{"--tee 1 --tee 2 x", flags{"tee": "2"}, "x"},
		{"--rdzv-conf 'a=1,b=2' x", flags{"rdzv_conf": "'a=1,b=2'"}, "x"},
		{"--max-restarts -1 x", flags{"max_restarts": "-1"}, "x"},
		// Nothing after the program is ours.
		{"--nnodes 1 x --nnodes 2 --unknown -r -- -z", flags{"nnodes": "1"}, "x --nnodes 2 --unknown -r -- -z"},
		{"x --help", flags{}, "x --help"},
		{"--nnodes 1 -- --odd --n", flags{"nnodes": "1"}, "--odd --n"},
		{"-- x -- y", flags{}, "x -- y"},
		{"- x", flags{}, "- x"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			o, err := parseJob(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(o.raw.Flags, tt.flags) {
				t.Errorf("flags %v, want %v", o.raw.Flags, tt.flags)
			}
			if got := strings.Join(o.raw.Command, " "); got != tt.cmd {
				t.Errorf("command %q, want %q", got, tt.cmd)
			}
		})
	}
}

func TestParseRunKeepsArguments(t *testing.T) {
	args := []string{"--role", "a b", "--log-dir=", "p", "", "a b", "--x=$local_rank"}
	given := slices.Clone(args)
	o, err := parseJob(args)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"p", "", "a b", "--x=$local_rank"}; !reflect.DeepEqual(o.raw.Command, want) {
		t.Errorf("command %q, want %q", o.raw.Command, want)
	}
	if o.raw.Flags["role"] != "a b" {
		t.Errorf("role %q", o.raw.Flags["role"])
	}
	if v, given := o.raw.Flags["log_dir"]; !given || v != "" {
		t.Error("an empty value must count as given")
	}
	if !slices.Equal(args, given) {
		t.Error("the caller's arguments were changed")
	}
}

func TestParseRunErrors(t *testing.T) {
	tests := map[string]string{
		"--n 4 x":                      "error: ambiguous option: --n could match --nnodes, --nproc-per-node, --node-rank, --no-python",
		"--s x":                        "error: ambiguous option: --s could match --standalone, --start-method",
		"--monitor-intervals 1 x":      "error: unrecognized arguments: --monitor-intervals",
		"-z x":                         "error: unrecognized arguments: -z",
		"-mz x":                        "error: unrecognized arguments: -z",
		"--nnodes":                     "error: argument --nnodes: expected one argument (N|MIN:MAX)",
		"-r":                           "error: argument -r/--redirects: expected one argument",
		"--rdzv-id --standalone x":     "error: argument --rdzv-id/--rdzv_id: expected one argument",
		"--standalone=perhaps x":       "standalone",
		"-m=2 x":                       "error: unrecognized arguments: -2",
		"--nproc_per_node_and_more 1 ": "error: unrecognized arguments: --nproc-per-node-and-more",
	}
	for args, want := range tests {
		o, err := parseJob(strings.Fields(args))
		if err == nil {
			t.Errorf("%s: accepted as %+v", args, o.raw)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %q, want one line with %q", args, err, want)
		}
	}
	for _, args := range []string{"-h", "--help", "--he", "--nnodes 2 -h x"} {
		if _, err := parseJob(strings.Fields(args)); !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("%s: got %v, want pflag.ErrHelp", args, err)
		}
	}
}

// TestRepeatedFlags checks that a flag that may be given several times is a list,
// whatever is in its values.
func TestRepeatedFlags(t *testing.T) {
	o, err := parseJob([]string{"-x", "A=1,2", "--export=B=-x C", "-xD", "--unset", "E,F", "prog", "-x", "G"})
	if want := []string{"A=1,2", "B=-x C", "D"}; err != nil || !slices.Equal(o.raw.Lists["export"], want) {
		t.Errorf("-x: %q, %v, want %q", o.raw.Lists["export"], err, want)
	}
	if !slices.Equal(o.raw.Lists["unset"], []string{"E,F"}) || !slices.Equal(o.raw.Command, []string{"prog", "-x", "G"}) {
		t.Errorf("got %+v", o.raw)
	}
}

// TestEnvNeedsAProgram checks that what gorun env cannot use without a program is called
// as the help has it.
func TestEnvNeedsAProgram(t *testing.T) {
	for args, want := range map[string]string{
		"-x A=1": "-x (--export) needs a PROGRAM", "--export=A=1": "-x (--export) needs a PROGRAM", "--nnodes 2": "--nnodes needs a PROGRAM",
	} {
		o, err := parseJob(append([]string{"env"}, strings.Fields(args)...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := envTarget(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// After the word run there are programs only.
func TestProgramsNamedLikeCommands(t *testing.T) {
	for _, args := range [][]string{{"env", "FOO=1", "true"}, {"check", "x"}} {
		o, err := parseJob(append([]string{"run"}, args...))
		if err != nil || o.cmd.Name() != "run" || !slices.Equal(o.raw.Command, args) {
			t.Errorf("run %q: %+v, %v", args, o.raw, err)
		}
		if o, err := parseJob(args); err != nil || o.cmd.Name() != args[0] {
			t.Errorf("%q without run: %+v, %v", args, o.raw, err)
		}
	}
}

// TestAgentsGetTheCommandLine checks that an agent gets the command line that its keeper
// got.
func TestAgentsGetTheCommandLine(t *testing.T) {
	for _, args := range []string{
		"--nnodes 2 -x A=1 -x B=2 --no-python --tee=3 prog --its -x own", "run status", "run env FOO=1", "check -- status",
		"--standalone=false -m pkg", "-- --odd", "env --rank 0 run.py", "--rdzv_id= p",
	} {
		o, err := parseJob(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		a, err := parseJob(append([]string{o.cmd.Name(), "--" + agentFlag + "=0/1/tag"}, o.commandLine()...))
		if err != nil || a.cmd.Name() != o.cmd.Name() || !reflect.DeepEqual(a.raw, o.raw) || !slices.Equal(a.commandWith("n", "v"), o.commandWith("n", "v")) {
			t.Errorf("%s: %+v, %v, want %+v", args, a.raw, err, o.raw)
		}
	}
}

// TestEveryFlag checks that every flag of the set reaches Raw under its name, and the
// help shows it.
func TestEveryFlag(t *testing.T) {
	usage := flagsHelp()
	for _, group := range jobFlags() {
		for _, f := range group.flags {
			args, want := []string{"--" + f.name, "v", "prog"}, "v"
			if f.name == completionFlag { // is no flag of a job: it prints and ends
				continue
			}
			if f.arg == "" {
				args, want = []string{"--" + f.name, "prog"}, "1"
			}
			o, err := parseJob(args)
			if name := strings.ReplaceAll(f.name, "-", "_"); err != nil || strings.Join(append(o.raw.Lists[name], o.raw.Flags[name]), "") != want || len(o.raw.Command) != 1 {
				t.Errorf("%v: got %+v, %v", args, o.raw, err)
			}
			if f.usage == "" || unicode.IsUpper([]rune(f.usage)[0]) || strings.HasSuffix(f.usage, ".") || strings.Contains(f.usage, "\n") {
				t.Errorf("--%s: help %q is not one line that starts lower case", f.name, f.usage)
			}
			if !strings.Contains(usage, "--"+f.name) {
				t.Errorf("the help does not mention --%s", f.name)
			}
		}
	}
}

// TestCheckAndEnvTakeAJobsLine checks that the words check and env can be put into the
// command line of any job.
func TestCheckAndEnvTakeAJobsLine(t *testing.T) {
	flagSet(jobFlags()...).VisitAll(func(f *pflag.Flag) {
		if f.Name == completionFlag {
			return
		}
		line := []string{"--" + f.Name, "1", "prog", "--its", "own"}
		if isSwitch(f) {
			line = slices.Delete(line, 1, 2)
		}
		want, err := parseJob(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"check", "env"} {
			got, err := parseJob(append([]string{command}, line...))
			if err != nil || !reflect.DeepEqual(got.raw, want.raw) {
				t.Errorf("gorun %s %q: %+v, %v", command, line, got.raw, err)
			}
		}
	})
}

// TestFlagsFromEnvironment checks that the flags that torchrun has get their defaults
// from PET_ variables, and only those.
func TestFlagsFromEnvironment(t *testing.T) {
	asked := map[string]bool{}
	raw := spec.Raw{Command: []string{"train.py"}}
	if _, err := raw.Resolve(func(name string) (string, bool) { asked[name] = true; return "", false }); err != nil {
		t.Fatal(err)
	}
	for _, group := range append(jobFlags(), checkFlags(), envFlags()) {
		for _, f := range group.flags {
			pet := "PET_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
			if asked[pet] != slices.Contains(spec.VariablesOf(f.name), pet) || asked[pet] && spec.GenerationOf(f.name) == spec.GorunsOwn {
				t.Errorf("%s: read %v", pet, asked[pet])
			}
		}
	}
}
