package compat_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/buildtest"
)

const (
	recordFile  = "testdata/torch-1.13.json"
	envGorun    = buildtest.Env     // path of the gorun under test
	envTorchrun = "COMPAT_TORCHRUN" // path of another torchrun to compare with
	envCI       = "CI"
)

func TestMain(m *testing.M) {
	flag.Bool("record", false, "write "+recordFile+" anew, of the cases that -run names")
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("4") // the cases mostly wait
	}
	os.Exit(buildtest.Run(m.Run))
}

// gorun returns the launcher under test.
func gorun(t *testing.T) launcher {
	t.Helper()
	bin, err := filepath.Abs(os.Getenv(envGorun))
	if err != nil {
		t.Fatal(err)
	}
	return launcher{run: []string{bin}, launch: []string{bin, "launch"}}
}

// torchrun returns the torchrun of a Python.
func torchrun(t *testing.T, python string) launcher {
	t.Helper()
	shim, err := filepath.Abs("testdata/torchrun.py")
	if err != nil {
		t.Fatal(err)
	}
	return launcher{run: []string{python, shim, "run"}, launch: []string{python, shim, "launch"}, env: []string{"PET_MONITOR_INTERVAL=0.1"}}
}

// debian returns Debian's torchrun. A test that lacks it is skipped, but not in CI.
func debian(t *testing.T) launcher {
	t.Helper()
	const python = "/usr/bin/python3"
	if err := exec.CommandContext(t.Context(), python, "-c", "import torch; assert torch.__version__.startswith('1.13')").Run(); err != nil {
		if os.Getenv(envCI) != "" {
			t.Fatalf("Debian's python3-torch is missing: %v", err)
		}
		t.Skipf("Debian's python3-torch is missing: %v", err)
	}
	return torchrun(t, python)
}

// readRecord returns what torchrun 1.13 does, by case.
func readRecord(t *testing.T) map[string]outcome {
	t.Helper()
	text, err := os.ReadFile(recordFile)
	record := map[string]outcome{}
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// isRecorded reports whether a case is one of torchrun 1.13.
func (c testCase) isRecorded() bool { return c.want == nil && c.like == "" }

// sample lists the cases that TestRecord plays: one of each kind.
var sample = []string{
	"start/local rank in arguments", "start/standalone", "flag/prefix redirect", "variable/logs", "wrong/restarts no number",
	"log/tee and redirect by rank", "end/one of three by a signal", "error file/@record of one of two", "signal/SIGTERM",
	"restart/once", "nodes/static", "launch/local rank",
}

// TestRecord checks that torchrun still does what the record says, or writes the record.
func TestRecord(t *testing.T) {
	l := debian(t)
	isNew := flag.Lookup("record").Value.String() == "true"
	record := readRecord(t)
	for _, c := range cases() {
		if !c.isRecorded() || !isNew && !slices.Contains(sample, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			got := l.play(t, c)
			if isNew {
				record[c.name] = got
				return
			}
			for _, d := range differences(record[c.name], got) {
				t.Errorf("%s: the record has\n%s\ntorchrun now does\n%s", d.key, d.torchrun, d.gorun)
			}
		})
	}
	if isNew {
		writeRecord(t, record)
	}
}

// writeRecord writes what torchrun 1.13 does, without cases that are no more.
func writeRecord(t *testing.T, record map[string]outcome) {
	t.Helper()
	maps.DeleteFunc(record, func(name string, _ outcome) bool {
		return !slices.ContainsFunc(cases(), func(c testCase) bool { return c.name == name && c.isRecorded() })
	})
	text, err := json.MarshalIndent(record, "", "\t")
	if err == nil {
		err = os.WriteFile(recordFile, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCases checks that gorun does what torchrun does, except for what is allowed.
func TestCases(t *testing.T) {
	l, record := gorun(t), readRecord(t)
	met := tally{table: allowed()}
	t.Run("all", func(t *testing.T) {
		for _, c := range cases() {
			t.Run(c.name, func(t *testing.T) {
				if !c.alone {
					t.Parallel()
				}
				want := record[c.name]
				switch {
				case c.like != "":
					want = record[c.like]
				case c.want == nil && want == nil:
					t.Fatalf("%s lacks the case: go test -run 'TestRecord/%s' -record ./e2e/compat", recordFile, c.name)
				}
				got := l.play(t, c)
				found := differences(c.withCode(want), got)
				if c.want != nil {
					found = differences(c.want, only(got, c.want))
				}
				for _, d := range found {
					if !matches(c.loose, d.key) && !met.allows(c.name, d) {
						t.Errorf("%s: torchrun has\n%s\ngorun has\n%s", d.key, d.torchrun, d.gorun)
					}
				}
				met.done(c.name)
			})
		}
	})
	for _, line := range met.missing() {
		t.Error(line)
	}
}

// withCode returns what torchrun does, with the exit code that gorun is to have.
func (c testCase) withCode(o outcome) outcome {
	o = maps.Clone(o)
	for key, value := range o {
		if c.code != 0 && value == "1" && strings.HasSuffix(key, "exit code") {
			o[key] = strconv.Itoa(c.code)
		}
	}
	return o
}

// only returns the texts of an outcome that another one has.
func only(all, names outcome) outcome {
	some := maps.Clone(all)
	maps.DeleteFunc(some, func(key, _ string) bool { _, ok := names[key]; return !ok })
	for key := range names {
		if _, ok := some[key]; !ok {
			some[key] = ""
		}
	}
	return some
}

// TestLive compares gorun with the torchrun that COMPAT_TORCHRUN names, and prints a line
// for each difference that is not allowed. It plays all cases.
func TestLive(t *testing.T) {
	path := os.Getenv(envTorchrun)
	if path == "" {
		t.Skipf("%s names no torchrun", envTorchrun)
	}
	bin := filepath.Dir(path)
	theirs, ours := torchrun(t, filepath.Join(bin, "python3")), gorun(t)
	theirs.env = []string{"PATH=" + bin + ":/usr/bin:/bin"} // both find the same Python
	ours.env = theirs.env
	met := tally{table: append(allowed(), allowedLater()...)}
	var found lines
	t.Run("all", func(t *testing.T) {
		for _, c := range cases() {
			t.Run(c.name, func(t *testing.T) {
				if !c.alone {
					t.Parallel()
				}
				a, b := c.withCode(theirs.play(t, c)), ours.play(t, c)
				for _, d := range differences(a, b) {
					if a.hasWorkers() != b.hasWorkers() && strings.HasPrefix(d.key, "worker ") {
						continue // the exit code and the error say it
					}
					if !matches(c.loose, d.key) && !met.allows(c.name, d) {
						found.add(fmt.Sprintf("%s | %s | %s | %s", c.name, d.key, oneLine(d.torchrun), oneLine(d.gorun)))
					}
				}
				met.done(c.name)
			})
		}
	})
	slices.Sort(found.all)
	for _, line := range found.all {
		fmt.Println(line)
	}
	fmt.Printf("%d cases, %d differences\n", len(met.played), len(found.all))
}

// hasWorkers reports whether a worker was started.
func (o outcome) hasWorkers() bool {
	for key := range o {
		if strings.HasPrefix(key, "worker ") {
			return true
		}
	}
	return false
}

// lines collects lines of tests that run at the same time.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

// oneLine shortens a text for a table.
func oneLine(text string) string {
	text = strings.ReplaceAll(text, "\n", "⏎")
	if r := []rune(text); len(r) > 160 {
		return string(r[:160]) + "…"
	}
	return text
}
