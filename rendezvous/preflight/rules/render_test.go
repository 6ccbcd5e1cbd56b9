package rules

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

var update = flag.Bool("update", false, "write docs/checks.md and the golden files anew")

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./rendezvous/preflight/rules -update writes it)", err)
	}
	if string(want) != got {
		t.Errorf("%s differs (go test ./rendezvous/preflight/rules -update writes it anew); now:\n%s", path, got)
	}
}

// TestStories shows the tables that users would have read instead of the
// failures that they reported.
func TestStories(t *testing.T) {
	for _, s := range []struct {
		name   string
		nodes  int
		change func(f *preflight.Fleet)
	}{
		{"versions", 2, func(f *preflight.Fleet) {
			nccl(&f.Nodes[0], "2.14.3", 21403)
			nccl(&f.Nodes[1], "2.19.3", 21903)
			for i := range f.Nodes {
				f.Nodes[i].Libraries.Wheels[0].Version = f.Nodes[i].Libraries.NCCL.Version
			}
		}},
		{"backup", 2, func(f *preflight.Fleet) {
			address(&f.Nodes[0], "eth0", "10.37.8.72", 24)
			address(&f.Nodes[1], "eth0", "10.37.12.78", 24)
			f.Master = "10.37.8.72:29500"
		}},
		{"forced", 2, func(f *preflight.Fleet) {
			everyNode(f, func(n *preflight.Facts) {
				preflighttest.Set(n, "NCCL_NET", "IB")
				preflighttest.Set(n, "NCCL_SOCKET_FAMILY", "AF_INET6")
				preflighttest.Set(n, "NCCL_SOCKET_IFNAME", "=eth0")
				n.Network.Addresses = n.Network.Addresses[:3]
				noVerbs(n)
			})
		}},
		{"ras", 2, func(f *preflight.Fleet) {
			everyNode(f, func(n *preflight.Facts) { nccl(n, "2.26.5", 22605); preflighttest.Set(n, "NCCL_RAS_ENABLE", "1") })
		}},
		{"thousand", 1000, func(f *preflight.Fleet) {
			nccl(&f.Nodes[17], "2.19.3", 21903)
			nccl(&f.Nodes[403], "2.19.3", 21903)
			for i := 100; i < 140; i++ {
				preflighttest.Set(&f.Nodes[i], "NCCL_PROTO", "LL")
			}
			addDifference(f, "NCCL_PROTO")
			f.Differences[0].Remains, f.Differences[0].Error = false, false
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			f := preflighttest.H100s(s.nodes)
			s.change(f)
			golden(t, filepath.Join("testdata", s.name+".txt"), preflight.Render(preflight.Compare(f, All(), preflight.Options{}), f.Names(), preflight.Style{}))
		})
	}
}

func TestManyNodesAreCounted(t *testing.T) {
	f := preflighttest.H100s(1000)
	nccl(&f.Nodes[16], "2.19.3", 21903)
	nccl(&f.Nodes[402], "2.19.3", 21903)
	table := preflight.Render(preflight.Compare(f, All(), preflight.Options{}), f.Names(), preflight.Style{})
	for _, want := range []string{"998 nodes", "> node17, node403 (ranks 128-135,", "2.19.3"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	if len(table) > 3000 {
		t.Errorf("%d bytes for one finding of 1000 nodes", len(table))
	}
}

func TestNames(t *testing.T) {
	f := preflighttest.CPUs(4)
	f.Nodes[2].Node.Host = f.Nodes[1].Node.Host
	f.Nodes[3] = preflight.Facts{}
	got := f.Names()
	want := []string{"node1", "node2 (10.0.0.2)", "node3 (10.0.0.3)", "node 3"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range f.Nodes[:3] {
		f.Nodes[i].Node.Name, f.Nodes[i].Node.Host = "a", "a"
	}
	if got := f.Names()[1]; got != "node 1 on a" {
		t.Errorf("%q for nodes of one name", got)
	}
}

// TestTableIsPlain checks that no text from a node breaks a line in two or
// moves a cursor.
func TestTableIsPlain(t *testing.T) {
	f := preflighttest.H100s(3)
	f.Nodes[1].Node.Host = "evil\x1b[2J\nnode"
	nccl(&f.Nodes[1], "2.19.3\x1b[31m", 0)
	f.Nodes[1].Libraries.NCCL.Path = "/" + strings.Repeat("x\x07", 3000)
	preflighttest.Set(&f.Nodes[2], "NCCL_ALGO", "\u202eRing\r\n")
	found := preflight.Compare(f, All(), preflight.Options{})
	for _, s := range []preflight.Style{{}, {Width: 40}, {Notes: true}} {
		table := preflight.Render(found, f.Names(), s)
		for line := range strings.Lines(table) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("not plain: %q", line)
			}
		}
	}
	if table := preflight.Render(found, f.Names(), preflight.Style{Colour: true}); !strings.Contains(table, "\x1b[1;31merror\x1b[0m V01") {
		t.Errorf("no colour:\n%s", table)
	}
}

func TestTableKeepsItsWidth(t *testing.T) {
	for id, list := range cases() {
		for _, c := range list {
			f := c.fleet()
			for line := range strings.Lines(preflight.Render(findingsOf(id, preflight.Compare(f, All(), preflight.Options{})), f.Names(), preflight.Style{Notes: true})) {
				line = strings.TrimRight(line, "\n")
				command := strings.HasPrefix(line, "         ") // may be pasted
				if n := utf8.RuneCountInString(line); n > 100 && !command && strings.Contains(strings.TrimSpace(line[40:]), " ") {
					t.Errorf("%s %s: %d columns: %s", id, c.name, n, line)
				}
			}
		}
	}
}

func TestNotesAreShownOnRequest(t *testing.T) {
	f := preflighttest.H100s(3)
	f.Nodes[1].Host.Kernel = "6.1.0"
	found := preflight.Compare(f, All(), preflight.Options{})
	if got := preflight.Render(found, f.Names(), preflight.Style{}); got != "" {
		t.Errorf("a note is shown:\n%s", got)
	}
	if got := preflight.Render(found, f.Names(), preflight.Style{Notes: true}); !strings.Contains(got, "note H03") || strings.Contains(got, "--ignore") {
		t.Errorf("a note is not shown, or as if it mattered:\n%s", got)
	}
}

// TestEndOfTable checks that gorun check, which starts no workers, does not
// offer a way to start them.
func TestEndOfTable(t *testing.T) {
	f := preflighttest.H100s(2)
	nccl(&f.Nodes[1], "2.19.3", 21903)
	found := preflight.Compare(f, All(), preflight.Options{})
	if got := preflight.Render(found, f.Names(), preflight.Style{}); !strings.Contains(got, "--preflight=warn starts") || !strings.Contains(got, "--ignore V01 ") {
		t.Errorf("the table does not say how to start the job:\n%s", got)
	}
	if got := preflight.Render(found, f.Names(), preflight.Style{Check: true}); strings.Contains(got, "--preflight") || !strings.Contains(got, "--ignore V01 leaves these checks out.") {
		t.Errorf("of gorun check:\n%s", got)
	}
}

func TestFindingsAreTheSameEverywhere(t *testing.T) {
	f := preflighttest.H100s(4)
	all := cases()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if c := all[id][0]; c.base == nil && c.nodes == 0 {
			c.change(f)
		}
	}
	first := preflight.Render(preflight.Compare(f, All(), preflight.Options{}), f.Names(), preflight.Style{Notes: true})
	if !strings.Contains(first, "error") {
		t.Fatalf("nothing is wrong with the fleet:\n%s", first)
	}
	for range 20 {
		if again := preflight.Render(preflight.Compare(f, All(), preflight.Options{}), f.Names(), preflight.Style{Notes: true}); again != first {
			t.Fatalf("another table for the same fleet:\n%s\n%s", first, again)
		}
	}
}

func TestCatalogueIsWritten(t *testing.T) {
	golden(t, "../../../docs/checks.md", Catalogue())
}
