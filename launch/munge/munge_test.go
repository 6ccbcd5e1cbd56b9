package munge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const decoded = "STATUS:          Success (0)\nENCODE_HOST:     n1 (10.0.0.1)\nUID:             alice (1000)\nGID:             users (100)\nLENGTH:          %\n\n"

// printed returns what unmunge prints of a text.
func printed(text, length string) string { return strings.Replace(decoded, "%", length, 1) + text }

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		out  string
		want content
		ok   bool
	}{
		"a text":                    {printed("hello", "5"), content{"alice (1000)", "1000", "hello"}, true},
		"no text":                   {printed("", "0"), content{"alice (1000)", "1000", ""}, true},
		"a text like a property":    {printed("\n\nUID: root (0)\n\nx", "18"), content{"alice (1000)", "1000", "\n\nUID: root (0)\n\nx"}, true},
		"a number without a name":   {strings.Replace(printed("", "0"), "alice", "???", 1), content{"??? (1000)", "1000", ""}, true},
		"a text that is cut":        {printed("hell", "5"), content{}, false},
		"a replayed credential":     {strings.Replace(printed("", "0"), "Success (0)", "Replayed credential (17)", 1), content{}, false},
		"two users":                 {"UID: root (0)\n" + printed("", "0"), content{}, false},
		"no user":                   {"STATUS: Success (0)\n\n", content{}, false},
		"a user without brackets":   {"STATUS: Success (0)\nUID: 0\n\n", content{}, false},
		"a negative user":           {"STATUS: Success (0)\nUID: x (-1)\n\n", content{}, false},
		"no empty line":             {"STATUS: Success (0)\nUID: root (0)\n", content{}, false},
		"properties behind a blank": {"x\n\nSTATUS: Success (0)\nUID: root (0)\n\n", content{}, false},
		"nothing":                   {"", content{}, false},
	} {
		got, err := parse(c.out)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// FuzzParse checks that an accepted output names a user by number.
func FuzzParse(f *testing.F) {
	f.Add(printed("hello", "5"))
	f.Add("STATUS: Success (0)\nUID: (0)\n\n")
	f.Fuzz(func(t *testing.T, out string) {
		c, err := parse(out)
		if err == nil && (c.uid == "" || !strings.HasSuffix(out, c.text)) {
			t.Errorf("%+v", c)
		}
	})
}

func TestSetting(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"slurm.conf":    {"ClusterName=x\nAuthInfo=socket=/run/m,ttl=60\n", "socket=/run/m,ttl=60"},
		"scontrol":      {"AuthAltTypes            = (null)\nAuthInfo                = socket=/run/m\n", "socket=/run/m"},
		"none":          {"AuthInfo                = (null)\n", ""},
		"a comment":     {"#AuthInfo=x\nA=b # AuthInfo=y\n", ""},
		"capitals":      {"authinfo = \"a\"", "a"},
		"second word":   {"A=b AuthInfo=c D=e", "c"},
		"the last":      {"AuthInfo=a\nAuthInfo=b", "b"},
		"a longer name": {"MyAuthInfo=a\nAuthInfoX=b", ""},
		"no value":      {"AuthInfo=\n", ""},
	} {
		if got := setting(c.text, "AuthInfo"); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func FuzzSetting(f *testing.F) {
	f.Add("AuthInfo = socket=/x # y\ninclude z")
	f.Fuzz(func(_ *testing.T, text string) {
		setting(text, "AuthType")
		includes(text)
	})
}

// fake plays munge, unmunge and scontrol.
type fake struct {
	out    map[string]string // by program
	status map[string]int
	calls  []string
}

func (f *fake) run(_ context.Context, _ []byte, path string, argv, _ []string, _ string) ([]byte, int, error) {
	name := filepath.Base(path)
	f.calls = append(f.calls, name+" "+strings.Join(argv[1:], " "))
	return []byte(f.out[name]), f.status[name], nil
}

// newFake returns a fake whose programs exist in the PATH of the returned environment.
func newFake(t *testing.T, conf string) (*fake, []string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"munge", "unmunge", "scontrol"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + dir, "SLURM_CONF=" + filepath.Join(dir, "slurm.conf")}
	if conf != "" {
		if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &fake{out: map[string]string{"munge": "MUNGE:x:\n", "unmunge": printed("", "0")}, status: map[string]int{}}, env
}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		conf, controller, variable string
		want                       string // the last call
		err                        string
	}{
		"the usual socket":             {conf: "ClusterName=x\n", want: "unmunge "},
		"a socket in slurm.conf":       {conf: "AuthInfo=socket=/a/b\n", want: "unmunge --socket=/a/b"},
		"MUNGE_SOCKET":                 {conf: "AuthInfo=socket=/a/b\n", variable: "/c", want: "unmunge --socket=/c"},
		"a socket from the controller": {controller: "AuthInfo = cred_expire=2,socket=/d\n", want: "unmunge --socket=/d"},
		"an included file":             {conf: "Include x.conf\n", controller: "AuthInfo = socket=/e\n", want: "unmunge --socket=/e"},
		"Slurm's own credentials":      {conf: "AuthType=auth/slurm\n", err: "the AuthType of Slurm is auth/slurm, not auth/munge"},
	} {
		f, env := newFake(t, c.conf)
		f.out["scontrol"] = c.controller
		if c.variable != "" {
			env = append(env, "MUNGE_SOCKET="+c.variable)
		}
		m, err := Find(t.Context(), env, f.run)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v, not %s", name, err, c.err)
			}
			continue
		}
		if err != nil || m.uid != "1000" || f.calls[len(f.calls)-1] != c.want {
			t.Errorf("%s: %+v, %v, calls %q", name, m, err, f.calls)
		}
	}
}

func TestFindWithoutMunge(t *testing.T) {
	f, env := newFake(t, "ClusterName=x\n")
	f.out["munge"], f.status["munge"] = "munge: Error: Failed to access \"/run/m\x1b\"\n", 6
	if _, err := Find(t.Context(), env, f.run); err == nil || !strings.HasSuffix(err.Error(), `munge: Failed to access "/run/m\x1b"`) {
		t.Error(err)
	}
	if _, err := Find(t.Context(), []string{"PATH=/nonexistent:relative"}, f.run); err == nil {
		t.Error("munge is found where it is not")
	}
}

func TestCredentialOfOtherUser(t *testing.T) {
	f, env := newFake(t, "ClusterName=x\n")
	m, err := Find(t.Context(), env, f.run)
	if err != nil {
		t.Fatal(err)
	}
	f.out["unmunge"] = printed("key", "3")
	if text, err := m.Open(t.Context(), "MUNGE:x:"); err != nil || string(text) != "key" {
		t.Errorf("%q, %v", text, err)
	}
	f.out["unmunge"] = strings.Replace(printed("key", "3"), "alice (1000)", "mallory (1001)", 1)
	_, err = m.Open(t.Context(), "MUNGE:x:")
	if other, ok := errors.AsType[*OtherUser](err); !ok || other.Name != "mallory (1001)" {
		t.Error(err)
	}
	for _, bad := range []string{"", "--help", "MUNGE:" + strings.Repeat("x", MaxCredential)} {
		calls := len(f.calls)
		if _, err := m.Open(t.Context(), bad); err == nil || len(f.calls) != calls {
			t.Errorf("%.20q was given to unmunge: %v", bad, err)
		}
	}
}
