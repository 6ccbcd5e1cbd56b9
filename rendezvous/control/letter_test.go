package control

import (
	"reflect"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

// A world arrives as it left, whatever its names are. A roster that belongs to no
// world, or to a world that has members, is refused.
func TestLetterWithAWorld(t *testing.T) {
	for name, host := range map[string]string{"usual": "node1", "odd": "a\tb\nc"} {
		p := New(Options{})
		w := &rendezvous.World{RunID: "r", Size: 3, Roles: map[string]int{"x": 3}, Members: []rendezvous.Member{
			{ID: "a", Host: host, Workers: 1, Role: "x"}, {ID: "b", Workers: 2, Role: "x", FirstRank: 1, RoleRank: 1},
		}}
		for _, env := range []string{"one", "two"} { // each member gets its own beside the same world
			msg := rendezvous.Message{Type: rendezvous.MsgPropose, World: w, Env: []byte(env)}
			b, err := jsonCodec{}.Marshal(p.letter(msg))
			if err != nil {
				t.Fatal(err)
			}
			var got arrival
			if err := (jsonCodec{}).Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got.msg, msg) || got.size != len(b) {
				t.Errorf("%s: %v: %+v of %d bytes in %q", name, err, got.msg, got.size, b)
			}
		}
	}
	for _, bad := range []string{
		"{\"type\":\"propose\"}\n", "{\"type\":\"propose\",\"world\":{\"members\":[{}]}}\na\t\t\t\t\t\t1\t0\t0\n",
		"{\"type\":\"propose\",\"world\":{}}\nx\n", "\n",
	} {
		if err := (jsonCodec{}).Unmarshal([]byte(bad), &arrival{}); err == nil {
			t.Errorf("%q is a message", bad)
		}
	}
}
