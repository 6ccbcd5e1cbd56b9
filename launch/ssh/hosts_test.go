package ssh

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParseHosts(t *testing.T) {
	got, err := ParseHosts("a, me@b.example.com:2222,[::1]:22,fe80::1%eth0,me@[2001:db8::1]:23,10.0.0.1")
	want := []Host{
		{Name: "a"},
		{Name: "me@b.example.com", Port: 2222},
		{Name: "::1", Port: 22},
		{Name: "fe80::1%eth0"},
		{Name: "me@2001:db8::1", Port: 23},
		{Name: "10.0.0.1"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	var names []string
	for _, h := range got {
		names = append(names, h.String())
	}
	if text := strings.Join(names, " "); text != "a me@b.example.com:2222 [::1]:22 fe80::1%eth0 me@[2001:db8::1]:23 10.0.0.1" {
		t.Errorf("shown as %s", text)
	}
}

func TestParseHostsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "a name is missing",
		"a,":                               "a name is missing",
		"@a":                               "a name is missing",
		"a,a":                              "named twice",
		"a:x":                              "port",
		"a:0":                              "port",
		"a:65536":                          "port",
		"[::1":                             "[ADDRESS]:PORT",
		"[::1]x":                           "[ADDRESS]:PORT",
		"-oProxyCommand=x":                 "no dash",
		"a@-oProxyCommand=x":               "no dash",
		"a b":                              "letters",
		"a;b":                              "letters",
		"$(id)":                            "letters",
		"ssh://a":                          "port",
		"a\x1b[2J":                         "letters",
		strings.Repeat("a", 400):           "characters",
		strings.Repeat("a", MaxHostfile+1): "bytes",
	} {
		if hosts, err := ParseHosts(text); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%.40q: %v, %v, want %q", text, hosts, err, want)
		}
	}
}

func TestParseHostfile(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []Host
	}{
		"DeepSpeed":          {"worker-1 slots=4\nworker-2 slots=2\n", []Host{{Name: "worker-1", Slots: 4}, {Name: "worker-2", Slots: 2}}},
		"Open MPI":           {"# nodes\na slots=8 max_slots=16 # fast\n\n  b slots=8 max-slots=8\r\n", []Host{{Name: "a", Slots: 8}, {Name: "b", Slots: 8}}},
		"without slots":      {"a\nme@b:2222\n", []Host{{Name: "a"}, {Name: "me@b", Port: 2222}}},
		"repeated":           {"a\nb\na\na\n", []Host{{Name: "a", Slots: 3}, {Name: "b"}}},
		"repeated, slots":    {"a slots=2\na slots=3\n", []Host{{Name: "a", Slots: 5}}},
		"repeated, mixed":    {"a slots=2\na\n", []Host{{Name: "a", Slots: 3}}},
		"no end of the line": {"\ufeffa slots=1", []Host{{Name: "a", Slots: 1}}},
	} {
		if got, err := ParseHostfile([]byte(tt.text)); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestParseHostfileErrors(t *testing.T) {
	many := strings.Builder{}
	for i := range MaxHosts + 1 {
		fmt.Fprintf(&many, "n%d\n", i)
	}
	for text, want := range map[string]string{
		"":                                       "names no host",
		"# a\n":                                  "names no host",
		"a slots=x\n":                            "line 1: a: \"slots=x\" must be a number",
		"a slots=0\n":                            "must be a number",
		"a slots=99999999\n":                     "must be a number",
		"\na slots = 4\n":                        "line 2: a: \"slots\" is not understood",
		"a gpus=4\n":                             "\"gpus\" is not understood",
		"a b\n":                                  "\"b\" is not understood",
		"a slots=4 max_slots=2\n":                "a has 4 slots and max_slots=2",
		"^a\n":                                   "letters",
		strings.Repeat("a slots=65536\n", 2):     "more than 65536 slots",
		many.String():                            "more than 4096 hosts",
		strings.Repeat("#", MaxHostfile) + "\na": "more than 1048576 bytes",
	} {
		if hosts, err := ParseHostfile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v, want %q", text, hosts, err, want)
		}
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("a slots=4\nme@b:22 max_slots=3 # x\n")
	f.Add("a,me@[::1]:22,b:1")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseHosts(text)
		file, fileErr := ParseHostfile([]byte(text))
		for _, h := range append(list, file...) {
			again, err := parseHost(h.String())
			if again.Name != h.Name || again.Port != h.Port || err != nil {
				t.Errorf("%+v is shown as %s, which is %+v, %v", h, h, again, err)
			}
			if strings.HasPrefix(h.Name, "-") || h.Slots < 0 || h.Slots > maxSlots || strings.ContainsAny(h.Name, " \n'\"$;`") {
				t.Errorf("accepted %+v", h)
			}
		}
		for _, err := range []error{err, fileErr} {
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
		}
	})
}
