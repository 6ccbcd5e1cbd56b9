package rendezvous

import (
	"slices"
	"testing"
)

// TestClientsOfTheStore checks that the node whose store a world has learns where its
// workers connect from, before it accepts; the others do not.
func TestClientsOfTheStore(t *testing.T) {
	m := coordinating(t, 1, 2)
	m.self.Addr, m.self.Networks = "192.0.2.1", []string{"192.0.2.1", "172.17.0.0/16"}
	m.coord.seats.here[0].node = m.self
	node := seatNode(1, 1, 2)
	node.Addr, node.Networks, node.SourceIP = "192.0.2.2", []string{"192.0.2.2", "192.0.2.3"}, "198.51.100.1"
	cmds := m.Step(m.now, Received{1, Message{Type: MsgHello, Node: &node}})
	var admitted []string
	for _, c := range cmds {
		if a, ok := c.(Admit); ok {
			admitted = a.Clients
		}
	}
	if want := []string{"172.17.0.0/16", "192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1"}; !slices.Equal(admitted, want) {
		t.Errorf("%q, want %q", admitted, want)
	}
	if proposals := sent(cmds, MsgPropose); len(proposals) != 1 || proposals[0].Clients != nil {
		t.Errorf("%+v", proposals)
	}
	node.Networks = make([]string, MaxNetworks+1)
	if node.Validate() == nil {
		t.Error("a node has addresses without end")
	}
}
