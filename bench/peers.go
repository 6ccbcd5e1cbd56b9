package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// shape is the size of a job. Only gorun has spares and restarts.
type shape struct{ nodes, perNode, spares, restarts int }

func (s shape) workers() int { return s.nodes * s.perNode }

func (s shape) String() string { return fmt.Sprintf("%d x %d", s.nodes, s.perNode) }

// peer is a launcher that is measured.
type peer struct {
	name        string
	missing     string // why it cannot run here, "" if it can
	env         []string
	leavesFiles bool // true: it leaves files in TMPDIR, so it gets a TMPDIR of its own
	inSlurm     bool // true: it runs in the benchmark's Slurm, in scenarios that name it
	// commands returns the commands that a user runs for the job: one, or one a
	// node. For one node they are the peer's usual commands for one node.
	commands func(l *lab, s shape, program []string) ([][]string, error)
}

const (
	nameGorun = "gorun"
	nameEtcd  = "gorun etcd" // its nodes meet by etcd instead of by gossip
	nameFloor = "floor"
)

// isGorun reports whether the peer is gorun, with either backend.
func (p *peer) isGorun() bool {
	return p.name == nameGorun || p.name == nameEtcd || p.name == nameSrunGorun
}

// peers returns gorun and all launchers that it is compared with. They include the
// missing ones, so that the table shows them as missing.
func peers(ctx context.Context, l *lab) []*peer {
	hydra := lookPath("mpiexec.hydra")
	mpirun := openMPI(ctx)
	all := []*peer{
		{name: nameGorun, missing: l.gorunWhy, commands: gorunCommands},
		{name: nameEtcd, missing: cmp.Or(l.gorunWhy, l.etcdWhy), commands: etcdCommands},
		{name: "torchrun", missing: torchMissing(ctx), leavesFiles: true, commands: torchrunCommands},
		{
			name: "mpirun", missing: missing(mpirun), leavesFiles: true,
			env: []string{
				"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
				"OMPI_MCA_oob_tcp_if_include=lo",
			},
			commands: func(l *lab, s shape, program []string) ([][]string, error) {
				return mpirunCommands(mpirun, l, s, program), nil
			},
		},
		{
			name: "hydra", missing: missing(hydra),
			commands: func(l *lab, s shape, program []string) ([][]string, error) {
				return hydraCommands(hydra, l, s, program), nil
			},
		},
		{name: nameFloor, commands: floorCommands},
	}
	all = append(all, slurmPeers(ctx, l)...)
	if nodes := slurmNodes(ctx); nodes > 0 { // no row without a Slurm that is up
		all = append(all, &peer{name: "srun -K", commands: func(_ *lab, s shape, program []string) ([][]string, error) {
			return srunCommands(nodes, s, program)
		}})
	}
	return all
}

func gorunCommands(l *lab, s shape, program []string) ([][]string, error) {
	if s.nodes == 1 {
		return [][]string{join([]string{l.gorun, "--nproc-per-node", strconv.Itoa(s.perNode), "--standalone", "--no-python"}, program)}, nil
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	return byHand(l, s, []string{"--rdzv-endpoint", port}, program), nil
}

// torchrunCommands returns torchrun's commands. The monitor interval is 0.1 s, today's
// default; that of PyTorch 1.13 is 5 s. PyTorch 1.13 knows only options with
// underscores.
func torchrunCommands(l *lab, s shape, program []string) ([][]string, error) {
	head := []string{python, l.torchrun, "--nproc_per_node", strconv.Itoa(s.perNode), "--monitor_interval", "0.1"}
	if s.nodes == 1 {
		return [][]string{join(head, []string{"--standalone", "--no_python"}, program)}, nil
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	line := join(head, []string{
		"--nnodes", strconv.Itoa(s.nodes), "--rdzv_backend", "c10d",
		"--rdzv_endpoint", port, "--rdzv_id", "bench", "--no_python",
	}, program)
	var lines [][]string
	for range s.nodes {
		lines = append(lines, line)
	}
	return lines, nil
}

// mpirunCommands returns mpirun's commands. They raise the number of concurrent ssh,
// because the default adds 5 s at 8 nodes. They use no tree of ssh, which gains nothing
// here. Hosts are addresses, because looking up a name takes 5 s where no name server
// answers. 127.0.0.1 is not among them, because mpirun would start it without ssh.
func mpirunCommands(mpirun string, l *lab, s shape, program []string) [][]string {
	line := []string{mpirun, "--oversubscribe", "--bind-to", "none", "-n", strconv.Itoa(s.workers())}
	if s.nodes > 1 {
		var hosts []string
		for i := range s.nodes {
			hosts = append(hosts, fmt.Sprintf("%s:%d", loopback(i+1), s.perNode))
		}
		line = append(line, "-H", strings.Join(hosts, ","),
			"--mca", "plm_rsh_agent", l.ssh, "--mca", "plm_rsh_num_concurrent", "128",
			"--mca", "plm_rsh_no_tree_spawn", "1")
	}
	return [][]string{join(line, program)}
}

func hydraCommands(hydra string, l *lab, s shape, program []string) [][]string {
	line := []string{hydra, "-n", strconv.Itoa(s.workers())}
	if s.nodes > 1 {
		var hosts []string
		for i := range s.nodes {
			hosts = append(hosts, loopback(i+1))
		}
		line = append(line, "-iface", "lo", "-launcher", "ssh", "-launcher-exec", l.ssh,
			"-hosts", strings.Join(hosts, ","), "-ppn", strconv.Itoa(s.perNode))
	}
	return [][]string{join(line, program)}
}

// srunCommands returns srun's commands. They have -K, because without it srun never
// stops the other workers.
func srunCommands(have int, s shape, program []string) ([][]string, error) {
	if s.nodes > have {
		return nil, fmt.Errorf("the Slurm here has %d nodes", have)
	}
	return [][]string{join([]string{
		"srun", "-K", "--overcommit", "--mem=0", "-N", strconv.Itoa(s.nodes),
		"-n", strconv.Itoa(s.workers()), "--ntasks-per-node", strconv.Itoa(s.perNode),
	}, program)}, nil
}

// floorCommands returns the commands of the floor, which no launcher can undercut: one
// process a node that starts all its workers; several nodes start at once.
func floorCommands(l *lab, s shape, program []string) ([][]string, error) {
	line := join([]string{l.helper, "spawn", strconv.Itoa(s.perNode)}, program)
	var lines [][]string
	for range s.nodes {
		lines = append(lines, line)
	}
	return lines, nil
}

// python is Debian's Python, for which python3-torch is installed.
const python = "/usr/bin/python3"

func torchMissing(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if exec.CommandContext(ctx, python, "-c", "import torch.distributed.run").Run() != nil {
		return "not installed"
	}
	return ""
}

// openMPI finds Open MPI's mpirun. It checks it, because MPICH has a program of the same
// name.
func openMPI(ctx context.Context) string {
	for _, name := range []string{"mpirun.openmpi", "mpirun"} {
		path := lookPath(name)
		if path == "" {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err == nil && strings.Contains(string(out), "Open MPI") {
			return path
		}
	}
	return ""
}

// slurmNodes returns the number of idle nodes of a Slurm that answers, else 0.
func slurmNodes(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sinfo", "-h", "-t", "idle", "-o", "%D").Output()
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(out))) // empty: none is idle
	return n
}

// freePort returns an address at an IP whose port was free for TCP and UDP a moment ago.
// A race remains, because a bound socket cannot be passed to two programs.
func freePort(ip string) (string, error) {
	for range 20 {
		t, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return "", err
		}
		u, err := net.ListenPacket("udp", t.Addr().String())
		t.Close()
		if err == nil {
			u.Close()
			return t.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("no port is free for both TCP and UDP")
}

// loopback returns the i-th address of this machine, from 127.0.0.1 for 0.
func loopback(i int) string { return fmt.Sprintf("127.0.0.%d", i+1) }

func missing(path string) string {
	if path == "" {
		return "not installed"
	}
	return ""
}

// lookPath returns the absolute path of a program, or "".
func lookPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return ""
	}
	return path
}

func join(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
