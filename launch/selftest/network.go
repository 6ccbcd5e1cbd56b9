package selftest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/ldso"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// portShare is which part of a port's rate two GPUs of different nodes must reach in a
// large all-reduce. Azure's health checks (azurehpc-health-checks, conf/) want 90 to 95 %
// of it in a copy (360 to 380 of 400 Gb/s, 185 of 200) and 72 to 96 % in NCCL's all-reduce
// through the ports (18 of 25 GB/s; 40 and, of GB200, 48 of 50); NCCL's authors take 24 of
// 25 GB/s for the peak (nccl-tests, "Evaluation of NCCL test result"). Without GPUDirect it
// is far less.
const portShare = 0.5

// fastestPort returns in GB/s what the fastest port carries that NCCL would use; 0: it
// uses sockets, a plugin, or what is not known. root is the prefix of /sys.
func fastestPort(ctx context.Context, root string, lookup func(string) (string, bool)) float64 {
	env := func(name string) string { v, _ := lookup(name); return v }
	if n, err := strconv.Atoi(env("NCCL_IB_DISABLE")); err == nil && n != 0 {
		return 0
	}
	if net := env("NCCL_NET"); net != "" && !strings.EqualFold(net, "IB") {
		return 0
	}
	nothing := func(context.Context, []string) (map[string]ldso.Request, error) { return nil, nil }
	facts, _ := rdma.Gather(ctx, rdma.Options{Root: root, Env: os.Environ(), Find: nothing})
	best := 0.0
	for _, p := range rdma.HCAs(facts, env) {
		text, _, _ := strings.Cut(p.Rate, " ") // "400 Gb/sec (4X NDR)"
		if rate, err := strconv.ParseFloat(text, 64); err == nil && strings.Contains(p.Rate, "Gb/sec") {
			best = max(best, rate/8)
		}
	}
	return best
}

// port returns the rate of the ports as text.
func (g *GPU) port() string {
	if g.Port == 0 {
		return "none"
	}
	return fmt.Sprintf("%.0f Gb/s", g.Port*8)
}

// comparePorts marks the nodes that are slower with their best partner than their ports
// must let them be. Where most nodes are, it is a setting, and none is marked.
func (r *Report) comparePorts() {
	if r.sharesHost() {
		return
	}
	var ports, rates []float64
	var below []int
	for i, n := range r.Nodes {
		g := r.Ranks[n.Ranks[0]].GPU
		if g == nil || g.Port == 0 || n.Pair == 0 {
			continue
		}
		ports, rates = append(ports, g.Port), append(rates, n.Pair)
		if n.Pair < g.Port*portShare {
			below = append(below, i)
		}
	}
	if len(below) == 0 {
		return
	}
	if 2*len(below) > len(rates) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the network is slow: nodes reach %.1f of %.1f GB/s expected of ports with %.0f Gb/s: look at GPUDirect RDMA (nvidia-peermem), at PCIe and at what NCCL_DEBUG=INFO says of NET/IB",
			median(rates), median(ports)*portShare, median(ports)*8))
		return
	}
	for _, i := range below {
		n := &r.Nodes[i]
		text := fmt.Sprintf("%.1f of %.1f GB/s expected", n.Pair, r.Ranks[n.Ranks[0]].GPU.Port*portShare)
		r.markSlow(i, text+" (pairs of nodes)")
		r.Warnings = append(r.Warnings, fmt.Sprintf("node %d (%s) is slow: %s of a port with %s in the rung %q", i, n.Host, text, r.Ranks[n.Ranks[0]].GPU.port(), "pairs of nodes"))
	}
}

// sharesHost reports whether nodes are on one machine, which the network between
// machines says nothing about.
func (r *Report) sharesHost() bool {
	var hosts []string
	for _, n := range r.Nodes {
		hosts = append(hosts, n.Host)
	}
	slices.Sort(hosts)
	return len(slices.Compact(hosts)) < len(r.Nodes)
}
