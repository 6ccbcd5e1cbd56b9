package rules

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// runnable returns the beginnings of the lines that may be run in separate
// namespaces, without a GPU, and that change nothing outside.
func runnable() []string {
	return []string{
		"export NCCL_", "export CUDA_VISIBLE_DEVICES=", "export LD_LIBRARY_PATH=", "export NO_PROXY=",
		"ulimit -S -s ", "sudo prlimit --pid $$ --nofile=", "sudo prlimit --pid $$ --memlock=", "sudo prlimit --pid $$ --as=", "sudo prlimit --pid $$ --nproc=",
		"mount -o remount,size=", "mkdir -p /dev/shm && mount ", "find /dev/shm ", "sed -i ", "rm -rf /data/site",
		"ip link set dev eth0 mtu ", "sysctl -w net.core.somaxconn=", "sysctl -w net.ipv4.conf.",
	}
}

// TestLinesOfFixesRun runs the lines that can be run here, in a mount and a
// network namespace.
func TestLinesOfFixesRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing: root")
	}
	for _, tool := range []string{"unshare", "ip", "prlimit", "sysctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("missing: ", tool)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "-mn", "true").CombinedOutput(); err != nil {
		t.Skipf("missing: name spaces (%v %s)", err, out)
	}
	lines := map[string]bool{}
	all := cases()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		for _, c := range all[id] {
			if c.severity == "" {
				continue
			}
			for _, x := range findingsOf(id, preflight.Compare(c.fleet(), All(), preflight.Options{})) {
				for _, s := range x.Steps {
					for _, line := range s.Lines {
						lines[line] = s.Place == preflight.InShell || s.Place == preflight.AsRoot
					}
				}
			}
		}
	}
	// A sandbox may keep even root from raising limits.
	script := `sudo() { "$@"; }
mount --make-rprivate / && mount -t tmpfs tmpfs /etc && echo 'root:x:0:0::/:/bin/sh' > /etc/passwd || exit
printf 'NCCL_PROTO=LL128\nNCCL_ALGO=Ring\n' > /etc/nccl.conf
mount -t tmpfs -o size=64m tmpfs /dev/shm && mount -t tmpfs tmpfs /mnt || exit
touch /dev/shm/nccl-abc /dev/shm/other
ip link add eth0 type veth peer name eth1 || exit
`
	for _, begin := range runnable() {
		found := false
		for _, line := range slices.Sorted(maps.Keys(lines)) {
			if lines[line] && strings.HasPrefix(line, begin) {
				found = true
				script += fmt.Sprintf("( %s ) > /mnt/out 2>&1 || grep -q 'resource limit: Operation not permitted' /mnt/out || { echo %s: $(cat /mnt/out); }\n", line, term.Command(line))
			}
		}
		if !found {
			t.Errorf("no case shows a line that begins with %q", begin)
		}
	}
	// These commands check what some of the lines did.
	script += `grep -q NCCL_PROTO /etc/nccl.conf && echo "sed left NCCL_PROTO"
[ -e /dev/shm/nccl-abc ] && echo "find left a segment"
( ulimit -S -s unlimited; ulimit -S -s 8192; [ "$(ulimit -s)" = 8192 ] ) || echo "ulimit: no effect"
exit 0
`
	out, err := exec.CommandContext(t.Context(), "unshare", "-mn", "bash", "-c", script).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
