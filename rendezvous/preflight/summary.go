package preflight

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// Summary says what the workers of the nodes would have, one line a subject, as
// gorun check shows it. A subject without a known value has no line.
func Summary(f *Fleet) string {
	names := f.Names()
	var b strings.Builder
	for _, s := range subjects() {
		groups := f.Group(func(_ int, n *Facts) string { return s.value(n) })
		for i, g := range groups {
			head := s.name
			if i > 0 {
				head = ""
			}
			if i == 8 {
				fmt.Fprintf(&b, "  %-10s %d further values\n", "", len(groups)-i)
				break
			}
			fmt.Fprintf(&b, "  %-10s %s", head, Clean(g.Value, 200))
			if len(groups) > 1 || len(g.Nodes) < len(f.Nodes) {
				fmt.Fprintf(&b, "  (%s)", nameList(g.Nodes, names, len(f.Nodes), true))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// subject is one line of the summary.
type subject struct {
	name  string
	value func(n *Facts) string // "" if it is unknown or does not exist
}

func subjects() []subject {
	return []subject{
		{"GPUs", func(n *Facts) string {
			switch d := n.GPU.Devices; {
			case n.GPU.Error != "":
				return n.GPU.Error
			case len(d) == 0:
				return ""
			case len(n.GPU.Visible) < len(d):
				return fmt.Sprintf("%d of %d x %s", len(n.GPU.Visible), len(d), cmp.Or(d[0].Name, "unknown model"))
			default:
				return fmt.Sprintf("%d x %s", len(d), cmp.Or(d[0].Name, "unknown model"))
			}
		}},
		{"driver", func(n *Facts) string { return n.Libraries.Driver }},
		{"NCCL", func(n *Facts) string {
			switch l := n.Libraries.NCCL; {
			case n.Libraries.NCCLError != "":
				return "none: " + n.Libraries.NCCLError
			case l == nil:
				return ""
			default:
				return fmt.Sprintf("%s  %s, by %s", cmp.Or(l.Version, "unknown version"), l.Path, l.Why)
			}
		}},
		{"torch", func(n *Facts) string {
			if n.Libraries.Torch != "" && n.Libraries.TorchCUDA == "" {
				return n.Libraries.Torch + ", without CUDA"
			}
			return n.Libraries.Torch
		}},
		{"Python", func(n *Facts) string {
			if n.Libraries.Python == "" {
				return ""
			}
			return n.Libraries.Python + "  " + n.Program.Python
		}},
		{"network", func(n *Facts) string {
			if !n.GPU.Driver {
				return ""
			}
			kind, _, err := rdma.Transport(n.RDMA, n.Env, n.NCCLCode())
			return cmp.Or(kind, err)
		}},
		{"interface", func(n *Facts) string {
			var c netif.Choice
			switch {
			case n.GPU.Driver:
				c = netif.Bootstrap(n.Network, n.Env, n.NCCLCode())
			case n.Libraries.Torch != "":
				c = netif.Gloo(n.Network, n.Env)
			}
			if len(c.Picked) == 0 {
				return ""
			}
			return c.Picked[0].Iface
		}},
	}
}
