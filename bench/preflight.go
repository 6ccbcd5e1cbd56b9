package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/gather"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// preflightCosts measures what the preflight and gorun explain cost in this process:
// gathering the facts of this machine, the rules over simulated fleets, and reading a
// log. No peer does any of this.
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
	for _, l := range longLogs {
		all = append(all, scenario{name: "explain, " + l.name, run: explainCost(l.mib<<20, l.body)})
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

// longLogs has what fills the log of a long job: its lines as they are, as Docker
// stores them, a progress bar, and errors that a data loader reports and survives.
var longLogs = []struct {
	name string
	mib  int
	body string
}{
	{"256 MiB", 256, "[rank3]: 2026-11-21 12:00:00 step 123456 loss 2.345 lr 3e-4 grad_norm 1.25 tokens/s 123456 errors 0\n"},
	{"256 MiB of Docker's JSON", 256, `{"log":"step 1234 loss 2.31234 lr 3.0e-04 tokens/s 123456 grad_norm 0.123\n","stream":"stdout","time":"2026-11-21T16:39:58.123456789Z"}` + "\n"},
	{"256 MiB of a progress bar", 256, "\r 10%|###       | 10/100 [00:01<00:09, 10.00it/s, loss=2.31234]"},
	{"32 MiB of caught tracebacks", 32, "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/data.py\", line 81, in fetch\n[rank1]:     return self.read(shard)\n" +
		"[rank1]: OSError: shard 7\n[rank1]: skipped a shard\n"},
}

// explainCost reads a log of size bytes whose last line is about a failure.
func explainCost(size int, body string) func(context.Context, *lab, *peer) ([]reading, error) {
	return func(ctx context.Context, _ *lab, _ *peer) ([]reading, error) {
		log := &repeatedLog{
			left: size, body: []byte(body),
			tail: []byte("\n" + strings.Repeat("[rank1]: step 123456 loss 2.345\n", 100) + "node7:42:43 [1] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000\n"),
		}
		s := diagnose.NewScanner()
		begin := time.Now()
		if err := s.Read(ctx, diagnose.Log{Name: "-", Rank: -1, Local: -1}, log); err != nil {
			return nil, err
		}
		found := s.Findings()
		took := time.Since(begin)
		if len(found) == 0 || found[0].ID != "D01" {
			return nil, fmt.Errorf("the cause was not found: %+v", found)
		}
		return one(reading{value: float64(size) / float64(1<<20) / took.Seconds(), unit: "MiB/s"}), nil
	}
}

// repeatedLog is a log of equal parts and a last one.
type repeatedLog struct {
	left int
	body []byte
	tail []byte
	rest []byte
}

func (e *repeatedLog) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(e.rest) == 0 {
			switch {
			case e.left > 0:
				e.rest = e.body
				e.left -= len(e.body)
			case e.tail != nil:
				e.rest, e.tail = e.tail, nil
			case n == 0:
				return 0, io.EOF
			default:
				return n, nil
			}
		}
		m := copy(p[n:], e.rest)
		e.rest = e.rest[m:]
		n += m
	}
	return n, nil
}
