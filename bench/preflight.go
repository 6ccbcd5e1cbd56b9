package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun/gorun/bench/longlog"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/gather"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// preflightCosts measures what the preflight costs in this process: gathering the facts
// of this machine, and the rules over simulated fleets. No peer does any of this.
func preflightCosts(quick bool) []scenario {
	all := []scenario{{name: "facts of this machine", run: factsCost}}
	sizes := []int{1000, 10_000}
	if quick {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		all = append(all,
			scenario{name: fmt.Sprintf("rules, %d nodes", n), run: rulesCost(n, 0)},
			scenario{name: fmt.Sprintf("rules, %d nodes, every tenth odd", n), run: rulesCost(n, 10)})
	}
	for i := range all {
		all[i].measure, all[i].only = "preflight", []string{nameGorun}
	}
	return all
}

// factsCost gathers facts as an agent does for a Python worker.
func factsCost(ctx context.Context, _ *lab, _ *peer) ([]reading, error) {
	python := lookPath("python3")
	begin := time.Now()
	f := gather.Facts(ctx, gather.Options{Env: os.Environ(), Run: runChild, Program: preflight.Program{Path: python, Python: python, Dir: "/"}})
	took := time.Since(begin)
	if len(f.Network.Interfaces) == 0 {
		return nil, errors.New("no interface was found")
	}
	return one(reading{value: ms(int64(took)), unit: "ms"}), nil
}

// runChild runs a child process as an agent does for the system's loader. Unlike an
// agent it keeps no table of its processes.
func runChild(ctx context.Context, path string, argv, env []string, dir string) ([]byte, int, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Env, cmd.Dir = argv, env, dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return nil, 0, err
	}
	return out, cmd.ProcessState.ExitCode(), nil
}

// rulesCost compares n simulated nodes; every odd-th has another NCCL, interface
// and limit.
func rulesCost(n, odd int) func(context.Context, *lab, *peer) ([]reading, error) {
	return func(context.Context, *lab, *peer) ([]reading, error) {
		fleet := simulated(n, odd)
		begin := time.Now()
		found := preflight.Compare(fleet, rules.All(), preflight.Options{})
		took := time.Since(begin)
		if (preflight.Worst(found) == preflight.Error) != (odd > 0) {
			return nil, fmt.Errorf("%d findings, the gravest %q", len(found), preflight.Worst(found))
		}
		return one(reading{value: ms(int64(took)), unit: "ms", note: fmt.Sprintf("%d findings", len(found))}), nil
	}
}

func simulated(n, odd int) *preflight.Fleet {
	f := &preflight.Fleet{Nodes: make([]preflight.Facts, n), Master: "10.0.0.1:29500"}
	for i := range f.Nodes {
		ip := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		node := preflight.Facts{
			Format: preflight.Format,
			Node: preflight.Node{
				ID: fmt.Sprint("id", i), Host: fmt.Sprint("node", i), Name: fmt.Sprintf("node%d (%s)", i, ip), Addr: ip,
				Workers: 8, NodeRank: -1, Protocol: 1,
			},
			GPU: preflight.GPU{Driver: true},
			Libraries: library.Facts{NCCL: &library.NCCL{
				Path: "/opt/venv/lib/libnccl.so.2", Version: "2.27.5", Code: 22705, CUDA: "12.8", Why: "RPATH",
			}},
			Network: netif.Facts{
				Interfaces: []netif.Interface{{Index: 2, Name: "eth0", MTU: 9000, MAC: fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255), Up: true, Running: true, Device: true}},
				Addresses:  []netif.Address{{Index: 2, Label: "eth0", IP: ip, Bits: 8, Scope: "global"}},
			},
			Host: host.Facts{
				Hostname: fmt.Sprint("node", i), BootID: fmt.Sprint("boot", i), NS: host.NS{Net: "net:[1]"}, Arch: "x86_64",
				CPUs: 128, SysPCI: true, ProcGPU: true, SHM: host.SHM{Size: 1 << 40, Free: 1 << 40},
				Limits: host.Limits{
					NoFileSoft: 1 << 20, NoFileHard: 1 << 20, MemLock: -1, MemLockSoft: -1, NProc: -1, PidsMax: -1, PIDMax: 1 << 22,
					ThreadsMax: -1, Stack: 8 << 20, AS: -1, MemMax: -1,
				},
				Sysctl: host.Sysctl{SomaxConn: 1 << 16, GCThresh3: 1 << 20, ConntrackMax: host.Unknown, FileMax: 1 << 40},
			},
		}
		for g := range 8 {
			uuid := fmt.Sprintf("GPU-%d-%d", i, g)
			node.GPU.Devices = append(node.GPU.Devices, preflight.Device{Index: g, UUID: uuid, Name: "H100"})
			node.GPU.Visible = append(node.GPU.Visible, uuid)
		}
		if odd > 0 && i%odd == 0 {
			node.Libraries.NCCL.Version, node.Libraries.NCCL.Code = "2.19.3", 21903
			node.Network.Interfaces[0].MTU = 1500
			node.Host.Limits.NoFileSoft, node.Host.Limits.NoFileHard = 1024, 1024
		}
		f.Nodes[i] = node
	}
	return f
}

// explainCosts measures what gorun explain costs on long logs, beside programs that do no
// more than look for a word or count lines.
func explainCosts(quick bool) []scenario {
	size := int64(2 << 30)
	if quick {
		size = 64 << 20
	}
	var all []scenario
	for _, k := range longlog.Kinds() {
		all = append(all, scenario{
			measure: "explain", name: fmt.Sprintf("%d MiB of %s", size>>20, k.Name), only: []string{nameGorun},
			run: func(ctx context.Context, l *lab, _ *peer) ([]reading, error) { return explainCost(ctx, l, k, size) },
		})
	}
	return all
}

// explainCost writes a log, and reads it with each program in turn: its CPU time, and
// the memory of gorun. wc comes first, and brings the log into the page cache.
func explainCost(ctx context.Context, l *lab, k longlog.Kind, size int64) (_ []reading, err error) {
	log, err := os.Create(filepath.Join(l.scratch, "long.log"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close(), os.Remove(log.Name())) }()
	if err := k.Write(log, size); err != nil {
		return nil, err
	}
	var all []reading
	for _, program := range [][]string{{"wc", "-l", log.Name()}, {"grep", "-c", "Traceback", log.Name()}, {l.gorun, "explain", log.Name()}} {
		cmd := exec.CommandContext(ctx, program[0], program[1:]...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		var out bytes.Buffer
		cmd.Stdout = &out
		peak, err := runWatched(cmd)
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) { // grep ends with 1 where it finds nothing
			return nil, err
		}
		name := strings.Join(program[:2], " ")
		if program[0] == l.gorun {
			name = "gorun explain"
			if !strings.Contains(out.String(), "["+longlog.Cause+"]") {
				return nil, fmt.Errorf("the cause was not found: %.300s", out.String())
			}
			all = append(all, reading{metric: "gorun explain, memory", value: mib(peak), unit: "MiB"})
		}
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		all = append(all, reading{metric: name + ", CPU time", value: cpu.Seconds(), unit: "s"})
	}
	return all, nil
}

// runWatched runs cmd and returns the peak of its memory in bytes. It asks the kernel
// while the program runs, because the peak that wait4 returns begins with that of this
// process.
func runWatched(cmd *exec.Cmd) (peak int64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return peak, err
		case <-tick.C:
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)) // "": it has just ended
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
				var kib int64
				if _, err := fmt.Sscan(rest, &kib); err == nil {
					peak = kib << 10
				}
			}
		}
	}
}
