package check

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// saveFacts writes the facts of nodes as gorun check --save does.
func saveFacts(t *testing.T, name string, nodes ...preflight.Facts) string {
	t.Helper()
	var text []byte
	for _, n := range nodes {
		body, err := preflight.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, body...), '\n')
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func runOffline(files ...string) (out string, code int, err error) {
	var b bytes.Buffer
	s := strictPolicy()
	s.Check = &spec.Check{}
	code, err = Offline(*s, files, &b)
	return b.String(), code, err
}

// TestOfflineRefusesANodeGivenTwice checks that a node given twice is an error, because
// it would agree with itself.
func TestOfflineRefusesANodeGivenTwice(t *testing.T) {
	a, b := gpuNode(0, "2.27.5", 22705), gpuNode(1, "2.27.5", 22705)
	again := b
	again.Node.ID = "another agent"
	later := a
	later.Host.NS.Net, later.Node.Addr = "net:[7]", "192.168.0.77" // a container
	later.Node.ID = "a container"
	next := later // a container that started when the other had ended, and has its numbers
	next.Node.ID, next.Node.Host = "the next container", "next"
	one, two := saveFacts(t, "n1.json", a), saveFacts(t, "n2.json", b)
	for _, c := range []struct {
		name  string
		files []string
		want  string // part of the error
	}{
		{"each once", []string{one, two, saveFacts(t, "n3.json", later)}, ""},
		{"one after the other", []string{one, saveFacts(t, "n3.json", later), saveFacts(t, "n4.json", next)}, ""},
		{"one file twice", []string{one, two, two}, two + " is given twice: both are facts of node1"},
		{"a copy", []string{one, two, saveFacts(t, "copy.json", b)}, "copy.json are both facts of node1"},
		{"saved twice", []string{one, two, saveFacts(t, "again.json", again)}, "again.json are both facts of node1"},
		{"twice in one file", []string{saveFacts(t, "all.json", a, b, b)}, "all.json is given twice: both are facts of node1"},
	} {
		_, code, err := runOffline(c.files...)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || code != rendezvous.ExitUsage):
			t.Errorf("%s: code %d, %v; want %q", c.name, code, err, c.want)
		}
	}
}

// TestFindingsNameTheirNodes checks that the JSON findings have the names of the
// nodes.
func TestFindingsNameTheirNodes(t *testing.T) {
	s := strictPolicy()
	s.Check = &spec.Check{JSON: true}
	var b bytes.Buffer
	a, c := saveFacts(t, "n1.json", gpuNode(0, "2.27.5", 22705)), saveFacts(t, "n2.json", gpuNode(1, "2.19.3", 21903))
	if _, err := Offline(*s, []string{a, c}, &b); err != nil {
		t.Fatal(err)
	}
	var found []preflight.Finding
	if err := json.Unmarshal(b.Bytes(), &found); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(x preflight.Finding) bool { return x.ID == "V01" })
	if i < 0 || len(found[i].Values) != 2 || !slices.Equal(found[i].Values[1].Names, []string{"node1"}) {
		t.Errorf("no names in %s", &b)
	}
}

var update = flag.Bool("update", false, "write the golden file anew")

// TestCheckJSON checks that the JSON of gorun check stays the same: its names are
// stable.
func TestCheckJSON(t *testing.T) {
	found := []preflight.Finding{{
		ID: "V01", Severity: preflight.Error, Title: "nccl-version", Text: "the nodes have two versions",
		Values: []preflight.Value{{Value: "2.27.5", Nodes: []int{0}, Ranks: []preflight.Range{{First: 0, Last: 7}}}, {Value: "2.19.3", Nodes: []int{1}, Odd: true}},
		Fix:    "install one", Steps: []preflight.Step{{Place: preflight.ByHand, Text: "install one"}},
	}, {ID: "I02", Severity: preflight.Warning, Title: "reach", Text: "slow", Fix: "look"}}
	var got bytes.Buffer
	if err := Print(&got, &rendezvous.CheckResult{Nodes: 2, Names: []string{"node0", "node1"}, Findings: marshal(found)}, true); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/check.json"
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%v\n--- got\n%s--- want\n%s", err, &got, want)
	}
}
