// Package slurmtest runs a real Slurm of virtual nodes on this machine for tests and
// benchmarks: a munged, a slurmctld, and a slurmd for each node.
//
// Invariants: all files are in one new folder, and SLURM_CONF names the
// configuration; nothing of the machine is changed, since each slurmd has a UTS
// namespace for its host name and a mount namespace for its /etc/hosts. Close ends
// every process of the cluster and of its jobs. A test without Slurm is skipped; with
// CI=true it fails.
package slurmtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options of a cluster.
type Options struct {
	Nodes    int // n1, n2, ... in the partition all; at most 63; 0: 4
	GPUs     int // of each node, which exist for Slurm only
	KillWait int // seconds; 0: 6
	// Preempt adds a node, the last one, in the partitions low and urgent. Jobs of
	// urgent take it away from those of low.
	Preempt bool
}

// cpus is the number of CPUs of each node, which may exceed those of the machine.
const cpus = 64

// RequeueExit is the exit code after which Slurm queues a job again.
const RequeueExit = 75

// Cluster is a running Slurm.
type Cluster struct {
	Conf string // path of slurm.conf

	opts    Options
	dir     string
	net     string // the nodes' addresses are below: "127.42.7."
	port    int    // of the controller, followed by those of the nodes
	daemons []*exec.Cmd
	ended   []chan struct{} // closed when the daemon has ended
}

// ErrMissing says that this machine cannot run a Slurm.
var ErrMissing = errors.New("no Slurm: as root, install Debian's slurmctld, slurmd, slurm-client and munge")

// limit is how long a cluster may take to come up, on a machine that is busy.
const limit = 30 * time.Second

// Start runs a cluster until the test ends.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Launch(o)
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.logs())
		}
		c.Close()
	})
	return c
}

// Launch runs a cluster until Close.
func Launch(o Options) (*Cluster, error) {
	o.Nodes, o.KillWait = cmp.Or(o.Nodes, 4), cmp.Or(o.KillWait, 6)
	for _, name := range []string{"munged", "slurmctld", "slurmd", "srun", "sinfo", "unshare"} {
		if find(name) == "" {
			return nil, ErrMissing
		}
	}
	if os.Getuid() != 0 {
		return nil, ErrMissing
	}
	dir, err := os.MkdirTemp("", "gorun-slurm-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: o, dir: dir, Conf: filepath.Join(dir, "slurm.conf")}
	if err := c.start(); err != nil {
		logs := c.logs()
		c.Close()
		return nil, fmt.Errorf("cannot start a Slurm: %w\n%s", err, logs)
	}
	return c, nil
}

// find returns the path of a program; daemons are often not in PATH.
func find(name string) string {
	for _, path := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	return ""
}

func (c *Cluster) start() error {
	if err := os.Chmod(c.dir, 0o755); err != nil { // munge asks for it
		return err
	}
	c.choosePlace()
	if err := c.writeFiles(); err != nil {
		return err
	}
	path := func(name string) string { return filepath.Join(c.dir, name) }
	if err := c.daemon("munged", "--foreground", "--num-threads=4", "--key-file="+path("key"), "--socket="+path("socket"),
		"--pid-file="+path("munged.pid"), "--log-file="+path("munged.log"), "--seed-file="+path("seed")); err != nil {
		return err
	}
	if err := c.waitFor("munged", func(ctx context.Context) bool {
		return exec.CommandContext(ctx, "munge", "-S", path("socket"), "-n").Run() == nil
	}); err != nil {
		return err
	}
	if err := c.daemon("slurmctld", "-D", "-c", "-f", c.Conf); err != nil {
		return err
	}
	for i := range c.nodes() {
		script := `mount --bind "$1" /etc/hosts && hostname "$2" && exec "$3" -D -f "$4" -N "$2"`
		if err := c.daemon("unshare", "--uts", "--mount", "sh", "-c", script, "sh", path("hosts"), nodeName(i), find("slurmd"), c.Conf); err != nil {
			return err
		}
	}
	return c.waitFor("every node is idle", func(ctx context.Context) bool {
		cmd := exec.CommandContext(ctx, "sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
		cmd.Env = c.Env()
		out, err := cmd.Output()
		return err == nil && len(slices.Compact(strings.Fields(string(out)))) == c.nodes()
	})
}

// nodes returns the number of all nodes.
func (c *Cluster) nodes() int {
	if c.opts.Preempt {
		return c.opts.Nodes + 1
	}
	return c.opts.Nodes
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// choosePlace derives addresses and ports from this process's id and the folder, so
// that several clusters may run at the same time. The ports lie outside the range
// from which the kernel chooses.
func (c *Cluster) choosePlace() {
	n := os.Getpid()
	for _, b := range []byte(c.dir) {
		n = n*31 + int(b)
	}
	n &= 0xffff
	c.net = fmt.Sprintf("127.%d.%d.", 2+n%250, n>>8)
	c.port = 10000 + n%80*64
}

func (c *Cluster) writeFiles() error {
	key, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost " + host + "\n"
	nodes, gres := "", ""
	if c.opts.GPUs > 0 {
		gres = fmt.Sprintf(" Gres=gpu:fake:%d", c.opts.GPUs)
	}
	for i := range c.nodes() {
		addr := c.net + strconv.Itoa(i+1)
		hosts += addr + " " + nodeName(i) + "\n"
		nodes += fmt.Sprintf("NodeName=%s NodeAddr=%s Port=%d CPUs=%d RealMemory=1000 State=UNKNOWN%s\n", nodeName(i), addr, c.port+1+i, cpus, gres)
	}
	conf := fmt.Sprintf(`ClusterName=virtual
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=%d
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=%[3]s/socket,cred_expire=5
StateSaveLocation=%[3]s/state
SlurmdSpoolDir=%[3]s/spool-%%n
SlurmctldPidFile=%[3]s/slurmctld.pid
SlurmdPidFile=%[3]s/slurmd-%%n.pid
SlurmctldLogFile=%[3]s/slurmctld.log
SlurmdLogFile=%[3]s/slurmd-%%n.log
PlugStackConfig=%[3]s/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
PropagateResourceLimits=NONE
SlurmdTimeout=60
SlurmctldTimeout=60
KillWait=%d
MessageTimeout=20
TreeWidth=64
GresTypes=gpu
RequeueExit=%d
`, host, c.port, c.dir, c.opts.KillWait, RequeueExit) + nodes + fmt.Sprintf(`PartitionName=all Nodes=n[1-%d] Default=YES MaxTime=INFINITE State=UP
`, c.opts.Nodes)
	if c.opts.Preempt {
		last := nodeName(c.nodes() - 1)
		conf += "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n" +
			"PartitionName=low Nodes=" + last + " MaxTime=INFINITE State=UP PriorityTier=1\n" +
			"PartitionName=urgent Nodes=" + last + " MaxTime=INFINITE State=UP PriorityTier=10\n"
	}
	gresConf, err := c.makeGPUs()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"key": string(key), "hosts": hosts, "slurm.conf": conf, "gres.conf": gresConf, "plugstack.conf": "", "cgroup.conf": "CgroupAutomount=no\n",
	} {
		mode := os.FileMode(0o644)
		if name == "key" {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), mode); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(c.dir, "state"), 0o755)
}

// makeGPUs makes device files for GPUs, with the numbers of /dev/null.
func (c *Cluster) makeGPUs() (gresConf string, err error) {
	for i := range c.opts.GPUs {
		path := filepath.Join(c.dir, fmt.Sprintf("gpu%d", i))
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
			return "", fmt.Errorf("mknod %s: %w", path, err)
		}
		gresConf += "Name=gpu Type=fake File=" + path + "\n"
	}
	return gresConf, nil
}

// daemon starts a daemon in the foreground. It ends with this process.
func (c *Cluster) daemon(name string, args ...string) error {
	cmd := exec.Command(find(name), args...)
	cmd.Env = c.Env()
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	c.daemons, c.ended = append(c.daemons, cmd), append(c.ended, ended)
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return nil
}

// waitFor polls a condition. A daemon that ends is an error.
func (c *Cluster) waitFor(what string, ok func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for !ok(ctx) {
		for i, ended := range c.ended {
			select {
			case <-ended:
				return fmt.Errorf("%s ended: %v", c.daemons[i].Args[0], c.daemons[i].ProcessState)
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %s", limit, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// Env returns this process's environment with the cluster's configuration, and without
// the variables of a job in which this process may run.
func (c *Cluster) Env() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "SLURM") })
	return append(env, "SLURM_CONF="+c.Conf)
}

// Addr returns the address of node n1, n2, ...; i counts from 0.
func (c *Cluster) Addr(i int) string { return c.net + strconv.Itoa(i+1) }

// Close ends all jobs and the cluster.
func (c *Cluster) Close() {
	for i, cmd := range c.daemons {
		_ = cmd.Process.Kill()
		<-c.ended[i]
	}
	// What is left has the configuration in its environment: slurmstepd and tasks.
	for range 50 {
		left := c.processes()
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = os.RemoveAll(c.dir)
}

// processes lists the living processes of the cluster and of its jobs.
func (c *Cluster) processes() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil || !bytes.Contains(environ, []byte("SLURM_CONF="+c.Conf+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// logs returns the ends of the daemons' logs.
func (c *Cluster) logs() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		fmt.Fprintf(&all, "--- %s\n%s", filepath.Base(file), text[max(0, len(text)-2000):])
	}
	return all.String()
}
