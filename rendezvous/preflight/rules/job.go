package rules

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"golang.org/x/net/http/httpproxy"
)

// jobRules returns R01, R02 and R04 to R07: what the nodes report about the
// job.
func jobRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "R01", Name: "rank-map", Severity: preflight.Error,
			Meaning: "Every node has workers, and no --node-rank is given twice, so that the ranks are 0 to the world size less one, each once.",
			Symptom: "`rank 3 of 16 ranks has already checked in`, `mismatch in info from procs`, or a hang that waits for ranks.",
			Steps:   []preflight.Step{preflight.ByHand.Step("give every node a --node-rank of its own, from 0, or none of them one")},
			Check:   checkRanks,
		},
		{
			ID: "R02", Name: "master-addr", Severity: preflight.Error,
			Meaning: "The store's address that workers get belongs to node 0, and is neither loopback nor link-local when there are several machines.",
			Symptom: "`client socket has timed out after 60s while trying to connect to (..., 29500)`.",
			Steps:   []preflight.Step{preflight.ToGorun.Step("let node 0 announce an address that the others reach", "--local-addr 10.0.0.1").On([]int{0})},
			Check:   checkMaster,
		},
		{
			ID: "R04", Name: "gorun-same", Severity: preflight.Error,
			Meaning: "All nodes run the same protocol of gorun; another version with the same protocol is a warning.",
			Symptom: "Nodes refuse each other, or behave in different ways.",
			Steps:   []preflight.Step{preflight.ByHand.Step("install the same gorun on all nodes")},
			Check:   checkGorun,
		},
		{
			ID: "R05", Name: "job-collision", Severity: preflight.Error,
			Meaning: "All nodes belong to one run, and no process of an earlier job with the same run id is alive; for a job of one node that is a warning.",
			Symptom: "Two jobs mix: `has already checked in`, a port that is in use, GPUs that are full.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("give every node the same run id, which no other job has", "--rdzv-id run43").Everywhere(),
				preflight.ByHand.Step("end the processes of the other job, or wait for its end").Alternative(),
			},
			Check: checkCollision,
		},
		{
			ID: "R06", Name: "proxy-env", Severity: preflight.Warning,
			Meaning: "No proxy variable leads connections between nodes to a proxy.",
			Symptom: "Errors 403 and 503, or timeouts, when a library of the workers uses HTTP or gRPC to another node. gorun itself uses no proxy.",
			Steps:   []preflight.Step{preflight.InShell.Step("name the nodes in NO_PROXY, by address, network or domain", "export NO_PROXY=10.0.0.0/8 no_proxy=10.0.0.0/8")},
			Check:   checkProxy,
		},
		{
			ID: "R07", Name: "uneven-local", Severity: preflight.Warning,
			Meaning: "Every node has the same number of workers.",
			Symptom: "Slower collectives; some algorithms and releases of NCCL need it.",
			Steps:   []preflight.Step{preflight.ToGorun.Step("start the same number of workers on every node", "--nproc-per-node 8").Everywhere()},
			Check:   checkUneven,
		},
	}
}

func checkRanks(f *preflight.Fleet) []preflight.Finding {
	all := preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		if n.Program.Title != "" && n.Node.Workers < 1 {
			return preflight.Plural(n.Node.Workers, "worker")
		}
		return ""
	}), preflight.Finding{Text: "A node has no workers.", Steps: []preflight.Step{preflight.ToGorun.Step("start workers on every node", "--nproc-per-node "+strconv.Itoa(mostWorkers(f))).Everywhere()}})
	return append(all, preflight.WithSteps(preflight.IfAny(duplicates(f, f.AllNodes(), func(_ int, n *preflight.Facts) []string {
		if n.Node.NodeRank < 0 {
			return nil
		}
		return []string{fmt.Sprintf("--node-rank %d", n.Node.NodeRank)}
	}), preflight.Finding{Text: "Several nodes have the same --node-rank."}), func() []preflight.Step { return renumber(f) })...)
}

// renumber returns the step that gives every node a number of its own.
func renumber(f *preflight.Fleet) []preflight.Step {
	var nodes []int
	for i := range f.Known() {
		nodes = append(nodes, i)
	}
	if len(nodes) > preflight.MaxSteps {
		return []preflight.Step{preflight.ByHand.Step("give every node a --node-rank of its own, from 0, or none of them one")}
	}
	return f.StepsFor(nodes, preflight.ToGorun, "give every node a number of its own", func(i int, _ *preflight.Facts) []string { return []string{"--node-rank " + strconv.Itoa(i)} })
}

// mostWorkers returns the largest number of workers of a node, and at least 1.
func mostWorkers(f *preflight.Fleet) int {
	most := 1
	for _, n := range f.Known() {
		most = max(most, n.Node.Workers)
	}
	return most
}

// sameWorkers returns the step that starts as many workers on every node as the
// node with the fewest workers has.
func sameWorkers(f *preflight.Fleet) []preflight.Step {
	least := 0
	for _, n := range f.Known() {
		if w := n.Node.Workers; w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return []preflight.Step{preflight.ToGorun.Step("start the same number of workers on every node", "--nproc-per-node "+strconv.Itoa(max(least, 1))).Everywhere()}
}

func checkMaster(f *preflight.Fleet) []preflight.Finding {
	host, _, err := net.SplitHostPort(f.Master)
	if err != nil || f.View().Places < 2 || f.Nodes[0].Format == 0 {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	linked := ip.Is4() && f.AllLinkLocal(func(i int) string { return f.Nodes[i].Node.Addr })
	if host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() && !linked) {
		return []preflight.Finding{{
			Text:   "Workers on other nodes cannot reach the store at " + preflight.Clean(f.Master, 80) + ": for them the address means their own machine, or their own link.",
			Values: f.Complete([]preflight.Value{{Value: preflight.Clean(f.Master, 80), Nodes: []int{0}, Odd: true}}),
			Steps:  masterSteps(f),
		}}
	}
	if err != nil || len(f.Nodes[0].Network.Addresses) == 0 {
		return nil
	}
	for _, a := range f.Nodes[0].Network.Addresses {
		if addr, err := netip.ParseAddr(a.IP); err == nil && addr.WithZone("") == ip.WithZone("").Unmap() {
			return nil
		}
	}
	return []preflight.Finding{{
		Severity: preflight.Warning,
		Text:     "The store's address is not an address of node 0: it is translated (NAT), or belongs to another machine.",
		Values:   f.Complete([]preflight.Value{{Value: preflight.Clean(f.Master, 80) + "; the node has " + f.Nodes[0].Network.ListAddresses(), Nodes: []int{0}, Odd: true}}),
		Steps:    masterSteps(f),
	}}
}

// masterSteps returns the step that makes node 0 announce another of its
// addresses to the other nodes. It prefers an address in a network that another
// node has, too.
func masterSteps(f *preflight.Fleet) []preflight.Step {
	best := ""
	for _, a := range f.Nodes[0].Network.Addresses {
		p := netif.Pick{IP: a.IP, Bits: a.Bits}
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || p.LocalOnly() != "" {
			continue
		}
		shared := false
		if net, err := ip.Prefix(a.Bits); err == nil {
			for i, n := range f.Known() {
				other, err := netip.ParseAddr(n.Node.Addr)
				shared = shared || i > 0 && err == nil && net.Contains(other)
			}
		}
		if best == "" || shared {
			best = a.IP
		}
		if shared {
			break
		}
	}
	if best == "" {
		return []preflight.Step{preflight.ByHand.Step("ask the administrator of " + f.NamesOf([]int{0}) + " to connect it to a network that the other nodes reach")}
	}
	return []preflight.Step{preflight.ToGorun.Step("let node 0 announce an address that the others reach", "--local-addr "+term.Command(best)).On([]int{0})}
}

func checkGorun(f *preflight.Fleet) []preflight.Finding {
	values := f.Differing(func(_ int, n *preflight.Facts) string {
		if n.Node.Protocol == 0 {
			return ""
		}
		return fmt.Sprintf("protocol %d", n.Node.Protocol)
	})
	f.Describe(values, func(i int) string { return f.Nodes[i].Node.Version })
	if values != nil {
		return preflight.IfAny(values, preflight.Finding{Text: "The nodes run releases of gorun whose protocols differ."})
	}
	return preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string { return n.Node.Version }),
		preflight.Finding{Severity: preflight.Warning, Text: "The nodes run different releases of gorun."})
}

func checkCollision(f *preflight.Fleet) []preflight.Finding {
	all := preflight.WithSteps(preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string { return n.Node.RunID }), preflight.Finding{Text: "The nodes belong to different runs."}), func() []preflight.Step {
		return []preflight.Step{preflight.ToGorun.Step("give every node the same run id", "--rdzv-id "+term.Command(f.Nodes[0].Node.RunID)).Everywhere()}
	})
	v := f.View()
	alive := f.Faults(func(i int, n *preflight.Facts) string {
		if v.Shared[i] { // the processes may be those of this job's other nodes
			return ""
		}
		for _, j := range n.Host.Leftover.Jobs {
			return fmt.Sprintf("pid %d (%s) of run %q", j.PID, j.Name, j.RunID)
		}
		return ""
	})
	severity := preflight.Error
	if len(f.Nodes) == 1 { // two jobs of one node never meet, whatever their run ids
		severity = preflight.Warning
	}
	return append(all, preflight.IfAny(alive, preflight.Finding{
		Severity: severity, Text: "Processes of a job with the same run id are still alive.",
		Steps: f.StepsFor(preflight.Marked(alive), preflight.InShell, "end them, or wait for their end", func(_ int, n *preflight.Facts) []string {
			var pids []string
			for _, j := range n.Host.Leftover.Jobs {
				pids = append(pids, strconv.Itoa(j.PID))
			}
			return []string{"kill " + strings.Join(pids, " ")}
		}),
	})...)
}

// proxyPeers bounds the nodes whose addresses are compared with the proxy's
// settings.
const proxyPeers = 16

func checkProxy(f *preflight.Fleet) []preflight.Finding {
	if !f.View().Between() {
		return nil
	}
	texts := map[httpproxy.Config]string{}
	values := f.Faults(func(_ int, n *preflight.Facts) string {
		first := func(names ...string) string {
			for _, name := range names {
				if value := n.Env(name); value != "" {
					return value
				}
			}
			return ""
		}
		c := httpproxy.Config{
			HTTPProxy:  first("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
			HTTPSProxy: first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
			NoProxy:    first("no_proxy", "NO_PROXY"),
		}
		if c.HTTPProxy == "" && c.HTTPSProxy == "" {
			return ""
		}
		text, ok := texts[c]
		if !ok {
			text = nodeBehindProxy(f, c)
			texts[c] = text
		}
		return text
	})
	return preflight.IfAny(values, preflight.Finding{Text: "A proxy is set, and NO_PROXY does not name the nodes of the job.", Steps: noProxySteps(f, preflight.Marked(values))})
}

// noProxySteps returns the step that adds the nodes to what no_proxy names.
func noProxySteps(f *preflight.Fleet, nodes []int) []preflight.Step {
	var networks []string
	for _, n := range f.Known() {
		ip, err := netip.ParseAddr(n.Node.Addr)
		if err != nil {
			continue
		}
		name := ip.String()
		for _, a := range n.Network.Addresses {
			if net := (netif.Pick{IP: a.IP, Bits: a.Bits}).Subnet(); a.IP == name && net != "" {
				name = net
			}
		}
		if !slices.Contains(networks, name) && len(networks) < proxyPeers {
			networks = append(networks, name)
		}
	}
	if len(networks) == 0 {
		return nil
	}
	return f.StepsFor(nodes, preflight.InShell, "name the nodes of the job in NO_PROXY", func(_ int, n *preflight.Facts) []string {
		list := networks
		if has := cmp.Or(n.Env("no_proxy"), n.Env("NO_PROXY")); has != "" {
			list = append([]string{has}, networks...)
		}
		value := term.Command(strings.Join(list, ","))
		return []string{"export NO_PROXY=" + value + " no_proxy=" + value}
	})
}

// nodeBehindProxy names a node that would be reached through the proxy.
func nodeBehindProxy(f *preflight.Fleet, c httpproxy.Config) string {
	proxyFor := c.ProxyFunc()
	seen := 0
	for _, n := range f.Known() {
		if _, err := netip.ParseAddr(n.Node.Addr); err != nil {
			continue
		}
		if seen++; seen > proxyPeers {
			break
		}
		for _, scheme := range []string{"http", "https"} {
			proxy, err := proxyFor(&url.URL{Scheme: scheme, Host: net.JoinHostPort(n.Node.Addr, "29500")})
			if err == nil && proxy != nil {
				return fmt.Sprintf("%s for %s goes to %s", scheme, n.Node.Addr, proxy.Host)
			}
		}
	}
	return ""
}

// uneven groups the nodes by their number of workers; nil if all have the same
// number.
func uneven(f *preflight.Fleet) []preflight.Value {
	return f.Differing(func(_ int, n *preflight.Facts) string {
		if n.Node.Workers < 1 {
			return ""
		}
		return preflight.Plural(n.Node.Workers, "worker")
	})
}

func checkUneven(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	return preflight.WithSteps(preflight.IfAny(uneven(f), preflight.Finding{Text: "The nodes have different numbers of workers."}), func() []preflight.Step { return sameWorkers(f) })
}
