package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestAncestorLost checks that a process notices the end of a process above it that
// is not its parent.
func TestAncestorLost(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	above := exec.Command(sleep, "60")
	if err := above.Start(); err != nil {
		t.Fatal(err)
	}
	a, err := openAncestor(above.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	lost := make(chan struct{})
	a.Watch(func() { close(lost) })
	select {
	case <-lost:
		t.Fatal("lost while it lives")
	default:
	}
	_ = above.Process.Kill()
	select {
	case <-lost:
	case <-time.After(10 * time.Second):
		t.Error("its end was not noticed within 10 s")
	}
	_ = above.Wait()
}

// TestAncestorClose checks that Close ends the watch of a process that lives.
func TestAncestorClose(t *testing.T) {
	a, err := openAncestor(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	a.Watch(func() { t.Error("the parent is lost") })
	a.Close()
}

// TestFindAncestor checks that the search goes up over several processes and does not
// find what is beside it.
func TestFindAncestor(t *testing.T) {
	if name := os.Getenv("FIND_ANCESTOR"); name != "" {
		a, err := FindAncestor(name)
		if err != nil || a == nil {
			t.Fatalf("%v, %v", a, err)
		}
		a.Close()
		return
	}
	if a, err := FindAncestor("no such name"); a != nil || err != nil {
		t.Errorf("%v, %v", a, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(t.TempDir(), "above")
	if err := os.Symlink("/bin/sh", top); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(top, "-c", `sh -c "$0 -test.run=TestFindAncestor; exit \$?"; exit $?`, self)
	cmd.Env = append(os.Environ(), "FIND_ANCESTOR=above")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.Log(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
