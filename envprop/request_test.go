package envprop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestParseFlag(t *testing.T) {
	for _, c := range []struct {
		arg   string
		to    Target
		name  string
		value string
		given bool
	}{
		{"NAME", Target{}, "NAME", "", false},
		{"NAME=", Target{}, "NAME", "", true},
		{"NAME=a=b:c", Target{}, "NAME", "a=b:c", true},
		{"NCCL_*", Target{}, "NCCL_*", "", false},
		{"node=0:A=1", Target{ByNode, "0"}, "A", "1", true},
		{"role=ps:OMP_NUM_THREADS=8", Target{ByRole, "ps"}, "OMP_NUM_THREADS", "8", true},
		{"role=ps:A=x:y=z", Target{ByRole, "ps"}, "A", "x:y=z", true},
		{"nodes=http://x", Target{}, "nodes", "http://x", true},
	} {
		a, given, err := parseFlag(FromFlag, c.arg)
		if err != nil || a.To != c.to || a.Name != c.name || a.Value.Reveal() != c.value || given != c.given {
			t.Errorf("%s: %+v, %v, %v; want %+v", c.arg, a, given, err, c)
		}
	}
	for arg, want := range map[string]string{
		"":                                  "a name is missing",
		"=x":                                "a name is missing",
		"A B=x":                             `"A B" is not the name`,
		"1A=x":                              "no digit first",
		"NCCL_*=1":                          "a pattern sends the values of this node",
		"NCCL_[=1":                          "a pattern",
		"NCCL_[":                            "is not a pattern",
		"RANK=3":                            "only gorun sets RANK",
		"GORUN_SECRET":                      "only gorun sets GORUN_SECRET",
		"GORUN_INTERNAL_X=1":                "only gorun sets",
		"node=1:MASTER_ADDR=1":              "only gorun sets MASTER_ADDR",
		"node1:A=1":                         "-x node1:A: a target is node=I: or role=R:, not a host or an address",
		"10.0.0.1:A=x:y":                    "-x 10.0.0.1:A: a target is",
		"[fd00::1]:A":                       "not a host or an address",
		"role=ps:node=1:A=1":                "only one target",
		"node=1:role=ps:A=1":                "only one target",
		"role=ps:node1:A=1":                 "only one target",
		"role=ps":                           "role=0:NAME=value",
		"role=:A=1":                         "is not a target",
		"node=x:A=1":                        "a node's group rank is expected",
		"node=01:A=1":                       "a node's group rank is expected",
		":A=1":                              "not a host or an address",
		"A=x\x00y":                          "zero byte",
		"A=" + strings.Repeat("x", 200_000): "bytes with its value",
		strings.Repeat("A", 300):            "at most 256",
	} {
		_, _, err := parseFlag(FromFlag, arg)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "-x ") || len(err.Error()) > 900 {
			t.Errorf("%.40q: %v; want %q", arg, err, want)
		}
	}
	for arg, want := range map[string]string{"A=1": "without a value", "*": "remove PATH", "?ATH": "remove PATH", "node=1:*": "remove PATH", "node1:A": "not a host or an address"} {
		if _, _, err := parseFlag(FromUnset, arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--unset %s: %v; want %q", arg, err, want)
		}
	}
	if a, _, err := parseFlag(FromUnset, "role=ps:NCCL_*"); err != nil || a.Exact || a.Name != "NCCL_*" || a.Kind != FromUnset {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestFlagErrorsHideValues checks that an error never shows what was to be the value.
func TestFlagErrorsHideValues(t *testing.T) {
	for _, arg := range []string{"RANK=s3cret", "A B=s3cret", "NCCL_*=s3cret", "role=ps:A B=s3cret", "node=x:HF_TOKEN=s3cret", "A=s3cret\x00", "=s3cret", "node=0:RANK=s3cret:s3cret", "node1:A=s3cret", "role=ps:node1:A=s3cret", "node=1:role=ps:A=s3cret"} {
		for _, kind := range []Kind{FromFlag, FromUnset} {
			_, _, err := parseFlag(kind, arg)
			if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %q: %v", kind, arg, err)
			}
		}
	}
}

func TestNewRequest(t *testing.T) {
	env := []string{
		"NCCL_ALGO=Ring", "NCCL_PSK=s3cret", "NCCL_COMM_ID=1", "NCCL_DEBUG_FILE=/x", "NCCL_DEBUG=INFO", "NCCL_DEBUG=WARN",
		"PATH=/bin", "HF_TOKEN=s3cret", "MINE=1", "RANK=0", "broken", "PROXY_URL=http://u:s3cret@h",
	}
	for _, c := range []struct {
		name  string
		o     Options
		asks  []string // as name=value, shown
		notes []string
	}{
		{"a name", Options{X: []string{"MINE"}}, []string{"MINE=1"}, nil},
		{"a name with a credential", Options{X: []string{"HF_TOKEN"}}, []string{"HF_TOKEN=(hidden)"}, nil},
		{"a value of a credential", Options{X: []string{"HF_TOKEN=s3cret"}}, []string{"HF_TOKEN=(hidden)"}, []string{"list of processes"}},
		{"not set", Options{X: []string{"NONE"}}, nil, []string{"-x NONE: not set on this node"}},
		{
			"a pattern",
			Options{X: []string{"NCCL_*"}},
			[]string{"NCCL_ALGO=Ring", "NCCL_DEBUG=WARN"},
			[]string{"does not send NCCL_COMM_ID, NCCL_DEBUG_FILE, NCCL_PSK:"},
		},
		{
			"all",
			Options{X: []string{"*"}},
			[]string{"MINE=1", "NCCL_ALGO=Ring", "NCCL_DEBUG=WARN"},
			[]string{"does not send HF_TOKEN, NCCL_COMM_ID, NCCL_DEBUG_FILE, NCCL_PSK, PATH, PROXY_URL:"},
		},
		{"nothing matches", Options{X: []string{"XX*"}}, nil, []string{"no variable of this node matches"}},
		{"of one machine", Options{X: []string{"PATH"}}, []string{"PATH=/bin"}, []string{"every node gets this one value, though it names one machine"}},
		{"of one machine, for one", Options{X: []string{"node=1:PATH"}}, []string{"PATH=/bin"}, nil},
		{"with a password within", Options{X: []string{"PROXY_URL"}}, []string{"PROXY_URL=http://***@h"}, nil},
		{
			"a file",
			Options{Files: []EnvFile{{"a.env", []byte("A=1\nMINE=2\n")}, {"b.env", []byte("A=3")}}},
			[]string{"A=1", "MINE=2", "A=3"},
			nil,
		},
		{
			"a credential of a file stays",
			Options{Files: []EnvFile{{"a.env", []byte("\nAWS_REGION=s3cret")}}},
			nil,
			[]string{"AWS_REGION of a.env:2 stays on this node, as it looks like a credential: add -x AWS_REGION"},
		},
		{"named, it goes", Options{X: []string{"X_KEY"}, Files: []EnvFile{{"a.env", []byte("X_KEY=s3cret")}}}, []string{"X_KEY=(hidden)"}, nil},
		{"unset", Options{Unset: []string{"MINE", "node=1:NCCL_*"}}, []string{"MINE=", "NCCL_*="}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := NewRequest(c.o, env)
			if err != nil {
				t.Fatal(err)
			}
			var asks []string
			for _, a := range r.Overrides {
				asks = append(asks, fmt.Sprintf("%s=%s", a.Name, a.Value))
			}
			if fmt.Sprint(asks) != fmt.Sprint(c.asks) {
				t.Errorf("asks for %q, want %q", asks, c.asks)
			}
			if len(r.Notes) != len(c.notes) {
				t.Errorf("notes %q, want %q", r.Notes, c.notes)
			}
			for i := range min(len(r.Notes), len(c.notes)) {
				if !strings.Contains(r.Notes[i], c.notes[i]) {
					t.Errorf("note %q, want %q", r.Notes[i], c.notes[i])
				}
			}
			text, err := json.Marshal(r)
			if all := fmt.Sprintf("%v %+v %#v %s", r, r, r, text); err != nil || strings.Contains(all, "s3cret") {
				t.Errorf("a credential is shown: %v %s", err, all)
			}
		})
	}
}

func TestNewRequestRefuses(t *testing.T) {
	many := make([]string, maxOverrides+1)
	for i := range many {
		many[i] = fmt.Sprintf("V%d=1", i)
	}
	for want, o := range map[string]Options{
		"-x RANK":             {X: []string{"A=1", "RANK=1"}},
		"--unset RANK":        {Unset: []string{"RANK"}},
		"job.env:2: no '='":   {Files: []EnvFile{{"job.env", []byte("A=1\nB\n")}}},
		"at most 1024":        {X: many},
		"more than 1048576":   {Files: []EnvFile{{"job.env", make([]byte, MaxEnvFile+1)}}},
		"bytes with its valu": {X: []string{"BIG"}},
	} {
		if _, err := NewRequest(o, []string{"BIG=" + strings.Repeat("x", 1<<18)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestLocalAsksReachOnlyTheNodesWorkers(t *testing.T) {
	r, err := NewRequest(Options{Files: []EnvFile{{"a.env", []byte("HF_TOKEN=s3cret\nA=1")}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	env := asMap(t, NewBase([]string{"HF_TOKEN=old"}).Apply(r.LocalAssignment()).Worker(vars()))
	if _, travels := env["A"]; env["HF_TOKEN"] != "s3cret" || travels {
		t.Errorf("HF_TOKEN=%q, A set: %v", env["HF_TOKEN"], travels)
	}
}

func FuzzFlag(f *testing.F) {
	for _, s := range []string{"A", "A=b", "node1:A=b", "role=ps:A", "node=0:NCCL_*", "role=a:node=1:A=1", "NCCL_[a-z]*", "=", ":"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, arg string, set bool) {
		kind := FromFlag
		if !set {
			kind = FromUnset
		}
		a, _, err := parseFlag(kind, arg)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q: %q", arg, err)
			}
			return
		}
		if set && !a.Exact { // patterns do not travel, what they match does
			return
		}
		if err := a.check(); err != nil && len(a.At) <= maxNote {
			t.Errorf("%q is accepted as %+v, and refused on the wire: %v", arg, a, err)
		}
	})
}
