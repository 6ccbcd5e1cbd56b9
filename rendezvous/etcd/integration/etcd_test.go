// Package integration runs the conformance tests of package etcd with the newest etcd server,
// built from its Go module, which is far too large for gorun's own go.mod.
package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds an etcd server")
	}
	server := filepath.Join(t.TempDir(), "etcd")
	run(t, ".", "build", "-o", server, "go.etcd.io/etcd/server/v3")
	t.Setenv("GORUN_ETCD", server)
	run(t, "../../..", "test", "-count=1", "-timeout=9m", "-run=TestEtcdConformance$", "./rendezvous/etcd")
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %v: %v", args, err)
	}
}
