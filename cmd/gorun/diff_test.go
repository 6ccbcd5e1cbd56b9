package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/spec"
)

// TestFromTorchrun checks that docs/from-torchrun.md has the table of torchrun's flags
// and variables, and that the table has every flag that gorun takes from torchrun.
func TestFromTorchrun(t *testing.T) {
	const path, begin, end = "../../docs/from-torchrun.md", "<!-- table: go generate ./cmd/gorun writes it -->\n", "<!-- end of the table -->\n"
	flags, variables := spec.TorchrunTable()
	var b strings.Builder
	for _, part := range []struct {
		title string
		rows  []spec.Row
	}{{"flag", flags}, {"variable", variables}} {
		fmt.Fprintf(&b, "\n| %s of torchrun | in gorun | |\n| --- | --- | --- |\n", part.title)
		for _, row := range part.rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", row.Name, row.Parity, row.Text)
		}
	}
	b.WriteString("\n")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the table", path)
	}
	want := head + begin + b.String() + end + tail
	switch {
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case want != string(page):
		t.Errorf("%s has another table: go generate ./cmd/gorun", path)
	}
	for _, name := range flagNames(jobFlags()...) {
		if has := slices.ContainsFunc(flags, func(r spec.Row) bool { return r.Name == "--"+name }); has != (spec.GenerationOf(name) != spec.GorunsOwn) {
			t.Errorf("--%s is in the table: %v", name, has)
		}
	}
	for _, row := range slices.Concat(flags, variables) {
		if (row.Text == "") != (row.Parity == spec.Same) && row.Parity != spec.Same {
			t.Errorf("%s: %s without a text", row.Name, row.Parity)
		}
	}
}

// TestTorchrunDiff checks what gorun torchrun-diff prints.
func TestTorchrunDiff(t *testing.T) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "GORUN_") || strings.HasPrefix(name, "PET_") || name == "LOGLEVEL" {
			t.Setenv(name, "") // restores it
			os.Unsetenv(name)
		}
	}
	for args, want := range map[string][]string{
		"train.py":                             nil,
		"--standalone --nproc_per_node=8 x.py": nil,
		"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a:1 --rdzv-id=7 -r3 -t3 --log_dir /l --role r x.py": nil,
		"--nnodes=2 --node-rank=1 --master-addr=a --master-port=5 -m x":                                     nil,
		"--rdzv-endpoint=localhost:29501 x.py":                                                              nil,
		"--max-restarts=3 --no-python x":                                                                    nil,
		"--rdzv-conf=timeout=5,join_timeout=3 x.py":                                                         nil,
		"--nnodes=2 --rdzv-endpoint=a:1 --max-restarts=3 x.py": {
			"--rdzv-backend: without it gorun takes c10d for several nodes with an endpoint, torchrun static",
			"--max-restarts: gorun counts the restarts of the whole job, torchrun those of each node",
		},
		"--monitor-interval=5 --run-path --start-method=fork /x.py": {
			"--monitor-interval: gorun sees the end of a worker at once, whatever the interval is",
			"--start-method: gorun starts each worker as a new process, torchrun by fork",
		},
		"--standalone --master-port=5 x.py": {"--standalone: gorun serves the workers' store at port 5, torchrun ignores --master-port"},
		"--nnodes=2 --rdzv-backend=etcd-v2 --rdzv-endpoint=a --rdzv-conf=read_timeout=5 x.py": {
			"--rdzv-backend: gorun speaks etcd's v3 API, torchrun's etcd and etcd-v2 the v2 API", "--rdzv-conf: read_timeout: no effect in gorun",
		},
		"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=a --node-rank=1 x.py": {"--node-rank: gorun gives this node group rank 1, torchrun ignores it with this backend"},
		"--master-addr=127.0.0.1 x.py":                                        nil,
		"--master-addr=192.0.2.1 x.py":                                        {"--master-addr: gorun ignores 192.0.2.1, an address that this machine does not have; torchrun's workers wait there for their store"},
		"--pin=none -x A=1 x.py":                                              {"--export: torchrun has no such flag", "--pin: torchrun has no such flag"},
	} {
		var b bytes.Buffer
		root := newRootCommand()
		root.SetOut(&b)
		err := execute(root, append([]string{"torchrun-diff", "--surroundings=none"}, strings.Fields(args)...))
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		got := slices.DeleteFunc(lines, func(s string) bool { return s == "" || s == "--surroundings: torchrun has no such flag" })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v\n%q, want\n%q", args, err, got, want)
		}
	}
	t.Setenv("GORUN_NNODES", "1")
	t.Setenv("LOGLEVEL", "INFO")
	t.Setenv("TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT", "5")
	t.Setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
	for _, want := range []string{
		"TORCH_DISABLE_SHARE_RDZV_TCP_STORE: gorun serves the workers' store all the same",
		"TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT: in gorun a node that is done waits for the others as long as they run",
		"GORUN_NNODES: torchrun does not read it", "LOGLEVEL: gorun prints the same lines at every level",
	} {
		if got := output(t, "torchrun-diff", "--nnodes=2", "--master-addr=a", "x.py"); !strings.Contains(got, want+"\n") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, args := range [][]string{{"torchrun-diff"}, {"torchrun-diff", "--nnodes=x", "x.py"}} {
		if err := execute(newRootCommand(), args); exitCode(err) != 2 {
			t.Errorf("%q: %v, want exit code 2", args, err)
		}
	}
}
