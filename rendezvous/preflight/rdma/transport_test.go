package rdma

import (
	"slices"
	"strings"
	"testing"
)

// node returns a node with this number of working InfiniBand ports.
func node(active int) Facts {
	f := Facts{Verbs: Library{Path: "/usr/lib64/libibverbs.so.1"}, Provider: []string{"mlx5"}}
	for i := range active {
		n := string(rune('0' + i))
		f.Devices = append(f.Devices, Device{
			Name: "mlx5_" + n, Driver: "mlx5", Verbs: "uverbs" + n,
			Ports: []Port{{Number: 1, State: "ACTIVE", Link: "InfiniBand"}},
		})
		f.Nodes = append(f.Nodes, DevNode{Path: "/dev/infiniband/uverbs" + n})
	}
	return f
}

func with(f Facts, change func(*Facts)) Facts {
	change(&f)
	return f
}

func TestNCCLsNetworkIsReproduced(t *testing.T) {
	ib, none := node(2), Facts{Verbs: Library{Error: "libibverbs.so.1: not found (searched: ld.so.cache)"}}
	plugin := func(f *Facts) {
		f.Plugin = []Plugin{{Name: "net", Path: "/opt/lib/libnccl-net-ofi.so", Versions: []string{"ncclNetPlugin_v8"}}}
	}
	broken := func(f *Facts) { f.Plugin = []Plugin{{Name: "net", Asked: "ofi", Error: "ofi: not found"}} }
	for _, c := range []struct {
		name           string
		f              Facts
		env            string
		code           int
		kind, why, err string
	}{
		{"IB", ib, "", 0, "IB", "2 active ports; NCCL_NET is not set", ""},
		{"no RDMA", none, "", 0, "Socket", "libibverbs.so.1: not found", ""},
		{"no adapter", node(0), "", 0, "Socket", "no adapter", ""},
		{"nothing gathered", Facts{}, "", 0, "", "not known", ""},
		{"nothing gathered, IB forced", Facts{}, "NCCL_NET=IB", 0, "", "not known", ""},
		{"nothing gathered, Socket forced", Facts{}, "NCCL_NET=Socket", 0, "Socket", "", ""},
		{"IB forced", ib, "NCCL_NET=ib", 0, "IB", "NCCL_NET=ib", ""},
		{"IB forced without libibverbs", none, "NCCL_NET=IB", 22803, "", "NCCL_NET=IB", "Failed to initialize any NET plugin: libibverbs.so.1: not found"},
		{"IB forced without libibverbs, old", none, "NCCL_NET=IB", 21605, "", "", "Error: network IB not found.: libibverbs.so.1: not found"},
		{"IB forced and disabled", ib, "NCCL_NET=IB NCCL_IB_DISABLE=1", 0, "", "", "NCCL_IB_DISABLE=1"},
		{"disabled", ib, "NCCL_IB_DISABLE=1", 0, "Socket", "NCCL_IB_DISABLE=1", ""},
		{"disabled by any number", ib, "NCCL_IB_DISABLE=0x2x", 0, "Socket", "", ""},
		{"a word is no number", ib, "NCCL_IB_DISABLE=true", 0, "IB", "", ""},
		{"Socket forced", ib, "NCCL_NET=SOCKET", 0, "Socket", "", ""},
		{"unknown network", ib, "NCCL_NET=OFI", 0, "", "", "there is no net plugin"},
		{"too old libibverbs", with(ib, func(f *Facts) { f.Verbs.Error = "lacks IBVERBS_1.1" }), "", 0, "Socket", "lacks IBVERBS_1.1", ""},
		{"no provider", with(ib, func(f *Facts) { f.Provider = []string{"efa"} }), "", 0, "Socket", "no provider library for mlx5_0", ""},
		{"unknown driver", with(node(1), func(f *Facts) { f.Provider, f.Devices[0].Driver = nil, "" }), "", 0, "IB", "1 active port", ""},
		{"no /dev/infiniband", with(ib, func(f *Facts) { f.Nodes = nil }), "", 0, "Socket", "/dev/infiniband/uverbs0 of mlx5_0 is missing", ""},
		{"no permission", with(node(1), func(f *Facts) { f.Nodes[0].Error = "operation not permitted" }), "", 0, "Socket", "cannot be opened: operation not permitted", ""},
		{"no permission for one of two", with(node(2), func(f *Facts) { f.Nodes[0].Error = "operation not permitted" }), "", 0, "IB", "", ""},
		{"all down", with(node(1), func(f *Facts) { f.Devices[0].Ports = []Port{{Number: 1, State: "DOWN", Link: "InfiniBand"}} }), "", 0, "Socket", "mlx5_0:1 is DOWN", ""},
		{"EFA is no IB", with(node(1), func(f *Facts) { f.Devices[0].Ports = []Port{{Number: 1, State: "ACTIVE", Link: "Unspecified"}} }), "", 0, "Socket", "link layer Unspecified", ""},
		{"filter leaves nothing", ib, "NCCL_IB_HCA==mlx5_7", 0, "Socket", "mlx5_0:1 is not in NCCL_IB_HCA", ""},
		{"plugin", with(ib, plugin), "", 0, "libnccl-net-ofi.so", "if it works", ""},
		{"plugin, IB forced", with(ib, plugin), "NCCL_NET=IB", 0, "IB", "", ""},
		{"plugin by its name", with(none, plugin), "NCCL_NET=AWS Libfabric", 0, "libnccl-net-ofi.so", "has to be", ""},
		{"plugin is missing", with(none, broken), "", 0, "Socket", "no plugin: ofi: not found", ""},
		{"plugin is missing and forced", with(none, broken), "NCCL_NET=OFI", 0, "", "", "ofi: not found"},
		{"a tuner is no network", with(none, func(f *Facts) { f.Plugin = []Plugin{{Name: "tuner", Path: "/x.so"}} }), "", 0, "Socket", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := strings.Split(strings.ReplaceAll(c.env, " NCCL_", "\nNCCL_"), "\n")
			kind, why, err := Transport(c.f, vars(env...), c.code)
			if kind != c.kind || !strings.Contains(why, c.why) || !strings.Contains(err, c.err) || (err == "") != (c.err == "") {
				t.Errorf("got %q, %q, %q; want %q, %q, %q", kind, why, err, c.kind, c.why, c.err)
			}
		})
	}
}

func TestHCAsAreThoseThatNCCLUses(t *testing.T) {
	f := node(3)
	f.Devices[1].Ports = append(f.Devices[1].Ports, Port{Number: 2, State: "ACTIVE", Link: "Ethernet"}, Port{Number: 3, State: "DOWN", Link: "Ethernet"})
	f.Devices = append(f.Devices, Device{Name: "mlx5_10", Ports: []Port{{Number: 1, State: "ACTIVE", Link: "Ethernet"}}})
	for list, want := range map[string]string{
		"":                   "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_2:1 mlx5_10:1",
		"mlx5_1":             "mlx5_1:1 mlx5_1:2 mlx5_10:1",
		"=mlx5_1":            "mlx5_1:1 mlx5_1:2",
		"mlx5_1:2":           "mlx5_1:2",
		"=mlx5_1:1,mlx5_0:1": "mlx5_0:1 mlx5_1:1",
		"=mlx5_1:1:3:7":      "mlx5_1:1",
		"=mlx5_1:7":          "",
		"^mlx5_1":            "mlx5_0:1 mlx5_2:1",
		"^=mlx5_1":           "mlx5_0:1 mlx5_2:1 mlx5_10:1",
		"^mlx5_1:2":          "mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_10:1",
		"mlx5":               "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_2:1 mlx5_10:1",
		"m":                  "mlx5_0:1 mlx5_1:1 mlx5_1:2 mlx5_2:1 mlx5_10:1",
		"bnxt":               "",
		"^":                  "",
	} {
		var got []string
		for _, h := range HCAs(f, vars("NCCL_IB_HCA="+list)) {
			got = append(got, h.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("NCCL_IB_HCA=%s: %q, want %q", list, got, want)
		}
	}
	many := Facts{}
	for range 40 {
		many.Devices = append(many.Devices, f.Devices[0])
	}
	if n := len(HCAs(many, vars())); n != maxHCAs {
		t.Errorf("%d ports of 40", n)
	}
}

func FuzzHCA(f *testing.F) {
	for _, s := range []string{"^=mlx5_1:1:2:3,x", "mlx5_0::", ":::", "=,", "mlx5_1:-99999999999999999999"} {
		f.Add(s, "-1")
	}
	facts := node(3)
	all := HCAs(facts, vars())
	f.Fuzz(func(t *testing.T, list, index string) {
		env := vars("NCCL_IB_HCA="+list, "NCCL_IB_GID_INDEX="+index, "NCCL_IB_DISABLE="+index, "NCCL_NET="+list, "NCCL_IB_ADDR_RANGE="+list)
		used := HCAs(facts, env)
		for _, h := range used {
			if !slices.ContainsFunc(all, func(o HCA) bool { return o.String() == h.String() }) {
				t.Errorf("%v out of nothing", h)
			}
		}
		if list != "" && list[0] != '^' { // the exclusion of a list takes what the list does not
			if rest := HCAs(facts, vars("NCCL_IB_HCA=^"+list)); len(rest)+len(used) != len(all) {
				t.Errorf("%q takes %d, its exclusion %d of %d", list, len(used), len(rest), len(all))
			}
		}
		Transport(facts, env, 0)
		for _, link := range []string{"Ethernet", "InfiniBand"} {
			Port{Link: link, GIDs: []GID{{0, list, index, ""}, {1, "::ffff:10.0.0.1", "RoCE v2", ""}}}.GID(env, 0)
		}
	})
}
