package spec

import (
	"reflect"
	"testing"
)

func TestParseEndpoints(t *testing.T) {
	good := map[string][]Endpoint{
		"a":                  {{"a", 1}},
		"a:0":                {{"a", 0}},
		" a , b:29401":       {{"a", 1}, {"b", 29401}},
		"[::1]:29400,[fe::]": {{"::1", 29400}, {"fe::", 1}},
		"::1":                {{"::1", 1}},
		"10.0.0.1:65535":     {{"10.0.0.1", 65535}},
		"node_1.my-site.org": {{"node_1.my-site.org", 1}},
	}
	for in, want := range good {
		if got, err := ParseEndpoints(in, 1); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ",", "a,", ":5", "a:", "a:65536", "a:-1", "a:b", "a b", "-x", "[::1", "[::1]5",
		"[::1]:", "[a]:5", "1:2:3x", "tcp://a:1", "a,a:1", "a/b",
	} {
		if got, err := ParseEndpoints(in, 1); err == nil {
			t.Errorf("%q is accepted as %v", in, got)
		}
	}
}

func FuzzParseEndpoints(f *testing.F) {
	for _, s := range []string{"a", "a,b:29401,[::1]:29400", "[", "]", "[]:1", "::1", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseEndpoints(s, DefaultPort)
		if err != nil {
			return
		}
		for _, e := range list {
			// An accepted endpoint can be written and read again.
			again, err := ParseEndpoints(e.String(), 0)
			if err != nil || len(again) != 1 || again[0] != e {
				t.Errorf("%q: %+v is read again as %+v, %v", s, e, again, err)
			}
		}
	})
}

func FuzzParseConf(f *testing.F) {
	for _, s := range []string{"", "a=b", "'join_timeout=5,timeout=5'", "=", "a", ",", "'", `"`, "a=b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pairs, err := ParseConf(s)
		for k, v := range pairs {
			if err != nil || k == "" || v == "" {
				t.Errorf("%q: pair %q=%q with error %v", s, k, v, err)
			}
		}
		for _, b := range []Backend{Gossip, Static, Standalone} {
			if c, err := resolveConf(pairs, b); err == nil && (c.JoinTimeout <= 0 || c.KeepAliveInterval <= 0 || c.KeepAliveMaxAttempt < 1) {
				t.Errorf("%q: unusable %+v", s, c)
			}
		}
	})
}

func FuzzParseSeconds(f *testing.F) {
	for _, s := range []string{"5", "0.5", "5s", "-1", "nan", "1e400", "0x1p-2", "9e18h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseSeconds(s); err == nil && d < 0 {
			t.Errorf("%q gives %v", s, d)
		}
	})
}
