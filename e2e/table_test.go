package e2e_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tables matches a table in an agent's output.
var tables = regexp.MustCompile(`(?ms)^gorun: (preflight: \d+ (?:error|warning|note).*?^--[^\n]*out\.\n)`)

// table returns the agent's table of findings, "" for none.
func (a *agent) table() string {
	a.j.Helper()
	all := tables.FindAllStringSubmatch(a.err.String(), -1)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0][1]
	}
	a.j.Errorf("%s: %d tables:\n%s", a.name, len(all), a.err)
	return all[0][1]
}

// refused asserts that every agent ended with 78 and the same table, without a
// worker. It returns the table.
func (j *job) refused(agents ...*agent) string {
	j.Helper()
	j.wantExit(longWait, 78, agents...)
	table := agents[0].table()
	if table == "" {
		j.Errorf("%s: no table", agents[0].name)
	}
	for _, a := range agents {
		if got := a.table(); got != table {
			j.Errorf("%s shows:\n%s\n%s shows:\n%s", agents[0].name, table, a.name, got)
		}
		if out := a.out.String(); out != "" {
			j.Errorf("%s: a worker was started: %s", a.name, out)
		}
	}
	j.wantNoProcess()
	return table
}

// golden compares a table with testdata/preflight/name.
func golden(t testing.TB, name, table string) {
	t.Helper()
	for _, r := range []struct{ pattern, to string }{
		{`(\d\.\d+\.\d+\.\d+:)\d{4,5}\b`, "${1}PORT"},
		{`/python3\.\d+/`, "/python3.X/"},
	} {
		table = regexp.MustCompile(r.pattern).ReplaceAllString(table, r.to)
	}
	path := filepath.Join("testdata", "preflight", name)
	if *update {
		if err := os.WriteFile(path, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if table != string(want) {
		t.Errorf("the table is not that of %s (go test ./e2e -run NAME -update writes it anew):\n%s", path, table)
	}
}

var findingHead = regexp.MustCompile(`(?m)^(error|warning|note) ([A-Z]\d\d) `)

// findingsIn lists a table's findings: "error V01", ...
func findingsIn(table string) []string {
	var out []string
	for _, m := range findingHead.FindAllStringSubmatch(table, -1) {
		if s := m[1] + " " + m[2]; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// wantFindings asserts which findings a table has, no less and no more.
func wantFindings(t testing.TB, table string, want ...string) {
	t.Helper()
	got := findingsIn(table)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q:\n%s", got, want, table)
	}
}

// wantParts asserts that a text has all the parts.
func wantParts(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in:\n%s", p, text)
		}
	}
}
