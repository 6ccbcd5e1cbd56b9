package control

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

// TestMessageKeepsItsWorld checks that a world arrives as it left, whatever its names
// are. A roster that belongs to no world, or to a world that has members, is refused.
func TestMessageKeepsItsWorld(t *testing.T) {
	for name, host := range map[string]string{"usual": "node1", "odd": "a\tb\nc"} {
		p := New(Options{})
		w := &rendezvous.World{RunID: "r", Size: 3, Roles: map[string]int{"x": 3}, Members: []rendezvous.Member{
			{ID: "a", Host: host, Workers: 1, Role: "x"}, {ID: "b", Workers: 2, Role: "x", FirstRank: 1, RoleRank: 1},
		}}
		for _, env := range []string{"one", "two"} { // each member gets its own beside the same world
			msg := rendezvous.Message{Type: rendezvous.MsgPropose, World: w, Env: []byte(env)}
			b, err := jsonCodec{}.Marshal(p.outgoing(msg))
			if err != nil {
				t.Fatal(err)
			}
			var got incoming
			if err := (jsonCodec{}).Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got.msg, msg) || got.size != len(b) {
				t.Errorf("%s: %v: %+v of %d bytes in %q", name, err, got.msg, got.size, b)
			}
		}
	}
	for _, bad := range []string{
		"{\"type\":\"propose\"}\n", "{\"type\":\"propose\",\"world\":{\"members\":[{}]}}\na\t\t\t\t\t\t1\t0\t0\n",
		"{\"type\":\"propose\",\"world\":{}}\nx\n", "\n",
	} {
		if err := (jsonCodec{}).Unmarshal([]byte(bad), &incoming{}); err == nil {
			t.Errorf("%q is a message", bad)
		}
	}
}

func FuzzRoster(f *testing.F) {
	good, _ := encodeRoster([]rendezvous.Member{{ID: "a", Host: "h", Addr: "::1", Control: "[::1]:1", Workers: 8, Role: "r", Env: "e"}, {ID: "b", Workers: 1, FirstRank: 8, RoleRank: -1}})
	f.Add(good)
	f.Add(strings.Repeat(good, 9))
	f.Add(good + "c")
	f.Add("\t\t\t\t\t\t1\t2\t3\t\n")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, text string) {
		members, err := decodeRoster(text)
		if err != nil {
			return
		}
		again, ok := encodeRoster(members)
		if !ok {
			t.Fatalf("%+v", members)
		}
		if back, err := decodeRoster(again); err != nil || !slices.Equal(back, members) {
			t.Errorf("%v: %+v, then %+v", err, members, back)
		}
	})
}

// TestMalformedRosterIsRefused checks the errors of decodeRoster, and that encodeRoster
// refuses what could not be read back.
func TestMalformedRosterIsRefused(t *testing.T) {
	line, _ := encodeRoster([]rendezvous.Member{{ID: "a", Workers: 1}})
	for name, text := range map[string]string{
		"no end": strings.TrimSuffix(line, "\n"), "a field too few": "a\tb\n", "a field too many": strings.Replace(line, "\n", "\t\n", 1),
		"no number": strings.Replace(line, "1", "x", 1), "a number that is too large": strings.Replace(line, "1", "99999999999999999999", 1),
		"too many nodes": strings.Repeat("\n", rendezvous.MaxNodes+1),
	} {
		if got, err := decodeRoster(text); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, m := range []rendezvous.Member{{ID: "a\tb"}, {ID: "a", Host: "x\ny"}} {
		if text, ok := encodeRoster([]rendezvous.Member{m}); ok {
			t.Errorf("%q would be read as something else", text)
		}
	}
}
