package e2e_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// readOnly makes every file system of a mount namespace read-only, then executes the
// command that follows.
const readOnly = `awk '{print $2}' /proc/self/mounts | sort -u | while read -r at; do
	case $at in /proc*|/sys*|/dev/pts*) ;; *) mount -o remount,bind,ro "$at" 2>/dev/null ;; esac
done
for at in /tmp /var/tmp /dev/shm .; do ! touch $at/gorun-e2e-probe 2>/dev/null || exit 99; done
exec "$@"`

// TestEveryPlaceReadOnly checks that where no file can be written, a job that writes
// none starts, and says what its workers lack.
func TestEveryPlaceReadOnly(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("unshare")
	need(t, err == nil && os.Getuid() == 0, "unshare and root, for read-only file systems")
	for name, c := range map[string]struct {
		flags []string
		code  int
		text  string
	}{
		"job":         {[]string{"--standalone", "--nproc-per-node", "2"}, 0, "no TORCHELASTIC_ERROR_FILE and no GORUN_WORKER_SOCKET; set TMPDIR"},
		"local nodes": {[]string{"--local-nodes", "2"}, 0, "no TORCHELASTIC_ERROR_FILE and no GORUN_WORKER_SOCKET; set TMPDIR"},
		"with files":  {[]string{"--standalone", "-t", "3"}, 2, "name one with --log-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			cmd := j.command(append(c.flags, sh(`echo up $RANK ${TORCHELASTIC_ERROR_FILE:-none} ${GORUN_WORKER_SOCKET:-none}`)...)...)
			cmd.Args = slices.Concat([]string{path, "--mount", "sh", "-c", readOnly, "sh", cmd.Path}, cmd.Args[1:])
			cmd.Path = path
			a := j.launch("job", cmd)
			j.wantExit(longWait, c.code, a)
			wantParts(t, a.err.String(), c.text)
			if c.code == 0 {
				wantParts(t, a.out.String(), "up 0 none none", "up 1 none none")
			}
		})
	}
}
