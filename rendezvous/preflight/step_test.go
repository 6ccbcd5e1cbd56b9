package preflight

import (
	"reflect"
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
