package e2e_test

import (
	"os/exec"
	"strings"
	"testing"
)

// askStore is a shell's client of the store: it prints the number of bytes of the
// answer to "how many keys", 8, or 0 if there is none.
const askStore = `exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; printf '\000\316\367\205\074\007' >&3; head -c 8 <&3 2>/dev/null | wc -c`

// TestStoreAnswersItsJob checks that the store answers only the workers of the job's
// nodes and the containers of its own machine, and says which address it refused. With
// --store-open it answers everybody.
func TestStoreAnswersItsJob(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("bash")
	need(t, err == nil, "bash, for /dev/tcp")
	l := newLAN(t, 3)
	for _, open := range []bool{false, true} {
		j := newJob(t, "--preflight", "off")
		if open {
			j.flags = append(j.flags, "--store-open")
		}
		script := []string{"bash", "-c", `echo "store $MASTER_ADDR $MASTER_PORT: $(` + askStore + `)"; ` + untilGo}
		agents := []*agent{l.node(j, 1, l.addr(1), "2", script...), l.node(j, 2, l.addr(1), "2", script...)}
		for _, a := range agents {
			a.waitForStdout("up", 1)
		}
		_, at, _ := strings.Cut(agents[0].out.String(), "store ")
		at, _, _ = strings.Cut(at, ":")
		addr, port, _ := strings.Cut(at, " ")
		client := func() string {
			cmd := exec.Command("ip", "netns", "exec", l.host(3), "timeout", "5", "bash", "-c", askStore)
			cmd.Env = append(cmd.Environ(), "MASTER_ADDR="+addr, "MASTER_PORT="+port)
			out, _ := cmd.Output()
			return strings.TrimSpace(string(out))
		}
		if got := client(); (got == "8") != open {
			t.Errorf("a stranger gets %q; open: %v", got, open)
		}
		if !open {
			agents[0].waitForStderr("refused a connection from " + l.addr(3))
			// The third host becomes a container of the first one's.
			l.ip(1, "link add cbr0 type bridge forward_delay 0 stp_state 0")
			l.ip(1, "addr add 172.31.7.1/24 dev cbr0")
			l.ip(1, "link set cbr0 up")
			l.ip(1, "link add c0 type veth peer name eth1 netns "+l.host(3))
			l.ip(1, "link set c0 master cbr0 up")
			l.ip(3, "addr add 172.31.7.2/24 dev eth1")
			l.ip(3, "link set eth1 up")
			l.ip(3, "route add "+addr+"/32 via 172.31.7.1 src 172.31.7.2")
			eventually(t, shortWait, "a container is served", func() bool { return client() == "8" })
			l.ip(3, "link del eth1")
		}
		j.touch("go")
		j.wantExit(longWait, 0, agents...)
		for _, a := range agents {
			if !strings.Contains(a.out.String(), at+": 8") {
				t.Errorf("%s is not served: %s", a.name, a.out)
			}
		}
	}
}
