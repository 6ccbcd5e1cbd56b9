package secret

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const text = "correct horse battery staple"

func made(t testing.TB, text string) Secret {
	t.Helper()
	s, err := New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKeysAreStable checks that nodes of different versions of gorun have the same
// keys.
func TestKeysAreStable(t *testing.T) {
	key := made(t, text).Key("gossip")
	if got, want := hex.EncodeToString(key[:]), "56168b12bad3961d7fcf171d885546f954fb714961893f4b7c1ec9e79a246f91"; got != want {
		t.Errorf("the key of this text was %s, is %s", want, got)
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, text := range []string{text, text + "x", strings.ToUpper(text)} {
		for _, purpose := range []string{"", "gossip", "tls", "gossip tls"} {
			key := made(t, text).Key(purpose)
			if by, ok := seen[key]; ok {
				t.Errorf("%q for %q gives the key of %s", text, purpose, by)
			}
			seen[key] = text + " for " + purpose
		}
	}
	for _, end := range []string{"\n", "\r\n", "\n\n"} {
		if made(t, text+end).Key("x") != made(t, text).Key("x") {
			t.Errorf("the line end %q counts", end)
		}
	}
}

// TestRunsHaveDifferentKeys checks that a proof of one run does not count in another run
// with the same text.
func TestRunsHaveDifferentKeys(t *testing.T) {
	root := made(t, text)
	seen := map[[32]byte]string{}
	for _, run := range []string{"", "a", "b", "a b", "gossip"} {
		for _, purpose := range []string{"gossip", "tls", "a"} {
			key := root.For(run).Key(purpose)
			if by, ok := seen[key]; ok {
				t.Errorf("run %q has for %q the key of %s", run, purpose, by)
			}
			seen[key] = run + " for " + purpose
		}
	}
	if seen[root.Key("gossip")] != "" || root.For("a").Key("x") != made(t, text).For("a").Key("x") {
		t.Error("a run has the key of no run, or two keys")
	}
	proof := root.For("a").Prove("probe", []byte("nonce"))
	if root.For("b").Verify("probe", []byte("nonce"), proof) || !root.For("a").Verify("probe", []byte("nonce"), proof) {
		t.Error("a proof counts in another run, or not in its own")
	}
	if (Secret{}).For("a").Given() {
		t.Error("a run has a secret without a text")
	}
}

func TestProofIsOfOneSecretPurposeAndNonce(t *testing.T) {
	s, other, nonce := made(t, text), made(t, text+"x"), []byte("nonce")
	proof := s.Prove("status", nonce)
	if !s.Verify("status", nonce, proof) {
		t.Error("its own proof is refused")
	}
	for name, ok := range map[string]bool{
		"another secret":  other.Verify("status", nonce, proof),
		"no secret":       Secret{}.Verify("status", nonce, proof),
		"another purpose": s.Verify("abort", nonce, proof),
		"another nonce":   s.Verify("status", []byte("other"), proof),
		"half a proof":    s.Verify("status", nonce, proof[:16]),
		"nothing":         s.Verify("status", nonce, nil),
	} {
		if ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNoKeyWithoutSecret(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a key of nothing")
		}
	}()
	Secret{}.Key("x")
}

// TestPrintingShowsNoKey checks that no key is shown, not even of a field whose methods fmt
// cannot call.
func TestPrintingShowsNoKey(t *testing.T) {
	s := made(t, text)
	holder := struct {
		hidden Secret
		Shown  Secret
		list   []Secret
	}{s, s, []Secret{s}}
	var all bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{s, &s, holder, &holder} {
			fmt.Fprintf(&all, verb+"\n", v)
		}
	}
	_ = json.NewEncoder(&all).Encode(holder)
	key, err := hkdf.Extract(sha256.New, []byte(text), []byte(salt))
	if err != nil {
		t.Fatal(err)
	}
	root := key[:4]
	for _, bad := range []string{
		text, hex.EncodeToString(root), hex.EncodeToString([]byte(text)), string(root),
		strings.Trim(fmt.Sprint(root), "[]"), strings.Trim(fmt.Sprintf("%#v", root), "[]byte{}"),
	} {
		if strings.Contains(strings.ToLower(all.String()), bad) {
			t.Errorf("%q is in:\n%s", bad, all.String())
		}
	}
}

func TestFindReadsFileThenVariable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	good := write("good", text+"\n", 0o600)
	most := strings.Repeat("x", Max)
	tests := []struct {
		name, file, env string
		want            string // text of the secret
		warning, err    string
	}{
		{"nothing", "", "unset", "", "", ""},
		{"file", good, "unset", text, "", ""},
		{"file before variable", good, "another text, long enough", text, "", ""},
		{"variable", "", text, text, "", ""},
		{"as long as may be", write("most", most+"\r\n", 0o600), "unset", most, "", ""},
		{"file that all can read", write("open", text, 0o644), "unset", text, "chmod 600 " + filepath.Join(dir, "open"), ""},
		{"file that the group can read", write("group", text, 0o640), "unset", text, "mode 0640", ""},
		{"empty variable", "", "", "", "", "GORUN_SECRET: it is empty"},
		{"short variable", "", "hunter2", "", "", "GORUN_SECRET: it has 7 bytes, at least 16"},
		{"empty file", write("empty", "\n", 0o600), "unset", "", "", "it is empty"},
		{"short file", write("short", "0123456789abcde\n", 0o600), "unset", "", "", "it has 15 bytes"},
		{"long file", write("long", most+"x", 0o600), "unset", "", "", "more than 4096"},
		{"huge file", write("huge", strings.Repeat("x", 1<<20), 0o600), "unset", "", "", "more than 4096"},
		{"no file", filepath.Join(dir, "none"), text, "", "", "--secret-file " + filepath.Join(dir, "none") + ": no such file"},
		{"folder", dir, "unset", "", "", "it is a folder"},
		{"pipe", pipe, "unset", "", "", "it is a pipe"},
		{"endless", "/dev/zero", "unset", "", "", "more than 4096"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			s, warning, err := Find(tt.file, func(name string) (string, bool) { return tt.env, name == Env && tt.env != "unset" })
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) || s.Given() {
					t.Fatalf("%v, %v; want %q", s, err, tt.err)
				}
				if tt.env == "hunter2" && strings.Contains(err.Error(), tt.env) {
					t.Errorf("it is shown: %v", err)
				}
			case err != nil:
				t.Fatal(err)
			case tt.want == "" && s.Given() || tt.want != "" && s.Key("x") != made(t, tt.want).Key("x"):
				t.Errorf("another secret (%v)", s)
			}
			if (warning == "") != (tt.warning == "") || !strings.Contains(warning, tt.warning) {
				t.Errorf("warning %q, want %q", warning, tt.warning)
			}
			if time.Since(began) > 30*time.Second {
				t.Error("Find waits")
			}
		})
	}
}
