package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestVariablesInDocs checks that docs/docker.md lists the variable of every flag.
func TestVariablesInDocs(t *testing.T) {
	const path = "../../docs/docker.md"
	var b strings.Builder
	b.WriteString("| flags | variables |\n| --- | --- |\n")
	for _, group := range jobFlags() {
		fmt.Fprintf(&b, "| %s | %s |\n", group.title, strings.Join(slices.Collect(groupVariables(group)), ", "))
	}
	b.WriteString("| the job's secret itself | GORUN_SECRET |\n")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(page), "| flags | variables |\n")
	if text += b.String(); *update {
		err = os.WriteFile(path, []byte(text), 0o644)
	} else if text != string(page) {
		t.Errorf("%s lists other variables (go generate ./cmd/gorun writes it); want:\n%s", path, b.String())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMisspeltVariables checks which variables get a line, and with which name.
func TestMisspeltVariables(t *testing.T) {
	for entry, want := range map[string]string{
		"GORUN_NODES=3": "GORUN_NNODES", "GORUN_NNODE=3": "GORUN_NNODES", "GORUN_NPROC=2": "GORUN_NPROC_PER_NODE",
		"GORUN_RDZV_ENDPOIN=a": "GORUN_RDZV_ENDPOINT", "GORUN_SECRETFILE=x": "GORUN_SECRET_FILE", "GORUN_SECRE=x": "GORUN_SECRET",
		"GORUN_NNODES=3": "", "GORUN_SECRET=x": "", "GORUN_JSON=1": "", "GORUN_IMAGE=x": "", "GORUN_ETCD=x": "", "GORUN_HOME=/": "", "NNODES=3": "",
	} {
		lines := misspeltVariables([]string{"PATH=/bin", entry})
		name, _, _ := strings.Cut(entry, "=")
		if want == "" && len(lines) > 0 || want != "" && !slices.Equal(lines, []string{name + " is not a variable of gorun: did you mean " + want + "?"}) {
			t.Errorf("%s: %q, want %q", entry, lines, want)
		}
	}
	if lines := misspeltVariables([]string{"GORUN_NODES=3", "GORUN_RUN_ID=outer"}); lines != nil {
		t.Errorf("a worker that starts gorun: %q", lines)
	}
}
