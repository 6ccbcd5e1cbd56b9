package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/ssh"
)

// parseSSH returns the options of a command line behind gorun ssh, and what read says.
func parseSSH(t *testing.T, args ...string) (*sshOptions, error) {
	t.Helper()
	o, err := parseJob(append([]string{"ssh"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	s := &sshOptions{jobOptions: *o}
	_, err = s.read()
	return s, err
}

func hostfile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Every host gets the user's flags, its own rank, address and slots, and the meeting
// place of all. Flags and variables of the user win.
func TestSSHLines(t *testing.T) {
	hellos := []ssh.Hello{{Server: "10.0.0.1", Port: 7001}, {Server: "10.0.0.2", Port: 7002}, {Server: "fd00::3", Port: 7003}}
	for name, tt := range map[string]struct {
		args      []string
		env       string
		hosts     int
		want, not []string // words of the last host's line
	}{
		"one host":        {args: []string{"--hosts", "a"}, hosts: 1, want: []string{"--nnodes=1", "--report-on=first"}, not: []string{"--rdzv-endpoint", "--node-rank", "--local-addr"}},
		"two hosts":       {args: []string{"--hosts", "a,b"}, hosts: 2, want: []string{"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=10.0.0.1:7001", "--local-addr=10.0.0.2", "--surroundings=none"}},
		"three hosts":     {args: []string{"--hosts", "a,b,c"}, hosts: 3, want: []string{"--node-rank=2", "--rdzv-endpoint=10.0.0.1:7001,10.0.0.2:7002,[fd00::3]:7003", "--local-addr=fd00::3"}},
		"slots":           {args: []string{"--hostfile", hostfile(t, "a slots=1\nb slots=4\n")}, hosts: 2, want: []string{"--nproc-per-node=4"}},
		"slots, a flag":   {args: []string{"--hostfile", hostfile(t, "a slots=1\nb slots=4\n"), "--nproc-per-node", "2"}, hosts: 2, want: []string{"--nproc-per-node=2"}, not: []string{"--nproc-per-node=4"}},
		"slots, variable": {args: []string{"--hostfile", hostfile(t, "a slots=1\nb slots=4\n")}, env: "PET_NPROC_PER_NODE=2", hosts: 2, not: []string{"--nproc-per-node"}},
		"an endpoint":     {args: []string{"--hosts", "a,b", "--rdzv-endpoint", "x:1"}, hosts: 2, want: []string{"--rdzv-endpoint=x:1"}, not: []string{"--local-addr", "10.0.0.1"}},
		"etcd":            {args: []string{"--hosts", "a,b", "--rdzv-backend", "etcd", "--rdzv-endpoint", "x:1"}, hosts: 2, want: []string{"--rdzv-endpoint=x:1", "--local-addr=10.0.0.2"}, not: []string{"7001"}},
		"elastic":         {args: []string{"--hosts", "a,b", "--nnodes", "1:2"}, hosts: 2, want: []string{"--nnodes=1:2"}, not: []string{"--nnodes=2"}},
		"report":          {args: []string{"--hosts", "a,b", "--report", "r", "--report-on", "all", "--rdzv-id", "x"}, hosts: 2, want: []string{"--report-on=all", "--rdzv-id=x"}, not: []string{"--report=", "--report-on=first", "ssh-"}},
		"its own flags":   {args: []string{"--hosts", "a,b", "--copy", "--no-prefix", "--ssh", "ssh -v"}, hosts: 2, not: []string{"--hosts", "--copy", "--no-prefix", "--ssh"}},
	} {
		t.Run(name, func(t *testing.T) {
			if variable, value, ok := strings.Cut(tt.env, "="); ok {
				t.Setenv(variable, value)
			}
			o, err := parseSSH(t, append(tt.args, "--max-restarts", "3", "-x", "A=b c", "train.py", "--hosts", "mine")...)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := o.lines([]int{0, 1, 2}[:tt.hosts], hellos[:tt.hosts])
			if err != nil {
				t.Fatal(err)
			}
			line := lines[len(lines)-1]
			flags, program := line[:len(line)-3], line[len(line)-3:]
			if !slices.Equal(program, []string{"train.py", "--hosts", "mine"}) || flags[0] != "run" {
				t.Errorf("line %q", line)
			}
			for _, want := range append(tt.want, "--max-restarts=3", "--export=A=b c") {
				if !slices.Contains(flags, want) {
					t.Errorf("no %s in %q", want, flags)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(strings.Join(flags, " "), not) {
					t.Errorf("%s in %q", not, flags)
				}
			}
			if again, err := parseJob(line); err != nil || !slices.Equal(again.raw.Command, program) {
				t.Errorf("%q is read as %+v, %v", line, again.raw, err)
			}
		})
	}
}

func TestSSHErrors(t *testing.T) {
	for args, want := range map[string]string{
		"x":                                   "either by --hosts",
		"--hosts a --hostfile b x":            "either by --hosts",
		"--hosts a,a x":                       "named twice",
		"--hostfile /none x":                  "cannot use --hostfile /none",
		"--hosts a,b --node-rank 1 x":         "--node-rank",
		"--hosts a,b --standalone x":          "--standalone",
		"--hosts a,b --local-nodes 2 x":       "--local-nodes",
		"--hosts a,b --nnodes 3 x":            "2 hosts are named",
		"--hosts a,b --nnodes 1:3 x":          "2 hosts are named",
		"--hosts a,b --rdzv-backend static x": "static",
		"--hosts a,b --secret-file /none x":   "/none",
		"--hosts a,b --max-restarts x x":      "--max-restarts",
		"--hosts a,b":                         "required: PROGRAM",
	} {
		if _, err := parseSSH(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// The hosts get the caller's values of what -x names and of flags' variables. The
// secret and the rank of this node are no such variables.
func TestSSHEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"MINE": "it's", "MORE_A": "1", "MORE_TOKEN": "2", "OTHER": "3", "GORUN_MAX_RESTARTS": "4", "PET_ROLE": "r", "PET_NODE_RANK": "1",
		"GORUN_SECRET": "0123456789abcdef", "PYTHON_EXEC": "/py", "VIRTUAL_ENV": "/venv",
	} {
		t.Setenv(name, value)
	}
	o, err := parseSSH(t, "--hosts", "a,b", "-x", "MINE", "-x", "MORE_*", "-x", "GIVEN=1", "train.py")
	if err != nil {
		t.Fatal(err)
	}
	env, err := o.environment()
	slices.Sort(env)
	want := []string{"GORUN_MAX_RESTARTS=4", "MINE=it's", "MORE_A=1", "PET_ROLE=r", "PYTHON_EXEC=/py", "VIRTUAL_ENV=/venv"}
	if err != nil || !slices.Equal(env, want) {
		t.Errorf("%q, %v, want %q", env, err, want)
	}
	if o.secret != "0123456789abcdef" {
		t.Errorf("secret %q", o.secret)
	}
}
