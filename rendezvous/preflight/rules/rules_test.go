package rules

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
	"github.com/gorun/gorun/rendezvous/preflight/reach"
)

// ruleCase is a fleet and what one rule finds in it.
type ruleCase struct {
	name     string
	base     func(nodes int) *preflight.Fleet // nil: h100s
	nodes    int                              // 0: 4
	change   func(f *preflight.Fleet)
	severity preflight.Severity // of the gravest finding; "": no finding
	odd      []int              // nodes that are marked
	says     []string           // texts in the table
	omits    []string           // texts that must not be in it
}

func (c *ruleCase) fleet() *preflight.Fleet {
	base, nodes := c.base, c.nodes
	if base == nil {
		base = preflighttest.H100s
	}
	if nodes == 0 {
		nodes = 4
	}
	f := base(nodes)
	c.change(f)
	return f
}

func cases() map[string][]ruleCase {
	all := map[string][]ruleCase{}
	for _, part := range []map[string][]ruleCase{
		versionCases(), choiceCases(), linkCases(), jobCases(), transportCases(),
		environmentCases(), gpuCases(), deviceCases(), healthCases(), hostCases(), limitCases(), leftoverCases(),
	} {
		for id, list := range part {
			all[id] = append(all[id], list...)
		}
	}
	return all
}

func TestRules(t *testing.T) {
	all := cases()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		for _, c := range all[id] {
			t.Run(id+" "+c.name, func(t *testing.T) { c.run(t, id) })
		}
	}
}

func (c *ruleCase) run(t *testing.T, id string) {
	f := c.fleet()
	found := findingsOf(id, preflight.Compare(f, All(), preflight.Options{}))
	table := preflight.Render(found, f.Names(), preflight.Style{Notes: true})
	if c.severity == "" {
		if len(found) > 0 {
			t.Errorf("found, want nothing:\n%s", table)
		}
		return
	}
	if len(found) == 0 {
		t.Fatalf("found nothing, want %s", c.severity)
	}
	if found[0].Severity != c.severity {
		t.Errorf("severity %s, want %s", found[0].Severity, c.severity)
	}
	want := c.odd
	if want == nil {
		want = []int{}
	}
	if got := oddNodes(found...); !slices.Equal(got, want) {
		t.Errorf("odd nodes %v, want %v:\n%s", got, want, table)
	}
	flat := strings.Join(strings.Fields(table), " ")
	for _, s := range c.says {
		if !strings.Contains(flat, s) {
			t.Errorf("the table does not say %q:\n%s", s, table)
		}
	}
	for _, s := range c.omits {
		if strings.Contains(flat, s) {
			t.Errorf("the table says %q:\n%s", s, table)
		}
	}
	for _, x := range found {
		if x.Text == "" || x.Fix == "" || len(x.Values) == 0 && f.IfaceError == "" {
			t.Errorf("a finding without text, fix or values: %+v", x)
		}
	}
}

// TestEveryRuleFiresAndKeepsSilent checks that every rule has a case with a
// finding and a case without. The rules about probes have tests of their own.
func TestEveryRuleFiresAndKeepsSilent(t *testing.T) {
	all := cases()
	for _, r := range All() {
		if slices.ContainsFunc(reach.Rules(), func(x preflight.Rule) bool { return x.ID == r.ID }) {
			continue
		}
		fires, silent := false, false
		for _, c := range all[r.ID] {
			fires = fires || c.severity == r.Severity
			silent = silent || c.severity == ""
		}
		if !fires || !silent {
			t.Errorf("%s: fires with its own severity: %v, keeps silent: %v", r.ID, fires, silent)
		}
	}
}

func TestRulesAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	names := map[string]bool{}
	for _, r := range All() {
		if len(r.ID) != 3 || seen[r.ID] || names[r.Name] {
			t.Errorf("%s %s: an id has three characters, and id and name are unique", r.ID, r.Name)
		}
		seen[r.ID], names[r.Name] = true, true
		if r.Name == "" || r.Meaning == "" || r.Symptom == "" || r.Example() == "" || !slices.Contains([]preflight.Severity{preflight.Error, preflight.Warning, preflight.Note}, r.Severity) || r.Check == nil {
			t.Errorf("%s: incomplete", r.ID)
		}
		if strings.HasPrefix(r.Example(), "  ") || !strings.HasSuffix(r.Meaning, ".") || !strings.HasSuffix(r.Symptom, ".") {
			t.Errorf("%s: a fix begins with prose, and meaning and what users see end with a full stop", r.ID)
		}
	}
}

func TestIgnore(t *testing.T) {
	f := preflighttest.H100s(2)
	f.Nodes[1].Libraries.NCCL.Code, f.Nodes[1].Libraries.NCCL.Version = 21903, "2.19.3"
	if found := preflight.Compare(f, All(), preflight.Options{}); len(findingsOf("V01", found)) != 1 {
		t.Fatalf("V01 finds nothing: %+v", found)
	}
	for _, word := range []string{"V01", "v01", "nccl-version", "NCCL-version"} {
		if found := preflight.Compare(f, All(), preflight.Options{Ignore: []string{word}}); len(findingsOf("V01", found)) != 0 {
			t.Errorf("%s is ignored, and found all the same: %+v", word, found)
		}
	}
}

func TestFindingsComeInOrder(t *testing.T) {
	f := preflighttest.H100s(4)
	f.Nodes[2].Libraries.NCCL.Code, f.Nodes[2].Libraries.NCCL.Version = 21903, "2.19.3" // V01 error
	f.Nodes[3].Node.Workers = 4                                                         // R07 warning
	f.Nodes[1].Host.Kernel = "6.1.0"                                                    // H03 note
	f.Nodes[1].GPU.Error = "NVML: driver/library version mismatch"                      // D04 error
	var order []string
	for _, x := range preflight.Compare(f, All(), preflight.Options{}) {
		order = append(order, string(x.Severity)+" "+x.ID)
	}
	want := []string{"error D04", "error V01", "warning R07", "note H03"}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}
