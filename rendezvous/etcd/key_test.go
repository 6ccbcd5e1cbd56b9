package etcd

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

func clean(words ...string) bool {
	return !strings.ContainsFunc(strings.Join(words, ""), func(r rune) bool { return r < ' ' || r >= 127 && r < 160 })
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(encode(agent{ID: "a", Name: "n", Control: "127.0.0.1:1", Vacated: 3})))
	f.Add([]byte((&round{Job: "j", Sealer: "a", Members: []member{{"a", "c"}, {"b", ""}}}).encode()))
	f.Add([]byte(`{"id":"a","name":"\u001b[2J","vacated":-2}`))
	f.Add([]byte(`null`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := decodeAgent(b); err == nil && (a.ID == "" || a.Vacated < -1 || !clean(string(a.ID), a.Name, a.Control)) {
			t.Errorf("%+v", a)
		}
		if r, err := decodeRound(b); err == nil {
			words := []string{r.Job, r.Control, string(r.Sealer)}
			for _, m := range r.Members {
				words = append(words, string(m.ID), m.Control)
			}
			if !clean(words...) || r.Round < 0 || r.Term < 0 || len(r.Members) == 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}

// TestHostileKeysAreIgnored checks that no value below the prefix ends an agent or
// reaches the terminal.
func TestHostileKeysAreIgnored(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	a, b := pair(t, c)
	put := func(key, value string) {
		t.Helper()
		if _, err := c.Client().Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	bad := []string{"", "null", "[]", "{", `{"id":"x","name":"\u001b[2J"}`, `{"id":"` + strings.Repeat("x", 1<<20) + `"}`, "\x00\xff"}
	for i, v := range bad {
		put(a.e.keys.nodes+string(rune('a'+i)), v)
		put(a.e.keys.node("other"), v)
		put(a.e.keys.job+"more", v)
	}
	put(a.e.keys.node("real"), encode(agent{ID: "real", Name: "real"}))
	eventually(t, func() bool { p := latest[rendezvous.Peers](a); return p.Complete && len(p.All) == 3 }, func() string { return "it sees too much, or nothing more" })
	a.sealed(rendezvous.Seal{World: world("j", 1, a, b)})
	for _, v := range bad {
		put(a.e.keys.round, v)
	}
	got := a.seal(t.Context(), rendezvous.Seal{Serial: 9, World: world("j", 2, a, b)})
	waits(t, a, got, "was not written by this gorun")
	if _, err := c.Client().Delete(t.Context(), a.e.keys.round); err != nil {
		t.Fatal(err)
	}
	if s := answer(t, got); !s.OK {
		t.Errorf("%+v", s)
	}
	for _, v := range bad {
		put(b.e.keys.coordinator, v)
	}
	got = a.seal(t.Context(), rendezvous.Seal{Serial: 10, World: world("j", 3, a, b)})
	waits(t, a, got, "was not written by this gorun")
	if _, err := c.Client().Delete(t.Context(), a.e.keys.coordinator); err != nil {
		t.Fatal(err)
	}
	if s := answer(t, got); !s.OK {
		t.Errorf("%+v", s)
	}
	for _, r := range []*rig{a, b} {
		for _, p := range all[rendezvous.Peers](r) {
			for _, x := range p.All {
				if !clean(string(x.ID), x.Name, x.Control) {
					t.Errorf("%+q reaches the terminal", x.Name)
				}
			}
		}
	}
}
