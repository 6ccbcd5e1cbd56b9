package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The files of examples/docker make images and jobs that work: compose starts PyTorch
// and Go workers on three nodes, and what docker does to a container has the effect
// that docs/docker.md promises.
func TestDocker(t *testing.T) {
	t.Parallel()
	need(t, exec.Command(python(t, "torch"), "--version").Run() == nil, "PyTorch")
	d := newEngine(t)
	d.build("ddp", "GO_IMAGE="+d.toolchain(), "BASE_IMAGE="+d.importBase("torch", "python3", "sh", "sleep", "mkdir", "cat"))
	d.build("allreduce", "GO_IMAGE="+d.name("go"))
	t.Run("jobs", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *engine){
			"compose ddp":       func(t *testing.T, d *engine) { compose(t, d, "ddp", "ddp: 3 ranks on gloo, ") },
			"compose allreduce": func(t *testing.T, d *engine) { compose(t, d, "allreduce", "allreduce: 3 ranks, ") },
			"stop":              dockerStop,
			"kill":              dockerKill,
			"cut":               dockerCut,
			"equal host names":  dockerHostNames,
			"bridges apart":     dockerBridges,
			"small containers":  dockerFacts,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, d) })
		}
	})
}

// compose starts the job of an example as its user does, but for the image's name.
func compose(t *testing.T, d *engine, example, output string) {
	program := []string{"docker", "compose"}
	if exec.Command("docker", "compose", "version").Run() != nil {
		program = []string{"docker-compose"}
		if exec.Command("docker-compose", "version").Run() != nil {
			t.Skip("missing: docker compose")
		}
	}
	images := filepath.Join(t.TempDir(), "images.yaml")
	image := "{image: " + d.name(example) + "}"
	if err := os.WriteFile(images, []byte("services: {node0: "+image+", node1: "+image+", node2: "+image+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program = append(program, "-p", d.name(example), "-f", "../examples/docker/compose.yaml", "-f", images)
	run := func(args ...string) string {
		cmd := exec.Command(program[0], append(program[1:], args...)...)
		cmd.Env = append(os.Environ(), "EXAMPLE="+example, "NPROC_PER_NODE=1", "GORUN_SECRET="+jobSecret)
		out, err := d.run(cmd)
		if err != nil {
			t.Errorf("%s: %v\n%s", cmd, err, clip(out))
		}
		return out
	}
	defer run("down", "-v")
	run("up", "-d", "--no-build")
	for _, id := range strings.Fields(run("ps", "-q")) {
		container{&engine{TB: t}, id}.wantExit(0)
	}
	if out := run("logs", "--no-color"); strings.Count(out, output) == 0 || strings.Contains(out, "warning") {
		t.Errorf("no %q, or a warning, in the output:\n%s", output, clip(out))
	}
}

// docker stop gives workers the time that they need, and keeps the exit code within
// Docker's own ten seconds. PID 1 leaves no zombie.
func dockerStop(t *testing.T, d *engine) {
	saves := d.start(t, "saves", nil, "sh", "-c", `trap 'sleep 0.5; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	ignores := d.start(t, "ignores", []string{"-e", "GORUN_SHUTDOWN_TIMEOUT=2s"}, "sh", "-c", `trap '' TERM
		i=0; while [ $i -lt 30 ]; do (sleep 0.01 &); i=$((i + 1)); done; sleep 1
		z=0; for p in /proc/[0-9]*/stat; do read -r _ _ state _ <$p && [ "$state" != Z ] || z=$((z + 1)); done
		read -r name </proc/1/comm; echo "up, PID 1 is $name, zombies: $z"; while :; do sleep 0.05; done`)
	for _, c := range []container{saves, ignores} {
		c.waitForOutput("up", 1)
		began := time.Now()
		d.do("stop", c.name)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("docker stop took %v", took)
		}
		c.wantExit(143)
	}
	wantParts(t, saves.logs(), "saved")
	wantParts(t, ignores.logs(), "up, PID 1 is gorun, zombies: 0")
}

// dockerKills is how often dockerKill kills a container.
const dockerKills = 3

// A job with restarts left goes on whichever container is killed or stopped, and takes
// the container back.
func dockerKill(t *testing.T, d *engine) {
	all := d.elastic(t, "kill", "last_call_timeout=0.2")
	for i := range dockerKills {
		victim, how, code := i%len(all), "kill", 137
		if i == dockerKills-1 {
			how, code = "stop", 143
		}
		others := append(append([]container{}, all[:victim]...), all[victim+1:]...)
		d.do(how, all[victim].name)
		all[victim].wantExit(code)
		waitForWorld(t, others...)
		d.do("start", all[victim].name)
		waitForWorld(t, append(others, all[victim])...)
	}
	endWorkers(d, all)
	for _, c := range all {
		c.wantExit(0)
	}
}

// endWorkers lets the workers of elastic end.
func endWorkers(d *engine, all []container) {
	d.Helper()
	for _, c := range all {
		d.do("exec", c.name, "mkdir", "/tmp/end")
	}
}

// A container that is cut off or paused is lost; it takes part again when it is back.
func dockerCut(t *testing.T, d *engine) {
	all := d.elastic(t, "cut", "last_call_timeout=0.2,keep_alive_interval=0.5,keep_alive_max_attempt=6")
	for _, c := range []struct{ cut, heal []string }{
		{[]string{"network", "disconnect", d.name("cut")}, []string{"network", "connect", d.name("cut")}},
		{[]string{"pause"}, []string{"unpause"}},
	} {
		d.do(append(c.cut, all[2].name)...)
		waitForWorld(t, all[:2]...)
		d.do(append(c.heal, all[2].name)...)
		waitForWorld(t, all...)
	}
	endWorkers(d, all)
	for _, c := range all {
		c.wantExit(0)
	}
}

// Containers with one host name are told apart; one that lacks a variable of the others
// is named with the line that gives it.
func dockerHostNames(t *testing.T, d *engine) {
	network := d.name("names")
	d.do("network", "create", network)
	options := func(alias string, more ...string) []string {
		return append([]string{"--network", network, "--network-alias", alias, "--hostname", "same", "-e", "GORUN_NNODES=2", "-e", "GORUN_RDZV_ENDPOINT=first"}, more...)
	}
	first := d.start(t, "names-0", options("first", "-e", "GLOO_SOCKET_IFNAME=eth0"), "check", "train.py")
	second := d.start(t, "names-1", options("second"), "check", "train.py")
	for _, c := range []container{first, second} {
		c.wantExit(0)
	}
	ip := strings.TrimSpace(d.do("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", second.name))
	wantParts(t, strings.Join(strings.Fields(first.logs()+second.logs()), " "),
		"warning E03 env-delivered", "same ("+ip, "without GLOO_SOCKET_IFNAME (in a container: docker)", "gorun -x GLOO_SOCKET_IFNAME=eth0 ...")
}

// A container on another bridge is not reached, and both say why.
func dockerBridges(t *testing.T, d *engine) {
	for _, n := range []string{"left", "right"} {
		d.do("network", "create", d.name(n))
	}
	const conf = "GORUN_RDZV_CONF=join_timeout=4"
	left := d.start(t, "left", []string{"--network", d.name("left"), "--network-alias", "left", "-e", conf}, "--nnodes", "2", "--rdzv-endpoint", "left", "train.py")
	ip := strings.TrimSpace(d.do("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", left.name))
	right := d.start(t, "right", []string{"--network", d.name("right"), "-e", conf}, "--nnodes", "2", "--rdzv-endpoint", ip, "train.py")
	for _, c := range []container{left, right} {
		c.wantExit(75)
		wantParts(t, c.logs(), "this node is a container", "--network host")
	}
}

// Facts of real containers with Docker's defaults lead to the findings and options of
// docker run that mend them, where there are GPUs and InfiniBand.
func dockerFacts(t *testing.T, d *engine) {
	var files []string
	for i, name := range []string{"facts-0", "facts-1"} {
		c := d.start(t, name, []string{"--hostname", name, "--ulimit", "memlock=65536:65536", "--ulimit", "nofile=256:256"}, "check", "--nproc-per-node", "8", "--save", "/tmp/facts.json", "train.py")
		c.wantExit(0)
		file := filepath.Join(t.TempDir(), "facts.json")
		d.do("cp", c.name+":/tmp/facts.json", file)
		var facts map[string]any
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &facts)
		}
		if err != nil {
			t.Fatal(err)
		}
		// Two containers that run at one time have namespaces of their own; after one has ended
		// the kernel may give its number to the next.
		facts["host"].(map[string]any)["ns"].(map[string]any)["net"] = fmt.Sprintf("net:[%d]", i+1)
		facts["gpu"] = map[string]any{"driver": i == 0} // the second container got no GPU
		facts["libraries"] = map[string]any{"torch": "2.8.0", "torch_cuda": "12.8", "nccl": map[string]any{"path": "/x/libnccl.so.2", "version": "2.27.3", "code": 22703}}
		if b, err = json.Marshal(facts); err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	out, _ := exec.Command(os.Getenv(envGorun), append([]string{"check", "--from"}, files...)...).CombinedOutput()
	table := strings.Join(strings.Fields(string(out)), " ")
	wantParts(t, table, "L01 shm", "docker run --shm-size=8g", "D10 device-nodes", "docker run --gpus all", "L02 nofile", "docker run --ulimit nofile=")
	if t.Failed() {
		t.Logf("%s", out)
	}
}
