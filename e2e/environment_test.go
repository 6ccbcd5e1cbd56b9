package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// printEnv is a worker that writes down its environment.
var printEnv = sh(`env -0 >$E2E_DIR/env.$RANK`)

// startPair starts two nodes of one worker. Each node has its own environment and flags.
func (j *job) startPair(env, flags [2][]string, program ...string) []*agent {
	j.Helper()
	var agents []*agent
	common := j.env
	for i := range 2 {
		j.env = append(append([]string{}, common...), env[i]...)
		agents = append(agents, j.node(i+1, "2", with(program, flags[i]...)...))
	}
	j.env = common
	return agents
}

// TestOneEnvironment checks that a variable that must be equal on all ranks gets the
// first node's value, and gorun says so, with the preflight and without. A variable that
// belongs to a node stays unchanged.
func TestOneEnvironment(t *testing.T) {
	t.Parallel()
	for _, preflight := range []string{"error", "off"} {
		t.Run(preflight, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--preflight", preflight)
			agents := j.startPair([2][]string{
				{"NCCL_ALGO=Ring", "NCCL_SOCKET_IFNAME=eth7", "E2E_OWN=a", "NCCL_DEBUG_SUBSYS=NET"},
				{"NCCL_ALGO=Tree", "NCCL_SOCKET_IFNAME=eth8", "E2E_OWN=b", "NCCL_PROTO=LL"},
			}, [2][]string{}, printEnv...)
			j.wantExit(longWait, 0, agents...)
			for rank, want := range []map[string]string{
				{"NCCL_ALGO": "Ring", "NCCL_SOCKET_IFNAME": "eth7", "E2E_OWN": "a", "NCCL_DEBUG_SUBSYS": "NET"},
				{"NCCL_ALGO": "Ring", "NCCL_SOCKET_IFNAME": "eth8", "E2E_OWN": "b", "NCCL_DEBUG_SUBSYS": ""},
			} {
				env := j.environ(rank)
				for name, value := range want {
					if env[name] != value {
						t.Errorf("rank %d: %s=%q, want %q", rank, name, env[name], value)
					}
				}
				if value, set := env["NCCL_PROTO"]; set {
					t.Errorf("rank %d: NCCL_PROTO=%q, which the first node does not have", rank, value)
				}
			}
			stderr := agents[0].err.String() + agents[1].err.String()
			wantParts(t, stderr, "warning E01", "NCCL_ALGO=Ring, NCCL_PROTO unset", "NCCL_ALGO=Tree, NCCL_PROTO=LL", "127.0.0.1", "127.0.0.2")
			if strings.Contains(stderr, "NCCL_SOCKET_IFNAME") || strings.Count(stderr, "warning E01") != 1 {
				t.Errorf("they say:\n%s", stderr)
			}
		})
	}
}

// TestConflictRefused checks that a conflict refuses the job if the user wants that.
// Both nodes show why, also without the preflight, and -x resolves it.
func TestConflictRefused(t *testing.T) {
	t.Parallel()
	env := [2][]string{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}}
	for _, preflight := range []string{"error", "off"} {
		t.Run(preflight, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--env-conflict", "error", "--preflight", preflight)
			agents := j.startPair(env, [2][]string{}, printEnv...)
			j.wantExit(longWait, 78, agents...)
			for _, a := range agents {
				wantParts(t, a.err.String(), "error E01", "NCCL_ALGO=Ring", "NCCL_ALGO=Tree", "127.0.0.1", "127.0.0.2")
			}
			if left, _ := filepath.Glob(j.dir + "/env.*"); left != nil {
				t.Errorf("workers were started: %v", left)
			}
		})
	}
	t.Run("settled", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, "--env-conflict", "error")
		j.wantExit(longWait, 0, j.startPair(env, [2][]string{1: {"-x", "NCCL_ALGO=Ring,Tree"}}, printEnv...)...)
		for rank := range 2 {
			if got := j.environ(rank)["NCCL_ALGO"]; got != "Ring,Tree" {
				t.Errorf("rank %d: NCCL_ALGO=%q", rank, got)
			}
		}
	})
}

// TestRequestedEnvironment checks that -x, --env-file and --unset of any node count for
// all nodes, or for the nodes that they name.
func TestRequestedEnvironment(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	file := filepath.Join(j.dir, "job.env")
	if err := os.WriteFile(file, []byte("# of the job\nFROM_FILE='a b'\nBOTH=file\nexport SEED=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agents := j.startPair([2][]string{{"GONE=1", "MY_A=1", "MY_B=2"}, {"GONE=2", "GONE_TOO=3"}}, [2][]string{
		{"--role", "ps", "-x", "MY_*", "-x", "BOTH=flag", "-x", "role=ps:OMP_NUM_THREADS=3"},
		{"--role", "trainer", "--env-file", file, "--unset", "GONE*", "-x", "node=0:ONLY=first, and alone", "-x", "node=1:NODE=one"},
	}, printEnv...)
	j.wantExit(longWait, 0, agents...)
	for rank, want := range []map[string]string{
		{
			"MY_A": "1", "MY_B": "2", "BOTH": "flag", "FROM_FILE": "a b", "SEED": "1", "GONE": "", "GONE_TOO": "",
			"ONLY": "first, and alone", "NODE": "", "OMP_NUM_THREADS": "3",
		},
		{
			"MY_A": "1", "MY_B": "2", "BOTH": "flag", "FROM_FILE": "a b", "SEED": "1", "GONE": "", "GONE_TOO": "",
			"ONLY": "", "NODE": "one", "OMP_NUM_THREADS": "1",
		},
	} {
		env := j.environ(rank)
		for name, value := range want {
			if got, set := env[name]; got != value || set != (value != "") {
				t.Errorf("rank %d: %s=%q (set: %v), want %q", rank, name, got, set, value)
			}
		}
	}
}

// TestRequestedEnvironmentOfOneNode checks that a single node follows the requests too,
// without any check.
func TestRequestedEnvironmentOfOneNode(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone")
	j.env = []string{"GONE=1"}
	j.wantExit(longWait, 0, j.run("alone", with(printEnv, "-x", "HERE=1", "--unset", "GONE", "-x", "node=0:ZERO=0", "-x", "node=1:NOT=1")...))
	env := j.environ(0)
	if _, set := env["GONE"]; set || env["HERE"] != "1" || env["ZERO"] != "0" || env["NOT"] != "" {
		t.Errorf("HERE=%q ZERO=%q NOT=%q, GONE is set: %v", env["HERE"], env["ZERO"], env["NOT"], set)
	}
}

func TestEnvironmentErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "job.env")
	if err := os.WriteFile(file, []byte("A=1\n\nPASSWORD=\"hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"a file":          {[]string{"--env-file", file}, file + ":3: "},
		"no file":         {[]string{"--env-file", file + "x"}, "--env-file " + file + "x: no such file"},
		"reserved":        {[]string{"-x", "RANK=5"}, "-x RANK: "},
		"no name":         {[]string{"-x", "A B=1"}, "\"A B\""},
		"a host":          {[]string{"-x", "node1:A=1"}, "-x node1:A: "},
		"no such policy":  {[]string{"--env-conflict", "last"}, "--env-conflict last"},
		"no such threads": {[]string{"--omp", "many"}, "--omp"},
		"a value to lose": {[]string{"--unset", "A=1"}, "--unset A: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--standalone")
			a := j.run(name, with(sh("exit 0"), c.flags...)...)
			j.wantExit(longWait, 2, a)
			j.wantCause([]*agent{a}, c.want)
			if strings.Contains(a.err.String(), "hunter2") {
				t.Errorf("it says:\n%s", a.err.String())
			}
		})
	}
}

// TestCredentialIsNotShown checks that a credential that -x names reaches every worker
// and nothing else: no output, report, status, printed environment, or file of facts
// shows it.
func TestCredentialIsNotShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-of-the-end-to-end-tests"
	j := newJob(t)
	facts, report := filepath.Join(j.dir, "facts"), filepath.Join(j.dir, "report")
	agents := j.startPair([2][]string{1: {"HF_TOKEN=" + secret, "NCCL_PSK=" + secret, "NCCL_ALGO_TOKENS=" + secret}}, [2][]string{
		{"--report", report}, {"-x", "HF_TOKEN", "-x", "NCCL_PSK"},
	}, "--no-python", "env", "WANDB_API_KEY="+secret, "sh", "-c", `env -0 >$E2E_DIR/env.$RANK; `+untilGo+`; exit $RANK`, "--hub-token", secret)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	shown := ""
	for _, a := range agents {
		for _, args := range [][]string{{"status", "--json"}, {"env"}, {"env", "--json"}, {"env", "--diff"}} {
			out, stderr, code := runClient(t, a.client(args[0], args[1:]...))
			if code != 0 {
				t.Errorf("%v: exit code %d: %s", args, code, stderr)
			}
			if args[0] == "env" {
				wantParts(t, out, "HF_TOKEN", "(hidden)")
			}
			shown += out + stderr
		}
	}
	j.touch("go")
	j.wantExit(longWait, 1, agents...)
	for _, mode := range []string{"check", "env", "dry"} {
		flags := map[string][]string{"check": {"check", "--save", facts, "--json"}, "env": {"env"}, "dry": {"run", "--dry-run"}}[mode]
		all := newJob(t)
		all.env = []string{"HF_TOKEN=" + secret, "NCCL_PSK=" + secret, "TORCH_HUB_TOKENS=" + secret, "MY_CONNECTION_STRING=" + secret, "DB=Password=" + secret}
		a := all.run(mode, append(flags, "-x", "HF_TOKEN", "-x", "NCCL_PSK", "-x", "*", "--no-python", "env", "WANDB_API_KEY="+secret, "true", "--hub-token", secret)...)
		a.wait(longWait)
		shown += a.out.String() + a.err.String()
	}
	for _, name := range []string{facts, report} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(text)
	}
	for _, a := range agents {
		shown += a.out.String() + a.err.String()
	}
	if i := strings.Index(shown, secret); i >= 0 {
		t.Errorf("it is shown: ...%s...", shown[max(0, i-200):i])
	}
	for rank := range 2 {
		if env := j.environ(rank); env["HF_TOKEN"] != secret || env["NCCL_PSK"] != secret {
			t.Errorf("rank %d has HF_TOKEN=%q, NCCL_PSK=%q", rank, env["HF_TOKEN"], env["NCCL_PSK"])
		}
		if env := j.environ(rank); env["NCCL_ALGO_TOKENS"] != map[int]string{1: secret}[rank] || env["WANDB_API_KEY"] != secret {
			t.Errorf("rank %d has NCCL_ALGO_TOKENS=%q, WANDB_API_KEY=%q", rank, env["NCCL_ALGO_TOKENS"], env["WANDB_API_KEY"])
		}
	}
}

// Between machines a credential is sent in clear unless there is a secret.
func TestCredentialInClear(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines())
	f.machines[1].env = append(f.machines[1].env, "HF_TOKEN=hunter2")
	for name, flags := range map[string][]string{"without": nil, "with": newJob(t).secretFile(jobSecret)} {
		j := f.job(t, append(flags, "--preflight", "off")...)
		agents := []*agent{f.start(j, 1, "2", printEnv...), f.start(j, 2, "2", with(printEnv, "-x", "HF_TOKEN")...)}
		j.wantExit(longWait, 0, agents...)
		if stderr := strings.Contains(agents[1].err.String(), "warning: -x HF_TOKEN travels to the other nodes in clear"); stderr != (flags == nil) {
			t.Errorf("%s a secret: a warning: %v", name, stderr)
		}
		if got := j.environ(0)["HF_TOKEN"]; got != "hunter2" {
			t.Errorf("%s a secret: rank 0 has HF_TOKEN=%q", name, got)
		}
	}
}

// TestNextFirstNodeDecides checks that after the loss of the first node the next node's
// values count.
func TestNextFirstNodeDecides(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1", "--rdzv-conf", "last_call_timeout=1")
	var agents []*agent
	for i, algo := range []string{"Ring", "Tree", "NVLS"} {
		j.env = []string{"NCCL_ALGO=" + algo}
		agents = append(agents, j.node(i+1, "2:3", sh(`echo got $NCCL_ALGO; while [ $WORLD_SIZE = 3 ]; do sleep 0.05; done`)...))
	}
	for _, a := range agents {
		a.waitForStdout("got Ring", 1)
	}
	j.kill(agents[0].pid())
	for _, a := range agents[1:] {
		a.waitForStdout("got Tree", 1)
	}
	j.wantExit(longWait, 0, agents[1:]...)
}

// shownEnv makes the output of gorun env and --dry-run the same on every machine.
func shownEnv(out string) string {
	host, _ := os.Hostname()
	out = strings.ReplaceAll(out, host, "HOST")
	for _, r := range []struct{ pattern, to string }{
		{`(?m)(\S)  +`, "$1  "},
		{`MASTER_PORT=\d+`, "MASTER_PORT=PORT"},
		{`=/\S*error\.json`, "=FOLDER/error.json"},
		{`GORUN_WORKER_SOCKET=\S+`, "GORUN_WORKER_SOCKET=SOCKET"},
		{`e2e-\d+`, "RUN"},
		{`command of (.*): \S*/sh`, "command of $1: sh"},
	} {
		out = regexp.MustCompile(r.pattern).ReplaceAllString(out, r.to)
	}
	return out
}

// TestEnvironmentIsShown checks that gorun env and --dry-run rendezvous as a job does,
// decide the environment, print it and start nothing.
func TestEnvironmentIsShown(t *testing.T) {
	t.Parallel()
	env := [2][]string{{"NCCL_ALGO=Ring", "GONE=1"}, {"NCCL_ALGO=Tree"}}
	flags := [2][]string{{"--nproc-per-node", "2"}, {"-x", "SEED=7", "-x", "API_KEY=hunter2", "--unset", "GONE"}}
	program := sh(`touch $E2E_DIR/started.$RANK ${local_rank}`)
	for name, first := range map[string][]string{"env": {"env", "--diff"}, "dry-run": {"run", "--dry-run"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, first...)
			j.id = "e2e-0"
			agents := j.startPair(env, flags, program...)
			j.wantExit(longWait, 0, agents...)
			for i, a := range agents {
				golden(t, fmt.Sprintf("../env/%s-%d.txt", name, i), shownEnv(a.out.String()))
			}
			if left, _ := filepath.Glob(j.dir + "/started.*"); left != nil {
				t.Errorf("workers were started: %v", left)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, "env", "--env-conflict", "error")
		agents := j.startPair(env, flags, program...)
		j.wantExit(longWait, 78, agents...)
		if agents[0].out.String() != "" {
			t.Errorf("it prints %s", agents[0].out.String())
		}
	})
}

// TestEnvironmentOfRunningJob checks that gorun env prints of a running job the
// environment that its workers have.
func TestEnvironmentOfRunningJob(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	agents := j.startPair([2][]string{{"NCCL_ALGO=Ring", "E2E_ODD=a\tb"}, {"NCCL_ALGO=Tree"}}, [2][]string{{"--nproc-per-node", "2"}, {"-x", "SEED=7"}},
		sh(`env -0 >$E2E_DIR/env.$RANK; `+untilGo)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	out, stderr, code := runClient(t, agents[0].client("env", "--json", "--rank", "1"))
	var n struct {
		Node  int `json:"node"`
		Ranks []struct {
			Rank int                                      `json:"rank"`
			Env  []struct{ Name, Value, Kind, At string } `json:"env"`
		} `json:"ranks"`
	}
	if err := json.Unmarshal([]byte(out), &n); err != nil || code != 0 || n.Node != 0 || len(n.Ranks) != 1 || n.Ranks[0].Rank != 1 {
		t.Fatalf("exit code %d, %v, %s\n%s", code, err, out, stderr)
	}
	j.eventuallyWritten("env.1")
	got := j.environ(1)
	for _, v := range n.Ranks[0].Env {
		if v.Value != "(hidden)" && got[v.Name] != v.Value {
			t.Errorf("%s is %q in the worker, %q in the answer", v.Name, got[v.Name], v.Value)
		}
		if v.Name == "SEED" && (v.Kind != "-x" || v.At != "-x SEED") {
			t.Errorf("SEED is from %q, %q", v.Kind, v.At)
		}
		delete(got, v.Name)
	}
	for _, name := range []string{"_", "PWD", "OLDPWD", "SHLVL"} { // variables of the shell itself
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("the answer lacks %v", got)
	}
	out, _, _ = runClient(t, agents[1].client("env"))
	wantParts(t, out, "node 1, ", "rank 2", "NCCL_ALGO=Ring", "first node", "SEED=7")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--rank", "2"}, 1, "rank 2 of the job"},
		{[]string{"--rank", "x"}, 2, "--rank"},
		{[]string{"--node", "3"}, 1, "node 3 of the job"},
		{[]string{"-x", "A=1"}, 2, "-x (--export)"},
		{[]string{"--nnodes", "2"}, 2, "--nnodes"},
		{[]string{"--rank", "0", "--node", "0"}, 2, "--rank together with --node"},
	} {
		if _, stderr, code := runClient(t, agents[0].client("env", c.args...)); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %s; want %d, %s", c.args, code, stderr, c.code, c.want)
		}
	}
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
}

// eventuallyWritten waits for a file of the job's folder that is not empty.
func (j *job) eventuallyWritten(name string) {
	j.Helper()
	eventually(j, longWait, name, func() bool {
		info, err := os.Stat(filepath.Join(j.dir, name))
		return err == nil && info.Size() > 0
	})
}

// TestNoCodeFromOtherNodesWithoutSecret checks that without a secret no node lets
// another node run code in its workers. With a secret, -x can do as much as the job's
// own command.
func TestNoCodeFromOtherNodesWithoutSecret(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		t.Run(fmt.Sprint("secret ", trusted), func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			var env [2][]string
			if trusted {
				env = [2][]string{{"GORUN_SECRET=0123456789abcdef"}, {"GORUN_SECRET=0123456789abcdef"}}
			}
			env[1] = append(env[1], "NCCL_NET_PLUGIN=none", "PYTHONSAFEPATH=1")
			agents := j.startPair(env, [2][]string{0: {"-x", "PYTHONPATH=/stranger", "-x", "SEED=1", "--unset", "PYTHONSAFE*"}}, printEnv...)
			j.wantExit(longWait, 0, agents...)
			target := j.environ(1)
			if got := target["PYTHONPATH"] == "/stranger" && target["PYTHONSAFEPATH"] == ""; got != trusted || target["SEED"] != "1" {
				t.Errorf("the other node's worker: PYTHONPATH=%q, PYTHONSAFEPATH=%q, SEED=%q", target["PYTHONPATH"], target["PYTHONSAFEPATH"], target["SEED"])
			}
			if own := j.environ(0); own["PYTHONPATH"] != "/stranger" {
				t.Errorf("the node that requests PYTHONPATH gets it: PYTHONPATH=%q", own["PYTHONPATH"])
			}
			stderr := agents[0].err.String() + agents[1].err.String()
			if got := strings.Contains(stderr, "-x PYTHONPATH of "); got == trusted {
				t.Errorf("they say:\n%s", stderr)
			}
		})
	}
}
