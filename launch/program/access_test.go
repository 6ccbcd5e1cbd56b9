package program

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/rendezvous/preflight/ldso"
	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

// TestFilesAreTriedAsTheWorkersUser checks that files are tried as the workers' user: a mode that
// lets another user execute or read them is not enough.
func TestFilesAreTriedAsTheWorkersUser(t *testing.T) {
	elf := string(ldsotest.Bytes(t, ldsotest.Library{Program: true}))
	interp, err := ldso.Interpreter("/bin/sh")
	if err != nil || len(interp) < len("/no/such/ld.so") {
		t.Fatalf("the loader of /bin/sh: %q, %v", interp, err)
	}
	elf = strings.Replace(elf, interp, "/no/such/ld.so"+strings.Repeat("\x00", len(interp)-len("/no/such/ld.so")), 1)
	root := tree(t, map[string]string{
		"bin/python3*": "#!/bin/sh\n", "venv/bin/python*": "", "w/train.py": "", "w/closed.py": "", "w/run*": "#!/bin/sh\n", "w/closed*": "#!/bin/sh\n",
		"w/lost*": "#!/no/such/interpreter -x\n",
		"w/elf*":  elf,
	})
	for name, mode := range map[string]os.FileMode{"w/closed.py": 0o600, "w/closed": 0o700, "venv/bin/python": 0o700, ".": 0o755, "..": 0o755} {
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string, env ...string) string {
		plan, err := Check(Input{Program: name, Dir: root + "/w", Env: append(env, "PATH="+root+"/bin")})
		if err != nil {
			return err.Error()
		}
		return plan.path
	}
	for name, want := range map[string]string{"lost": "/no/such/interpreter, is missing", "elf": "/no/such/ld.so, is missing"} {
		if got := check(name); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("only root can act as another user")
	default:
		t.Skip("only root can act as another user")
	}
	runtime.LockOSThread() // not unlocked, so that the thread ends with the goroutine
	const otherUser = 65534
	if err := unix.Setfsuid(otherUser); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setfsuid(0) }() // the user that removes the files
	for name, want := range map[string]string{
		"train.py": root + "/bin/python3", "run": root + "/w/run",
		"closed.py": "this user may not read it", "closed": "may not be executed by this user",
	} {
		if got := check(name); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := check("train.py", "VIRTUAL_ENV="+root+"/venv"); got != root+"/bin/python3" {
		t.Errorf("another user's virtual environment: %s", got)
	}
}
