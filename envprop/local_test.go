package envprop

import (
	"slices"
	"testing"
)

// local returns a fake as a node that has not heard the coordinator's decision.
func (f fake) local(t *testing.T) Local {
	t.Helper()
	r, err := NewRequest(Options{X: f.x, Unset: f.unset, Files: []EnvFile{{"job.env", []byte(f.file)}}}, f.env)
	if err != nil {
		t.Fatal(err)
	}
	return Local{Node: Node{Host: "n1.cluster", Addr: "10.0.0.2"}, Env: f.env, Request: r}
}

// values returns the values of variables in a base.
func values(b Base, names ...string) []string {
	list := make([]string, len(names))
	for _, s := range b.Explain(Vars{}) {
		if i := slices.Index(names, s.Name); i >= 0 {
			list[i] = s.Value.Reveal()
		}
	}
	return list
}

// TestGuess checks that a node guesses its workers' environment from what it knows
// itself, credentials of env files included.
func TestGuess(t *testing.T) {
	l := fake{env: []string{"A=1", "B=1", "HOME=/h"}, x: []string{"A=2", "node=1:HOME=/x"}, unset: []string{"B"}, file: "C=3\nHF_TOKEN=secret\n"}.local(t)
	if got, want := values(l.ExpectedBase(), "A", "B", "C", "HF_TOKEN", "HOME"), []string{"2", "", "3", "secret", "/h"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := values(fake{env: []string{"A=1"}}.local(t).ExpectedBase(), "A"); got[0] != "1" {
		t.Errorf("without a request: %q", got)
	}
}

// TestDecided checks that a node without a secret refuses what could run code, and
// keeps what its own user requested.
func TestDecided(t *testing.T) {
	l := fake{env: []string{"A=1"}, x: []string{"LD_PRELOAD=/mine.so"}, file: "HF_TOKEN=secret\n"}.local(t)
	source := Source{Kind: FromFlag, Node: "n0"}
	decision, err := Assignment{Set: []Setting{
		{"A", NewValue("A", "2"), source}, {"BROWSER", NewValue("BROWSER", "sh"), source}, {"LD_PRELOAD", NewValue("LD_PRELOAD", "/other.so"), source},
	}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"A", "BROWSER", "LD_PRELOAD", "HF_TOKEN"}
	for _, tt := range []struct {
		trusted bool
		want    []string
		refused int
	}{{true, []string{"2", "sh", "/other.so", "secret"}, 0}, {false, []string{"2", "", "/mine.so", "secret"}, 2}} {
		b, refused, err := l.ApplyDecision(decision, 1, tt.trusted)
		if got := values(b, names...); err != nil || !slices.Equal(got, tt.want) || len(refused) != tt.refused {
			t.Errorf("trusted %v: %q, refused %v, %v; want %q", tt.trusted, got, refused, err, tt.want)
		}
	}
	b, _, err := l.ApplyDecision([]byte("{"), 1, true)
	if got := values(b, names...); err == nil || !slices.Equal(got, []string{"1", "", "", "secret"}) {
		t.Errorf("a decision that cannot be read: %q, %v", got, err)
	}
}

// TestCredentialAt checks that a credential is found by its name and by its value.
func TestCredentialAt(t *testing.T) {
	for x, want := range map[string]string{"A=1": "", "HF_TOKEN": "-x HF_TOKEN", "DB=postgres://user:secret@host/": "-x DB"} {
		l := fake{env: []string{"HF_TOKEN=secret"}, x: []string{"B=1", x}}.local(t)
		if got := l.Request.CredentialAt(); got != want {
			t.Errorf("-x %s: %q, want %q", x, got, want)
		}
	}
}
