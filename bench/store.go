package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed csrc/store.c
var storeC []byte

// stores measures the store that workers bootstrap from: gorun's own beside that of
// torch, which torchrun's agent serves. Both get the requests of torch's client, from
// the same program and in the dialect of the torch that is installed.
func stores(quick bool) []scenario {
	m := storeMeasure{operations: 16_000, storm: 1000}
	if quick {
		m.operations, m.storm = 4000, 200
	}
	return []scenario{{measure: "store", name: "one node", only: []string{nameGorun, "torchrun"}, run: m.run}}
}

// storeMeasure says how much is measured.
type storeMeasure struct {
	operations int    // of each kind, of all clients together
	storm      int    // clients that connect at once
	dialect    string // of torch; "" before the first run
}

// run starts a job of one waiting worker and uses its store.
func (m *storeMeasure) run(ctx context.Context, l *lab, p *peer) (_ []reading, err error) {
	client := filepath.Join(l.scratch, "store")
	if m.dialect == "" {
		if err := compileStoreClient(ctx, client); err != nil {
			return nil, err
		}
		m.dialect = torchDialect(ctx)
	}
	at, err := freePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(at)
	served := *p
	served.commands = func(l *lab, _ shape, program []string) ([][]string, error) {
		line := []string{l.gorun, "--nproc-per-node", "1", "--master-port", port, "--no-python"}
		if !p.isGorun() {
			line = []string{python, l.torchrun, "--nproc_per_node", "1", "--master_port", port, "--no_python"}
		}
		return [][]string{join(line, program)}, nil
	}
	j, err := startJob(l, &served, shape{nodes: 1, perNode: 1}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	if _, err := j.workers(ctx, 1, startBound); err != nil {
		return nil, err
	}
	var all []reading
	for _, clients := range []int{1, 8} {
		for _, op := range []string{"set", "get", "add"} {
			took, err := runStoreClient(ctx, client, port, m.dialect, strconv.Itoa(clients), op, strconv.Itoa(m.operations/clients))
			if err != nil {
				return nil, err
			}
			all = append(all, reading{metric: fmt.Sprintf("%s, clients: %d", op, clients), value: float64(m.operations) / took.Seconds(), unit: "ops/s"})
		}
	}
	took, err := runStoreClient(ctx, client, port, m.dialect, strconv.Itoa(m.storm), "meet", "1")
	return append(all, reading{metric: fmt.Sprintf("%d clients connect and meet", m.storm), value: ms(int64(took)), unit: "ms"}), err
}

// compileStoreClient builds the client.
func compileStoreClient(ctx context.Context, path string) error {
	if err := os.WriteFile(path+".c", storeC, 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cc", "-O2", "-pthread", "-o", path, path+".c").CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile the client: %w: %s", err, out)
	}
	return nil
}

// torchDialect returns the name of the installed torch's dialect.
func torchDialect(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, "-c", "import torch; print(torch.__version__)").Output()
	if version := string(out); err == nil && (strings.HasPrefix(version, "1.") || strings.HasPrefix(version, "2.0")) {
		return "legacy"
	}
	return "modern"
}

// runStoreClient runs the client and returns the time that it measured.
func runStoreClient(ctx context.Context, args ...string) (time.Duration, error) {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	ns, parseErr := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err = errors.Join(err, parseErr); err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return time.Duration(ns), nil
}
