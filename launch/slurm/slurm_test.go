package slurm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/process"
)

const config = `Configuration data as of 2026-11-22T20:46:57
JobRequeue              = 1
KillOnBadExit           = 0
KillWait                = 5 sec
LaunchParameters        = (null)
`

func TestParseKillWait(t *testing.T) {
	for text, want := range map[string]time.Duration{
		config:                          5 * time.Second,
		"KillWait=30 sec\n":             30 * time.Second,
		"":                              -1,
		"KillWait = 5 min":              -1,
		"KillWait = -5 sec":             -1,
		"KillWait = 999999999 sec":      -1,
		"KillWait = 65534 sec":          -1,
		"UnkillableStepTimeout = 5 sec": -1,
	} {
		got, err := parseKillWait([]byte(text))
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func FuzzParseKillWait(f *testing.F) {
	f.Add([]byte(config))
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := parseKillWait(text); err == nil && (d < 0 || d > maxKillWait) {
			t.Errorf("%v", d)
		}
	})
}

func TestGraceLeavesTimeForTheReport(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{
		0: 0, 3 * time.Second: 2 * time.Second, 30 * time.Second: 27 * time.Second, 300 * time.Second: 297 * time.Second,
	} {
		if got := Grace(wait); got != want {
			t.Errorf("%v: %v, want %v", wait, got, want)
		}
	}
}

func TestAskKillWait(t *testing.T) {
	table, err := process.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for script, want := range map[string]time.Duration{
		"echo 'KillWait = 7 sec'":         7 * time.Second,
		"echo 'KillWait = 7 sec'; exit 1": 0,
		"echo error":                      0,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\n[ \"$*\" = 'show config' ] || exit 9\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		got, err := AskKillWait(t.Context(), table, nil)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %v, %v; want %v", script, got, err, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if got, err := AskKillWait(t.Context(), table, nil); err == nil {
		t.Errorf("no scontrol: %v", got)
	}
}
