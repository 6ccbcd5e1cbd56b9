package rendezvous

import (
	"slices"
	"strings"
	"testing"
)

func FuzzRoster(f *testing.F) {
	good, _ := Roster([]Member{{ID: "a", Host: "h", Addr: "::1", Control: "[::1]:1", Workers: 8, Role: "r", Env: "e"}, {ID: "b", Workers: 1, FirstRank: 8, RoleRank: -1}})
	f.Add(good)
	f.Add(strings.Repeat(good, 9))
	f.Add(good + "c")
	f.Add("\t\t\t\t\t\t1\t2\t3\t\n")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, text string) {
		members, err := ParseRoster(text)
		if err != nil {
			return
		}
		again, ok := Roster(members)
		if !ok {
			t.Fatalf("%+v", members)
		}
		if back, err := ParseRoster(again); err != nil || !slices.Equal(back, members) {
			t.Errorf("%v: %+v, then %+v", err, members, back)
		}
	})
}

func TestRoster(t *testing.T) {
	line, _ := Roster([]Member{{ID: "a", Workers: 1}})
	for name, text := range map[string]string{
		"no end": strings.TrimSuffix(line, "\n"), "a field too few": "a\tb\n", "a field too many": strings.Replace(line, "\n", "\t\n", 1),
		"no number": strings.Replace(line, "1", "x", 1), "a number that is too large": strings.Replace(line, "1", "99999999999999999999", 1),
		"too many nodes": strings.Repeat("\n", MaxNodes+1),
	} {
		if got, err := ParseRoster(text); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, m := range []Member{{ID: "a\tb"}, {ID: "a", Host: "x\ny"}} {
		if text, ok := Roster([]Member{m}); ok {
			t.Errorf("%q would be read as something else", text)
		}
	}
}
