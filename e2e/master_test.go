package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
)

// printMaster is a worker that prints where the workers' store is and whose it is.
const printMaster = `echo "at $MASTER_ADDR:$MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE."`

// TestStoreOfOneNode checks where the workers of one node find their store.
func TestStoreOfOneNode(t *testing.T) {
	t.Parallel()
	port := porttest.Free(t, "127.0.0.1")
	for name, c := range map[string]struct {
		flags []string
		want  string // "PORT" stands for any port
	}{
		"a port":              {[]string{"--master-port", fmt.Sprint(port)}, fmt.Sprintf("at 127.0.0.1:%d True.", port)},
		"an endpoint":         {[]string{"--rdzv-backend=static", fmt.Sprintf("--rdzv-endpoint=127.0.0.1:%d", port)}, fmt.Sprintf("at 127.0.0.1:%d True.", port)},
		"an endpoint alone":   {[]string{fmt.Sprintf("--rdzv-endpoint=localhost:%d", port)}, fmt.Sprintf("at localhost:%d True.", port)},
		"any port":            {[]string{"--master-port=0"}, "at 127.0.0.1:PORT True."},
		"standalone":          {[]string{"--standalone"}, "at 127.0.0.1:PORT False."},
		"c10d":                {[]string{"--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"}, "at 127.0.0.1:PORT False."},
		"a port, standalone":  {[]string{"--standalone", "--master-port", fmt.Sprint(port)}, fmt.Sprintf("at 127.0.0.1:%d True.", port)},
		"standalone in a pod": {[]string{"--standalone"}, "at 127.0.0.1:PORT False."},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: some have the same port
			j := newJob(t, c.flags...)
			cmd := j.command(sh(printMaster)...)
			if name == "standalone in a pod" {
				cmd.Env = append(cmd.Env, fmt.Sprintf("PET_MASTER_PORT=%d", port), "PET_MASTER_ADDR=192.0.2.1")
			}
			a := j.launch(name, cmd)
			j.wantExit(longWait, 0, a)
			head, tail, _ := strings.Cut(c.want, "PORT")
			got := strings.TrimSpace(a.out.String())
			middle := strings.TrimSuffix(strings.TrimPrefix(got, head), tail)
			if n, err := strconv.Atoi(middle); tail == "" && got != c.want || tail != "" && (err != nil || n < 1024 || n == port) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestDefaultPortTaken checks that a job starts beside another program at the default
// port.
func TestDefaultPortTaken(t *testing.T) {
	t.Parallel()
	if l, err := net.Listen("tcp", "127.0.0.1:29500"); err == nil { // else another program has it
		defer l.Close()
	}
	j := newJob(t)
	a := j.run("a", "--no-python", "bash", "-c", printMaster+`; exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT && echo served`)
	j.wantExit(longWait, 0, a)
	if got := a.out.String(); strings.Contains(got, ":29500 ") || !strings.HasSuffix(got, "True.\nserved\n") {
		t.Errorf("%q", got)
	}
}

// TestManyStandaloneJobs checks that standalone jobs of one machine that run at the same
// time have different ports, which rank 0 of each can open.
func TestManyStandaloneJobs(t *testing.T) {
	t.Parallel()
	py := python(t, "socketserver")
	const serve = `
import os, socket, sys, time
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(at)
s.listen()
print("port", at[1], flush=True)
while not os.path.exists(os.environ["E2E_DIR"] + "/go"): time.sleep(0.1)
`
	j := newJob(t, "--standalone")
	var agents []*agent
	ports := map[string]bool{}
	for i := range 4 {
		agents = append(agents, j.run(fmt.Sprint(i), py, "-c", serve))
	}
	for _, a := range agents {
		a.waitForStdout("port ", 1)
		ports[a.out.String()] = true
	}
	if len(ports) != len(agents) {
		t.Errorf("ports %v of %d jobs", ports, len(agents))
	}
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
}

// TestOwnStoreOfStandaloneJob checks that torch's workers meet in a standalone job: by
// env://, at a place of their own, and by a store that rank 0 opens by hand. A restart
// has the same place.
func TestOwnStoreOfStandaloneJob(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	for name, how := range map[string]string{
		"env":   `dist.init_process_group("gloo")`,
		"tcp":   `dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{own}", rank=rank, world_size=2)`,
		"store": `dist.init_process_group("gloo", store=dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, rank == 0), rank=rank, world_size=2)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := porttest.Free(t, "127.0.0.1")
			j := newJob(t, "--standalone", "--nproc-per-node=2", "--max-restarts=1")
			script := fmt.Sprintf(`
import os, sys, torch, torch.distributed as dist
own, rank = %d, int(os.environ["RANK"])
%s
x = torch.ones(1)
dist.all_reduce(x)
dist.barrier()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and rank == 1: sys.exit(3)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0": dist.barrier()
os.write(1, ("sum " + str(int(x)) + "\n").encode())
dist.barrier()
`, own, how)
			file := filepath.Join(j.dir, "own.py")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			j.env = []string{"PYTHON_EXEC=" + py, "GLOO_SOCKET_IFNAME=lo"}
			a := j.run("a", file)
			j.wantExit(6*longWait, 0, a)
			a.waitForStdout("sum 2\n", 2)
		})
	}
}
