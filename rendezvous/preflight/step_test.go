package preflight

import (
	"reflect"
	"testing"
)

// TestStepsSayWhere checks where steps are done: on the nodes that the finding
// marks, on the nodes that the steps name, or on all nodes.
func TestStepsSayWhere(t *testing.T) {
	r := Rule{Steps: []Step{
		InShell.Step("", "export A=1", "unset B"),
		AsRoot.Step("raise it", "sysctl -w a=1").Everywhere(),
		ToGorun.Step("give all ranks one value", "-x A=1").Alternative(),
		ToContainer.Step("", "--shm-size=8g").Alternative(),
		ToShow.Step("show it", "ip link").On([]int{2}),
		ByHand.Step("ask").Alternative(),
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
		f := &Fleet{}
		for _, name := range []string{"node1", "node2", "node3"} {
			f.Nodes = append(f.Nodes, Facts{Format: Format, Node: Node{Host: name}})
		}
		r.addSteps(f, &x)
		want := c.want + ":\n  export A=1\n  unset B\n" +
			"raise it, on all nodes, as root:\n  sysctl -w a=1\n" +
			"or give all ranks one value:\n  gorun -x A=1 ...\n" +
			"or where the container is started, " + c.want + ":\n  docker run --shm-size=8g ...\n" +
			"show it, on node3:\n  ip link\n" +
			"or ask"
		if x.Fix != want {
			t.Errorf("%v: %s\nwant %s", c.values, x.Fix, want)
		}
		if !reflect.DeepEqual(x.Steps[0].Nodes, c.nodes) || r.Steps[0].Nodes != nil {
			t.Errorf("%v: %v", c.values, x.Steps)
		}
	}
}
