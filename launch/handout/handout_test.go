package handout

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/secret"
)

// user plays munge for one user: only its own credentials open.
type user string

func (u user) Seal(_ context.Context, text []byte) (string, error) {
	return "MUNGE:" + string(u) + ":" + string(text), nil
}

func (u user) Open(_ context.Context, credential string) ([]byte, error) {
	text, ok := strings.CutPrefix(credential, "MUNGE:"+string(u)+":")
	if !ok {
		return nil, errors.New("it is of another user")
	}
	return []byte(text), nil
}

// node is a node of a test.
type node struct {
	*Party
	mu    sync.Mutex
	lines []string // notes and refusals
}

// newNode returns a prepared node. u is "" for a node without munge; home is a shared
// folder or "".
func newNode(t *testing.T, run string, u user, home string, given bool) *node {
	t.Helper()
	n := &node{}
	add := func(text string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lines = append(n.lines, text)
	}
	n.Party = New(Options{
		RunID: run, Env: []string{"HOME=" + home}, Given: given,
		Find: func(context.Context) (Credentials, error) {
			if u == "" {
				return nil, errors.New("no munge here")
			}
			return u, nil
		},
		Note: func(_, text string) { add(text) }, Refused: add,
	})
	n.Prepare(t.Context())
	n.folder.shared = home != ""
	return n
}

// serve serves requests until the test ends, and returns the address.
func (n *node) serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func makeSecret(t *testing.T, n *node) secret.Secret {
	t.Helper()
	s, err := n.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sameKey(a, b secret.Secret) bool {
	return a.Given() == b.Given() && (!a.Given() || a.Key("x") == b.Key("x"))
}

// TestAsk checks which nodes get the secret of the first node, and why the others do
// not.
func TestAsk(t *testing.T) {
	home := t.TempDir()
	for name, c := range map[string]struct {
		first, second func() *node
		source        string // "": no secret
		refused       string // "": the second node gets what the first has
		reported      bool   // the first node says why the second cannot join
	}{
		"munge": {
			first:  func() *node { return newNode(t, "1.0", "alice", "", false) },
			second: func() *node { return newNode(t, "1.0", "alice", "", false) }, source: "a munge credential",
		},
		"a shared home": {
			first:  func() *node { return newNode(t, "1.0", "", home, false) },
			second: func() *node { return newNode(t, "1.0", "", home, false) }, source: "a file in " + filepath.Join(home, ".gorun"),
		},
		"munge before a shared home": {
			first:  func() *node { return newNode(t, "1.0", "alice", home, false) },
			second: func() *node { return newNode(t, "1.0", "alice", home, false) }, source: "a munge credential",
		},
		"nothing": {
			first:  func() *node { return newNode(t, "1.0", "", "", false) },
			second: func() *node { return newNode(t, "1.0", "", "", false) },
		},
		"another user": {
			first:  func() *node { return newNode(t, "1.0", "mallory", "", false) },
			second: func() *node { return newNode(t, "1.0", "alice", "", false) }, refused: "munge refuses its credential",
		},
		"another run": {
			first:  func() *node { return newNode(t, "2.0", "alice", "", false) },
			second: func() *node { return newNode(t, "1.0", "alice", "", false) }, refused: "a gorun of another run answers there",
		},
		"munge on the first only": {
			first:  func() *node { return newNode(t, "1.0", "alice", "", false) },
			second: func() *node { return newNode(t, "1.0", "", home, false) }, refused: "which this node cannot use (no munge here)", reported: true,
		},
		"munge on the second only": {
			first:  func() *node { return newNode(t, "1.0", "", "", false) },
			second: func() *node { return newNode(t, "1.0", "alice", "", false) }, refused: "munge works on this node and not on that one (no munge here", reported: true,
		},
		"a file and munge on the second": {
			first:  func() *node { return newNode(t, "1.0", "", home, false) },
			second: func() *node { return newNode(t, "1.0", "alice", home, false) }, refused: "munge works on this node and not on that one",
		},
		"the user's secret on the first": {
			first:  func() *node { return newNode(t, "1.0", "alice", "", true) },
			second: func() *node { return newNode(t, "1.0", "alice", "", false) }, refused: "the user gave it to that node", reported: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := c.first(), c.second()
			var want secret.Secret
			if !first.opts.Given {
				want = makeSecret(t, first)
			}
			at := first.serve(t)
			got, err := second.Ask(t.Context(), []string{at}, -1)
			if c.refused != "" {
				refused, ok := errors.AsType[*Refused](err)
				if !ok || !strings.Contains(refused.Text, c.refused) || !strings.Contains(refused.Text, at) || got.Given() {
					t.Errorf("%v, %v", got, err)
				}
			} else if err != nil || !sameKey(got, want) || got.Given() != (c.source != "") {
				t.Errorf("%v, %v", got, err)
			}
			if from, _ := second.Source(); c.refused == "" && from != c.source {
				t.Errorf("the secret comes from %q, not %q", from, c.source)
			}
			first.mu.Lock()
			defer first.mu.Unlock()
			if (len(first.lines) > 0) != c.reported {
				t.Errorf("the first node says %q", first.lines)
			}
		})
	}
}

// TestFileIsRemovedAndMadeAgain checks the file in a shared home: only its user can use
// it, it goes when the nodes have joined, and a node that comes later gets another one.
func TestFileIsRemovedAndMadeAgain(t *testing.T) {
	home := t.TempDir()
	first := newNode(t, "1.0", "", home, false)
	want, at := makeSecret(t, first), first.serve(t)
	files := func() []string {
		names, err := filepath.Glob(filepath.Join(home, ".gorun", "secret-*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	all := files()
	if len(all) != 1 {
		t.Fatalf("files: %v", all)
	}
	if info, err := os.Stat(all[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Chmod(all[0], 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := newNode(t, "1.0", "", home, false).Ask(t.Context(), []string{at}, -1); err == nil || !strings.Contains(err.Error(), "other users can use it (mode 0640)") {
		t.Errorf("a file that others can read: %v", err)
	}
	first.MarkJoined()
	for end := time.Now().Add(20 * time.Second); len(files()) > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("files are left: %v", files())
		}
	}
	if got, err := newNode(t, "1.0", "", home, false).Ask(t.Context(), []string{at}, -1); err != nil || !sameKey(got, want) {
		t.Errorf("later: %v, %v", got, err)
	}
}

// TestFilesOfOtherJobs checks that a job with the same run id leaves the file of a job
// that waits for its nodes, and removes what a node left that was killed long ago.
func TestFilesOfOtherJobs(t *testing.T) {
	f := folder{t.TempDir(), true}
	run := hashRun("1.0")
	names := []string{}
	for range 3 {
		name, err := f.write(run, randomText())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	other := filepath.Join(f.path, "notes")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * leftAfter)
	for _, path := range []string{filepath.Join(f.path, names[0]), other} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.write(hashRun("2.0"), randomText()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(names[0], run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old file: %v", err)
	}
	for _, name := range names[1:] {
		if _, err := f.read(name, run); err != nil {
			t.Errorf("the file of another job: %v", err)
		}
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file that gorun did not make: %v", err)
	}
}

// TestOldCredentialIsRefused checks that a credential counts for one request of one run.
func TestOldCredentialIsRefused(t *testing.T) {
	run, nonce, key := hashRun("1.0"), randomText(), randomText()
	asked := request{Run: run, Nonce: nonce}
	good := sealed{purpose, run, nonce, key}
	if got, err := openSealed(line(good), asked); err != nil || got != key {
		t.Errorf("%q, %v", got, err)
	}
	for name, bad := range map[string]sealed{
		"another request": {purpose, run, randomText(), key}, "another run": {purpose, hashRun("2.0"), nonce, key},
		"another purpose": {"login", run, nonce, key}, "no key": {purpose, run, nonce, ""},
	} {
		if _, err := openSealed(line(bad), asked); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestAskWaits checks that a node waits for the first node, whatever else answers there,
// and that a stranger at another endpoint does not end the wait.
func TestAskWaits(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	go func() { // a program that is no gorun
		for {
			c, err := free.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("220 mail ready\n"))
			c.Close()
		}
	}()
	stranger := newNode(t, "1.0", "mallory", "", false)
	makeSecret(t, stranger)
	other := stranger.serve(t)
	second := newNode(t, "1.0", "alice", "", false)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := second.Ask(ctx, []string{at, other}, -1); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no gorun answers there") {
		t.Errorf("a program that is no gorun: %v", err)
	}
	free.Close()
	first := newNode(t, "1.0", "alice", "", false)
	want := makeSecret(t, first)
	go func() {
		<-time.After(200 * time.Millisecond)
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Error(err)
			return
		}
		_ = first.Serve(t.Context(), l)
	}()
	if got, err := second.Ask(t.Context(), []string{at, other}, -1); err != nil || !sameKey(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if late, err := newNode(t, "1.0", "alice", "", false).Ask(t.Context(), []string{unused(t), second.serve(t)}, -1); err != nil || !sameKey(late, want) {
		t.Errorf("from the node of another endpoint: %v, %v", late, err)
	}
}

// unused returns an address at which no program listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestFileOfAnotherNameIsNotRead checks that an answer cannot name a file elsewhere.
func TestFileOfAnotherNameIsNotRead(t *testing.T) {
	for _, name := range []string{"../x", "secret-", "", prefix(hashRun("1.0")) + "../../../../etc/passwd-0000000"} {
		if _, err := decodeAnswer(line(answer{Way: byFile, File: name})); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	if _, err := (folder{t.TempDir(), true}).read(prefix(hashRun("2.0"))+randomText()[:32], hashRun("1.0")); err == nil {
		t.Error("a file of another run is read")
	}
}

func TestFindFolder(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"home": {[]string{"HOME=/h"}, "/h/.gorun"}, "state": {[]string{"HOME=/h", "XDG_STATE_HOME=/s"}, "/s/gorun"},
		"relative": {[]string{"HOME=h", "XDG_STATE_HOME=s"}, ""}, "none": {nil, ""},
	} {
		if got := findFolder(c.env); got.path != c.want || got.shared {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(request{Run: hashRun("1.0"), Nonce: randomText(), Munge: true}.encode())
	f.Add([]byte(greeting + "{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := decodeRequest(text); err == nil && (!isRandomText(r.Run) || !isRandomText(r.Nonce)) {
			t.Errorf("%+v", r)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(answer{Way: byFile, File: prefix(hashRun("1.0")) + randomText()[:32]}.encode())
	f.Add(answer{Way: byMunge, Credential: "MUNGE:x:", Why: "\x1b"}.encode())
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := decodeAnswer(text)
		if err == nil && (strings.Contains(a.File, "/") || strings.ContainsAny(a.Why, "\x1b\n")) {
			t.Errorf("%+v", a)
		}
	})
}

func FuzzSealed(f *testing.F) {
	asked := request{Run: hashRun("1.0"), Nonce: randomText()}
	f.Add(line(sealed{purpose, asked.Run, asked.Nonce, randomText()}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if key, err := openSealed(text, asked); err == nil && (!json.Valid(text) || !isRandomText(key)) {
			t.Errorf("%q", key)
		}
	})
}
