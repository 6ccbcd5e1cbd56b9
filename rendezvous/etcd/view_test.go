package etcd

import (
	"testing"

	"github.com/gorun/gorun/rendezvous"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// TestViewIsCompleteIfNotOlderThanTheWorld checks when a node that the view lacks is
// certainly no member.
func TestViewIsCompleteIfNotOlderThanTheWorld(t *testing.T) {
	e, err := New(Config{ID: "a", Name: "a", RunID: "run", Control: "127.0.0.1:1", Endpoints: []string{"127.0.0.1:2"}})
	if err != nil {
		t.Fatal(err)
	}
	node := func(id rendezvous.NodeID) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(e.keys.node(id)), Value: []byte(encode(agent{ID: id, Name: "n", Control: "127.0.0.1:1"})), CreateRevision: 1}
	}
	is := func(want bool, when string) {
		t.Helper()
		if got := e.complete(); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	is(false, "nothing was read")
	e.applyNodeKeys([]*mvccpb.KeyValue{node("a")}, 5)
	is(true, "no world")
	e.sealed = sealed{9, []rendezvous.NodeID{"a", "b"}}
	is(false, "b, a member at 9, was not seen at 5")
	e.confirmNodeKeys(8)
	is(false, "nor at 8")
	e.applyChange(node("b"))
	is(true, "b came")
	deleted := node("b")
	deleted.CreateRevision = 0
	e.applyChange(deleted)
	is(true, "b came and went")
	e.sealed.members = append(e.sealed.members, "c")
	is(false, "c was not seen")
	e.confirmNodeKeys(9)
	is(true, "c was not in etcd at 9")
}
