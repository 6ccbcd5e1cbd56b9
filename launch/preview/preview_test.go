package preview

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
)

func node(i int, env ...[]Variable) Node {
	n := Node{Node: i, Host: "host", Addr: "10.0.0.1"}
	for k, e := range env {
		n.Ranks = append(n.Ranks, Rank{Rank: 2*i + k, LocalRank: k, Env: e})
	}
	return n
}

func fromNode(name, value string) Variable {
	return Variable{Name: name, Value: value, Kind: envprop.FromEnvironment}
}

func fromGorun(name, value string) Variable {
	return Variable{Name: name, Value: value, Kind: envprop.FromGorun, Rule: "why"}
}

func TestSelect(t *testing.T) {
	all := []Node{node(0, nil, nil), node(1, nil, nil)}
	got := Select(all, func(_, rank int) bool { return rank == 3 })
	if len(got) != 1 || got[0].Node != 1 || len(got[0].Ranks) != 1 || got[0].Ranks[0].Rank != 3 {
		t.Errorf("rank 3: %+v", got)
	}
	if got := Select(all, func(node, _ int) bool { return node == 7 }); got != nil {
		t.Errorf("node 7: %+v", got)
	}
}

// TestDiff checks that a value that every rank has from its own node is no
// difference, and that a value that only some ranks have is one, wherever it comes
// from.
func TestDiff(t *testing.T) {
	all := []Node{
		node(0, []Variable{fromNode("PATH", "/bin"), fromNode("IF", "eth0"), fromGorun("RANK", "0")}, []Variable{fromNode("PATH", "/bin"), fromNode("IF", "eth0"), fromGorun("RANK", "1")}),
		node(1, []Variable{fromNode("PATH", "/bin"), fromNode("IF", "eth1"), fromGorun("RANK", "2"), fromNode("ONE", "1")}),
	}
	var names []string
	for _, n := range Diff(all) {
		for _, r := range n.Ranks {
			for _, v := range r.Env {
				names = append(names, v.Name+"="+v.Value)
			}
		}
	}
	if want := []string{"IF=eth0", "RANK=0", "IF=eth0", "RANK=1", "IF=eth1", "RANK=2", "ONE=1"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if len(all[0].Ranks[0].Env) != 3 {
		t.Error("what was given has changed")
	}
}

// TestDiffOfCredentials checks that different credentials are a difference,
// although none is shown, and that they cannot be distinguished without the key.
func TestDiffOfCredentials(t *testing.T) {
	token := func(value, key string) []Variable {
		return Variables([]envprop.Setting{{Name: "HF_TOKEN", Value: envprop.NewValue("HF_TOKEN", value), Source: envprop.Source{Kind: envprop.FromEnvironment}}}, key)
	}
	left := func(a, b []Variable) int {
		all := Diff([]Node{node(0, a), node(1, b)})
		return len(all[0].Ranks[0].Env) + len(all[1].Ranks[0].Env)
	}
	if n := left(token("hushA", "k"), token("hushB", "k")); n != 2 {
		t.Errorf("%d of 2 values that differ are listed", n)
	}
	if n := left(token("hushA", "k"), token("hushA", "k")); n != 0 {
		t.Errorf("a value that is the same everywhere is listed %d times", n)
	}
	if v := token("hushA", "k")[0]; v.Mark == "" || v.Mark == token("hushA", "other")[0].Mark || v.Value != "(hidden)" {
		t.Errorf("%+v", v)
	}
	if v := Variables([]envprop.Setting{{Name: "A", Value: envprop.NewValue("A", "1")}}, "k")[0]; v.Mark != "" {
		t.Errorf("a mark of what is not hidden: %+v", v)
	}
}

// TestTextIsPrintable checks that text of one node cannot control another node's
// terminal, and that it contains no credentials.
func TestTextIsPrintable(t *testing.T) {
	v := Variables([]envprop.Setting{
		{Name: "ODD", Value: envprop.NewValue("ODD", "a\x1b[2Jb\n"), Source: envprop.Source{Kind: envprop.FromFlag, At: "-x ODD", Node: "n\x1b"}},
		{Name: "HF_TOKEN", Value: envprop.NewValue("HF_TOKEN", "hunter2"), Source: envprop.Source{Kind: envprop.FromEnvironment}},
	}, "key")
	n := node(0, v)
	n.Host, n.Removed = "h\x1b]0;x", Removals([]envprop.Removal{{Name: "EXTRA\x1b", Source: envprop.Source{Kind: envprop.FromUnset, At: "--unset EXTRA"}}})
	n.Ranks[0].Command = []string{"/bin/sh", "-c", "echo 'a b'\x1b"}
	var b bytes.Buffer
	if err := WriteText(&b, []Node{n}); err != nil {
		t.Fatal(err)
	}
	if err := WritePlan(&b, n); err != nil {
		t.Fatal(err)
	}
	w := rendezvous.World{RunID: "r\x1b", Members: []rendezvous.Member{{Host: "a\x1b", Workers: 1, Role: "x\x1b"}}}
	if err := WriteWorld(&b, &w); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.ContainsRune(text, 0x1b) || strings.Contains(text, "hunter2") || !strings.Contains(text, "HF_TOKEN=(hidden)") || !strings.Contains(text, "EXTRA") {
		t.Errorf("%q", text)
	}
	b.Reset()
	if err := WriteJSON(&b, []Node{n, {Node: 1}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || strings.Contains(b.String(), "hunter2") {
		t.Fatalf("%s", b.String())
	}
	var back Node
	if err := json.Unmarshal([]byte(lines[0]), &back); err != nil || back.Ranks[0].Env[0].Value != "a\x1b[2Jb\n" {
		t.Errorf("%v: %+v", err, back)
	}
}

// TestPreviewStartsNoWrapper checks that a preview starts nothing, and says what it did
// not try.
func TestPreviewStartsNoWrapper(t *testing.T) {
	n := node(0, []Variable{fromNode("A", "1")})
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return WriteText(b, []Node{n}) },
		func(b *bytes.Buffer) error { return WritePlan(b, n) },
	} {
		for _, wrapper := range []string{"", "sudo docker run"} {
			n.Wrapper = wrapper
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(b.String(), "not checked: which of these variables reach the program behind sudo docker run (E03)"); said != (wrapper != "") {
				t.Errorf("%s", b.String())
			}
		}
	}
}

// TestTextShowsSharedVariablesOnce checks that the text shows once what all ranks of a node share,
// and what each rank has for itself.
func TestTextShowsSharedVariablesOnce(t *testing.T) {
	var b bytes.Buffer
	if err := WriteText(&b, []Node{node(0, []Variable{fromNode("A", "1"), fromGorun("RANK", "0")}, []Variable{fromNode("A", "1"), fromGorun("RANK", "1")})}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if strings.Count(text, "A=1") != 1 || !strings.Contains(text, "all 2 ranks:") || !strings.Contains(text, "  rank 1:\n    RANK=1") || !strings.Contains(text, "gorun: why") {
		t.Errorf("%s", text)
	}
}

// TestSurroundings checks that a preview names each flag that comes from the
// surroundings, with its source, and the source of the secret.
func TestSurroundings(t *testing.T) {
	n := node(0, []Variable{fromNode("A", "1")})
	n.Surroundings, n.Flags = "Slurm step 12.0", []spec.Used{{Flag: "nnodes", Text: "2", From: "SLURM_STEP_NUM_NODES"}}
	n.Secret = "a munge credential"
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return WriteText(b, []Node{n}) },
		func(b *bytes.Buffer) error { return WritePlan(b, n) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		var words []string
		for line := range strings.Lines(b.String()) {
			words = append(words, strings.Join(strings.Fields(line), " "))
		}
		for _, want := range []string{"flags from Slurm step 12.0:", "--nnodes=2 SLURM_STEP_NUM_NODES", "secret from a munge credential"} {
			if !slices.Contains(words, want) {
				t.Errorf("no line %q in\n%s", want, &b)
			}
		}
	}
}
