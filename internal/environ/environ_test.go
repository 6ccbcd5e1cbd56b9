package environ

import "testing"

func TestLookup(t *testing.T) {
	env := []string{"A=1", "AB=2", "EMPTY=", "A=x=y", "B", "=C"}
	for _, tt := range []struct {
		name, value string
		ok          bool
	}{{"A", "x=y", true}, {"AB", "2", true}, {"EMPTY", "", true}, {"B", "", false}, {"C", "", false}, {"a", "", false}} {
		if value, ok := Lookup(env, tt.name); value != tt.value || ok != tt.ok || Get(env, tt.name) != tt.value {
			t.Errorf("%s: %q, %v", tt.name, value, ok)
		}
	}
}
