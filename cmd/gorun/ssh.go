package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/ssh"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/secret"
)

// sshFlags returns the flags that only gorun ssh has. It also takes the flags of a job.
func sshFlags() flagGroup {
	return flagGroup{"Hosts", []jobFlag{
		{name: "hosts", arg: "HOST,...", usage: "where to run: names that ssh knows, also user@host:port", list: true},
		{name: "hostfile", arg: "FILE", usage: "one host a line, as DeepSpeed and Open MPI have it: node1 slots=8"},
		{name: "copy", usage: "copy this gorun to hosts that have none of its version"},
		{name: "no-prefix", usage: "print lines as they come, without the host in front"},
		{name: "ssh", arg: "COMMAND", usage: "ssh and its first arguments, as in \"ssh -J gate\" (default ssh)"},
	}}
}

// sshOptions are the options of ssh: those of a job, and the hosts.
type sshOptions struct {
	jobOptions
	hosts   []ssh.Host
	command []string // ssh and its first arguments
	secret  string
	backend spec.Backend
	export  []string // arguments of -x
}

func newSSHCommand() *cobra.Command {
	var o sshOptions
	cmd := &cobra.Command{
		Use:   "ssh --hosts HOST,... [flags] PROGRAM [ARGS...]",
		Short: "Run a job on hosts that ssh reaches",
		Long: `Run a job on several hosts: start gorun run on each of them over ssh, in this
folder, with a port, a run id and a secret of its own, and print what it prints.
It takes the flags of gorun run (gorun help flags); slots= of a hostfile are
--nproc-per-node there. Ctrl-C ends the job on all hosts. ssh must need no
password. It ends as the job does, and with 75 when a host cannot be used: then
nothing was started.`,
		Example: `  gorun ssh --hosts node1,node2 train.py
  gorun ssh --hostfile hosts --copy train.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd, args)
			return runSSH(cmd.Context(), &o)
		},
	}
	o.addFlags(cmd, append([]flagGroup{sshFlags()}, jobFlags()...)...)
	return cmd
}

// sshDecides lists the flags that gorun ssh gives each host itself.
func sshDecides() []string {
	return []string{"node_rank", "local_nodes", "standalone", "local_addr", "master_addr", "master_port", "surroundings"}
}

// runSSH runs a job on the hosts.
func runSSH(ctx context.Context, o *sshOptions) error {
	started := time.Now()
	sp, err := o.read()
	if err != nil {
		return reportError(sp, &launch.UsageError{Err: err})
	}
	program, err := o.program()
	if err != nil {
		return err
	}
	env, err := o.environment()
	if err != nil {
		return &launch.UsageError{Err: err}
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("cannot find the working directory: %w", err)
	}
	signals := make(chan os.Signal, 16)
	for _, s := range append(process.Forwarded(), unix.SIGTSTP) {
		if s != unix.SIGWINCH && !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	survivePipes()
	console := term.NewConsole(os.Stderr, "gorun", os.Stderr)
	go console.Run()
	defer console.Close()
	code, err := ssh.Run(ctx, ssh.Options{
		Hosts: o.hosts, Least: sp.MinNodes, Command: o.command,
		Env: slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, secret.Env+"=") }),
		Question: ssh.Question{
			Dir: dir, LoPort: sp.Ports.Lo, HiPort: sp.Ports.Hi, Token: "gorun-" + rand.Text(),
			Silent: max(time.Second, time.Duration(sp.Conf.KeepAliveMaxAttempt)*sp.Conf.KeepAliveInterval),
		},
		Program: program,
		Plan: func(index []int, hellos []ssh.Hello) ([]ssh.Start, error) {
			lines, err := o.lines(index, hellos)
			starts := make([]ssh.Start, len(lines))
			for i, line := range lines {
				starts[i] = ssh.Start{Args: line, Env: append(env, "PWD="+dir), Secret: o.secret, Grace: sp.ShutdownTimeout}
			}
			return starts, err
		},
		Signals: signals, Console: console, Stdout: os.Stdout, Stderr: os.Stderr,
		Prefix: len(o.hosts) > 1 && o.raw.Flags["no_prefix"] != "1",
	})
	if stopped, ok := errors.AsType[*ssh.StoppedError](err); ok {
		console.Say("%v", stopped)
		return exitStatus(128 + int(stopped.Signal))
	}
	if err != nil {
		console.Say("%v", err)
		if err := launch.ReportError(sp, started, err); err != nil {
			console.Say("%v", err)
		}
		return exitStatus(rendezvous.ExitRendezvous)
	}
	if code != 0 {
		return exitStatus(code)
	}
	return nil
}

// read reads hosts and flags. It finds what would be wrong on every host.
func (o *sshOptions) read() (spec.Spec, error) {
	if err := o.readHosts(); err != nil {
		return spec.Spec{}, err
	}
	for _, name := range sshDecides() {
		if _, given := o.raw.Flags[name]; given {
			return spec.Spec{}, fmt.Errorf("cannot use --%s with gorun ssh, which decides it for each host", strings.ReplaceAll(name, "_", "-"))
		}
	}
	n := strconv.Itoa(len(o.hosts))
	raw := o.raw
	raw.Flags = maps.Clone(raw.Flags)
	raw.Flags["surroundings"] = "none"
	if !o.given("nnodes") {
		raw.Flags["nnodes"] = n
	}
	if !o.given("rdzv_endpoint") && !strings.HasPrefix(raw.Flags["rdzv_backend"], "etcd") && len(o.hosts) > 1 {
		raw.Flags["rdzv_endpoint"] = "127.0.0.1:29400" // Plan decides it
	}
	sp, err := raw.Resolve(lookupForHosts)
	switch {
	case err != nil:
		return sp, err
	case sp.MaxNodes != len(o.hosts):
		return sp, fmt.Errorf("--nnodes is %s, and %s hosts are named: leave it out, or give MIN:%[2]s for an elastic job", raw.Flags["nnodes"], n)
	case sp.Backend == spec.Static:
		return sp, errors.New("cannot use the static rendezvous with gorun ssh: leave --rdzv-backend out")
	}
	o.backend, o.export = sp.Backend, sp.Env.Export
	for _, note := range sp.Notes {
		fmt.Fprintf(os.Stderr, "gorun: %s\n", term.OneLine(note))
	}
	return sp, o.readSecret(sp.SecretFile)
}

// readHosts reads --hosts, --hostfile and --ssh.
func (o *sshOptions) readHosts() (err error) {
	text, named := o.raw.Flags["hosts"]
	file, inFile := o.raw.Flags["hostfile"]
	o.command = strings.Fields(cmp.Or(o.raw.Flags["ssh"], "ssh"))
	switch {
	case len(o.command) == 0:
		return errors.New("--ssh names no command")
	case named == inFile:
		return errors.New("name the hosts, either by --hosts node1,node2 or by --hostfile FILE")
	case named:
		if o.hosts, err = ssh.ParseHosts(text); err != nil {
			err = fmt.Errorf("cannot use --hosts: %w", err)
		}
		return err
	}
	content, _, err := smallfile.Read(file, ssh.MaxHostfile)
	if err == nil {
		o.hosts, err = ssh.ParseHostfile(content)
	}
	if err != nil {
		err = fmt.Errorf("cannot use --hostfile %s: %w", file, err)
	}
	return err
}

// readSecret takes the user's secret, which is in a file or a variable here, or makes
// one.
func (o *sshOptions) readSecret(file string) error {
	if _, warning, err := secret.Find(file, os.LookupEnv); err != nil {
		return err
	} else if warning != "" {
		fmt.Fprintf(os.Stderr, "gorun: %s\n", warning)
	}
	if file != "" {
		text, _, err := smallfile.Read(file, secret.Max+len("\r\n"))
		o.secret = strings.TrimRight(string(text), "\r\n")
		return err
	}
	o.secret = cmp.Or(os.Getenv(secret.Env), rand.Text())
	return nil
}

// given reports whether the user gives a flag or one of its variables.
func (o *sshOptions) given(name string) bool {
	if _, ok := o.raw.Flags[name]; ok {
		return true
	}
	return slices.ContainsFunc(flagVariables(name), func(v string) bool { return os.Getenv(v) != "" })
}

// flagVariables returns the variables that give a flag's default on the hosts, too.
func flagVariables(name string) []string {
	name = strings.ReplaceAll(name, "-", "_")
	if slices.Contains(sshDecides(), name) {
		return nil
	}
	return spec.VariablesOf(name)
}

// lookupForHosts reads a variable that holds for the hosts.
func lookupForHosts(name string) (string, bool) {
	for _, hidden := range sshDecides() {
		if upper := strings.ToUpper(hidden); name == "GORUN_"+upper || name == "PET_"+upper {
			return "", false
		}
	}
	return os.LookupEnv(name)
}

// environment returns the variables that the hosts get from here: those of flags, those
// that say which Python to use, and what -x names without a value.
func (o *sshOptions) environment() ([]string, error) {
	var env []string
	add := func(name string) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, group := range jobFlags() {
		for _, f := range group.flags {
			if f.name != "secret-file" {
				for _, name := range flagVariables(f.name) {
					add(name)
				}
			}
		}
	}
	for _, name := range []string{"PYTHON_EXEC", "VIRTUAL_ENV"} { // by which gorun finds Python, if they are there
		add(name)
	}
	request, err := envprop.NewRequest(envprop.Options{X: o.export}, os.Environ())
	if err != nil {
		return nil, err
	}
	for _, override := range request.Overrides {
		add(override.Name)
	}
	return env, nil
}

// program describes this program for hosts that may have none.
func (o *sshOptions) program() (ssh.Program, error) {
	p := ssh.Program{File: selfPath, Copy: o.raw.Flags["copy"] == "1"}
	var err error
	if p.Path, err = os.Executable(); err != nil {
		return p, fmt.Errorf("cannot find gorun's own file: %w", err)
	}
	file, err := os.Open(p.File)
	if err != nil {
		return p, fmt.Errorf("cannot read gorun's own file: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if p.Size, err = io.Copy(sum, file); err != nil {
		return p, fmt.Errorf("cannot read gorun's own file: %w", err)
	}
	v := version()
	p.ID = fmt.Sprintf("%s-%x", term.Printable(v), sum.Sum(nil)[:8])
	if v != "unknown" && !strings.Contains(v, "devel") && !strings.Contains(v, "dirty") {
		p.Version = v
	}
	p.Arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return p, nil
}

// sshEndpoints is the number of hosts that serve an endpoint: with three, the nodes
// still meet when one host is lost.
const sshEndpoints = 3

// lines returns the arguments of gorun on each host.
func (o *sshOptions) lines(index []int, hellos []ssh.Hello) ([][]string, error) {
	addrs, err := ssh.Reachable(hellos)
	if err != nil && !o.given("rdzv_endpoint") && len(o.hosts) > 1 {
		return nil, err
	}
	without := []string{"secret-file", "report"}
	for _, f := range sshFlags().flags {
		without = append(without, f.name)
	}
	shared := []string{"--surroundings=none"}
	if !o.given("nnodes") {
		shared = append(shared, "--nnodes="+strconv.Itoa(len(o.hosts)))
	}
	if !o.given("rdzv_id") {
		shared = append(shared, "--rdzv-id=ssh-"+strings.ToLower(rand.Text()[:12]))
	}
	if !o.given("report_on") {
		shared = append(shared, "--report-on="+string(spec.ReportFirst))
	}
	meets := len(o.hosts) > 1 && (o.backend == spec.EtcdV3 || !o.given("rdzv_endpoint"))
	if meets && o.backend != spec.EtcdV3 {
		var at []string
		n := 1
		if len(hellos) >= sshEndpoints {
			n = sshEndpoints
		}
		for i := range n {
			at = append(at, net.JoinHostPort(addrs[i], strconv.Itoa(hellos[i].Port)))
		}
		shared = append(shared, "--rdzv-endpoint="+strings.Join(at, ","))
	}
	lines := make([][]string, len(hellos))
	for i, h := range index {
		line := append([]string{"run"}, shared...)
		if len(o.hosts) > 1 {
			line = append(line, "--node-rank="+strconv.Itoa(i))
		}
		if meets && addrs != nil {
			line = append(line, "--local-addr="+addrs[i])
		}
		if slots := o.hosts[h].Slots; slots > 0 && !o.given("nproc_per_node") {
			line = append(line, "--nproc-per-node="+strconv.Itoa(slots))
		}
		if report, ok := o.raw.Flags["report"]; ok && i == 0 {
			line = append(line, "--report="+report)
		}
		lines[i] = append(line, o.commandLine(without...)...)
	}
	return lines, nil
}

// newSSHNodeCommand makes the hidden command that gorun ssh starts on each host.
func newSSHNodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    ssh.NodeCommand + " QUESTION",
		Short:  "Run a host's part of a job of gorun ssh",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := runSSHNode(cmd.Context(), args[0])
			if err == nil && code != 0 {
				err = exitStatus(code)
			}
			return err
		},
	}
}

// runSSHNode runs this host's part of a job. Standard input is the connection to gorun
// ssh, so the workers get none.
func runSSHNode(ctx context.Context, question string) (int, error) {
	survivePipes()
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return 0, fmt.Errorf("cannot take standard input: %w", err)
	}
	control := os.NewFile(uintptr(fd), "control")
	null, err := os.Open(os.DevNull)
	if err == nil {
		err = unix.Dup3(int(null.Fd()), 0, 0)
		null.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("cannot take standard input: %w", err)
	}
	return ssh.Serve(ctx, ssh.NodeOptions{
		Question: question, Version: version(), Control: control, Marks: os.Stdout, Lookup: os.Getenv,
		Run: func(ctx context.Context, s ssh.Start) int {
			for _, entry := range s.Env {
				name, value, _ := strings.Cut(entry, "=")
				_ = os.Setenv(name, value) // fails for a name or value that ParseStart refuses
			}
			_ = os.Setenv(secret.Env, s.Secret)
			_ = os.Unsetenv("GORUN_SECRET_FILE") // of this host, which would win
			root := newRootCommand()
			args, err := parseLikeArgparse(root, s.Args)
			if err != nil {
				return exitCode(&launch.UsageError{Err: err})
			}
			root.SetArgs(args)
			return exitCode(root.ExecuteContext(ctx))
		},
		Signal: func(sig unix.Signal) { _ = unix.Kill(os.Getpid(), sig) },
	})
}
