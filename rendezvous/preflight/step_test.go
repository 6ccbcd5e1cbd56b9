package preflight

import (
	"reflect"
	"strings"
	"testing"
)

// Steps say where they are done: on the nodes that the finding marks, on those
// that they name, or on all.
func TestStepsSayWhere(t *testing.T) {
	r := Rule{Steps: []Step{
		inShell("", "export A=1", "unset B"),
		asRoot("raise it", "sysctl -w a=1").everywhere(),
		toGorun("give all ranks one value", "-x A=1").or(),
		toContainer("", "--shm-size=8g").or(),
		toLook("look", "ip link").on([]int{2}),
		byHand("ask").or(),
	}}
	for _, c := range []struct {
		values []Value
		want   string
		nodes  []int // of the first step
	}{
		{[]Value{{Nodes: []int{0, 2}}, {Nodes: []int{1}, Odd: true}}, "on node2", []int{1}},
		{[]Value{{Nodes: []int{1}}, {Nodes: []int{0}}}, "on node1, node2", []int{0, 1}},
		{[]Value{{Nodes: []int{0, 1, 2}, Odd: true}}, "on all nodes", nil},
	} {
		x := Finding{Values: c.values}
		r.advise(h100s(3), &x)
		want := c.want + ":\n  export A=1\n  unset B\n" +
			"raise it, on all nodes, as root:\n  sysctl -w a=1\n" +
			"or give all ranks one value:\n  gorun -x A=1 ...\n" +
			"or where the container is started, " + c.want + ":\n  docker run --shm-size=8g ...\n" +
			"look, on node3:\n  ip link\n" +
			"or ask"
		if x.Fix != want {
			t.Errorf("%v: %s\nwant %s", c.values, x.Fix, want)
		}
		if !reflect.DeepEqual(x.Steps[0].Nodes, c.nodes) || r.Steps[0].Nodes != nil {
			t.Errorf("%v: %v", c.values, x.Steps)
		}
	}
}

// What another node says of itself stays one word in a line, and no line of its
// own does more than start one program.
func TestLinesAreNoOtherNodesWord(t *testing.T) {
	addr := []string{"x;id", "y;id"} // such as no Decode lets through
	f := h100s(2)
	for i := range f.Nodes {
		f.Nodes[i].Listeners = []Listener{{Iface: "e;id", Addr: addr[i], Port: 40000 + i, Use: UseBootstrap}}
		f.Nodes[i].Network.Interfaces[1].Name = "e;id"
		f.Nodes[i].Network.Addresses = f.Nodes[i].Network.Addresses[3:] // nothing else can be proposed
	}
	for _, result := range []Result{TimedOut, NoRoute, Denied, NoAddress, Stalled, Stranger} {
		f.Probes = []Probe{{From: 0, To: 1, Use: UseBootstrap, Source: addr[0], Target: addr[1] + ":40001", Large: true, Result: result}}
		steps := 0
		for _, x := range Compare(f, Options{}) {
			for _, s := range x.Steps {
				for _, line := range s.Lines {
					steps++
					if bare := strings.NewReplacer("'x;id'", "", "'y;id'", "", "'e;id'", "").Replace(line); strings.Contains(bare, ";id") {
						t.Errorf("%s: %s", result, line)
					}
				}
			}
		}
		if steps == 0 {
			t.Errorf("%s: no line", result)
		}
	}
	l := Lost{Wrapper: "docker run", Missing: []string{"RANK"}, Fix: []string{"pass it on:", "  docker run -e RANK; reboot ..."}}
	for _, s := range l.steps() {
		if len(s.Lines) > 0 {
			t.Errorf("%q", s.Lines)
		}
	}
}
