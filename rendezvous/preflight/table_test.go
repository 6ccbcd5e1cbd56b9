package preflight

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
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
		t.Fatalf("%v (go test ./rendezvous/preflight -update writes it)", err)
	}
	if string(want) != got {
		t.Errorf("%s differs (go test ./rendezvous/preflight -update writes it anew); now:\n%s", path, got)
	}
}

// The stories of users whose jobs failed: what they would have read instead.
func TestStories(t *testing.T) {
	for _, s := range []struct {
		name   string
		nodes  int
		change func(f *Fleet)
	}{
		{"versions", 2, func(f *Fleet) {
			f.Nodes[0].nccl("2.14.3", 21403)
			f.Nodes[1].nccl("2.19.3", 21903)
			for i := range f.Nodes {
				f.Nodes[i].Libraries.Wheels[0].Version = f.Nodes[i].Libraries.NCCL.Version
			}
		}},
		{"backup", 2, func(f *Fleet) {
			f.Nodes[0].address("eth0", "10.37.8.72", 24)
			f.Nodes[1].address("eth0", "10.37.12.78", 24)
			f.Master = "10.37.8.72:29500"
		}},
		{"forced", 2, func(f *Fleet) {
			f.all(func(n *Facts) {
				n.set("NCCL_NET", "IB")
				n.set("NCCL_SOCKET_FAMILY", "AF_INET6")
				n.set("NCCL_SOCKET_IFNAME", "=eth0")
				n.Network.Addresses = n.Network.Addresses[:3]
				noVerbs(n)
			})
		}},
		{"ras", 2, func(f *Fleet) {
			f.all(func(n *Facts) { n.nccl("2.26.5", 22605); n.set("NCCL_RAS_ENABLE", "1") })
		}},
		{"thousand", 1000, func(f *Fleet) {
			f.Nodes[17].nccl("2.19.3", 21903)
			f.Nodes[403].nccl("2.19.3", 21903)
			for i := 100; i < 140; i++ {
				f.Nodes[i].set("NCCL_PROTO", "LL")
			}
			f.leaves("NCCL_PROTO")
			f.Differences[0].Left, f.Differences[0].Error = false, false
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			f := h100s(s.nodes)
			s.change(f)
			golden(t, filepath.Join("testdata", s.name+".txt"), Render(Compare(f, Options{}), f.Names(), Style{}))
		})
	}
}

func TestManyNodesAreCounted(t *testing.T) {
	f := h100s(1000)
	f.Nodes[16].nccl("2.19.3", 21903)
	f.Nodes[402].nccl("2.19.3", 21903)
	table := Render(Compare(f, Options{}), f.Names(), Style{})
	for _, want := range []string{"998 nodes", "> node17, node403 (ranks 128-135,", "2.19.3"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	if len(table) > 3000 {
		t.Errorf("%d bytes for one finding of 1000 nodes", len(table))
	}
}

func TestNameList(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	for _, c := range []struct {
		nodes []int
		all   int
		odd   bool
		want  string
	}{
		{[]int{3}, 100, true, "n3"},
		{indices(8), 100, false, "n0, n1, n2, n3, n4, n5, n6, n7"},
		{indices(9), 100, false, "9 nodes"},
		{indices(9), 100, true, "n0, n1, n2, n3, n4, n5, n6 and 2 more"},
		{indices(100), 100, true, "all 100 nodes"},
		{indices(1), 1, true, "n0"},
		{[]int{-1, 4711}, 100, true, "node -1, node 4711"},
	} {
		if got := nameList(c.nodes, names, c.all, c.odd); got != c.want {
			t.Errorf("%v: %q, want %q", c.nodes, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	f := cpus(4)
	f.Nodes[2].Node.Host = f.Nodes[1].Node.Host
	f.Nodes[3] = Facts{}
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

// What nodes say must neither break lines in two nor move a cursor.
func TestTableIsPlain(t *testing.T) {
	f := h100s(3)
	f.Nodes[1].Node.Host = "evil\x1b[2J\nnode"
	f.Nodes[1].nccl("2.19.3\x1b[31m", 0)
	f.Nodes[1].Libraries.NCCL.Path = "/" + strings.Repeat("x\x07", 3000)
	f.Nodes[2].set("NCCL_ALGO", "\u202eRing\r\n")
	found := Compare(f, Options{})
	for _, s := range []Style{{}, {Width: 40}, {Notes: true}} {
		table := Render(found, f.Names(), s)
		for line := range strings.Lines(table) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("not plain: %q", line)
			}
		}
	}
	if table := Render(found, f.Names(), Style{Colour: true}); !strings.Contains(table, "\x1b[1;31merror\x1b[0m V01") {
		t.Errorf("no colour:\n%s", table)
	}
}

func TestTableKeepsItsWidth(t *testing.T) {
	for id, list := range cases() {
		for _, c := range list {
			f := c.fleet()
			for line := range strings.Lines(Render(of(id, Compare(f, Options{})), f.Names(), Style{Notes: true})) {
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
	f := h100s(3)
	f.Nodes[1].Host.Kernel = "6.1.0"
	found := Compare(f, Options{})
	if got := Render(found, f.Names(), Style{}); got != "" {
		t.Errorf("a note is shown:\n%s", got)
	}
	if got := Render(found, f.Names(), Style{Notes: true}); !strings.Contains(got, "note H03") || strings.Contains(got, "--ignore") {
		t.Errorf("a note is not shown, or as if it mattered:\n%s", got)
	}
}

// gorun check starts nothing, so it offers no way to start all the same.
func TestEndOfTable(t *testing.T) {
	f := h100s(2)
	f.Nodes[1].nccl("2.19.3", 21903)
	found := Compare(f, Options{})
	if got := Render(found, f.Names(), Style{}); !strings.Contains(got, "--preflight=warn starts") || !strings.Contains(got, "--ignore V01 ") {
		t.Errorf("a job is not told how to go on:\n%s", got)
	}
	if got := Render(found, f.Names(), Style{Check: true}); strings.Contains(got, "--preflight") || !strings.Contains(got, "--ignore V01 leaves these checks out.") {
		t.Errorf("of gorun check:\n%s", got)
	}
}

func TestFindingsAreTheSameEverywhere(t *testing.T) {
	f := h100s(4)
	all := cases()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if c := all[id][0]; c.base == nil && c.nodes == 0 {
			c.change(f)
		}
	}
	first := Render(Compare(f, Options{}), f.Names(), Style{Notes: true})
	if !strings.Contains(first, "error") {
		t.Fatalf("nothing is wrong with the fleet:\n%s", first)
	}
	for range 20 {
		if again := Render(Compare(f, Options{}), f.Names(), Style{Notes: true}); again != first {
			t.Fatalf("another table for the same fleet:\n%s\n%s", first, again)
		}
	}
}

func TestCatalogueIsWritten(t *testing.T) {
	golden(t, "../../docs/checks.md", Catalogue())
}
