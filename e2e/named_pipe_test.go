package e2e_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNamedPipeForFile checks that a named pipe in a file's place makes no gorun wait
// for its other end.
func TestNamedPipeForFile(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := []string{"--nnodes", "2", "--rdzv-backend", "etcd", "--rdzv-endpoint", "https://127.0.0.1:1"}
	for name, c := range map[string]struct {
		flags []string
		code  int
		text  string
	}{
		"env file":    {[]string{"--standalone", "--env-file", fifo}, 2, "gorun: --env-file " + fifo + ": it is a pipe"},
		"secret file": {[]string{"--standalone", "--secret-file", fifo}, 2, "it is a pipe"},
		"CA":          {append(etcd, "--etcd-cacert", fifo), 2, "it is a pipe"},
		"key":         {append(etcd, "--etcd-cert", fifo, "--etcd-key", fifo), 2, "it is a pipe"},
		"report":      {[]string{"--standalone", "--report", fifo}, 0, "a named pipe that no program reads"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			a := j.run("job", append(c.flags, "--no-python", "true")...)
			j.wantExit(longWait, c.code, a)
			wantParts(t, a.err.String(), c.text)
		})
	}
}
