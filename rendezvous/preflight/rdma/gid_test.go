package rdma

import "testing"

func TestNCCLsGIDIsReproduced(t *testing.T) {
	// These are the GIDs of an mlx5 RoCE port: link-local and IPv4, each as v1
	// and v2, and an IPv6 address of a VLAN.
	roce := Port{Link: "Ethernet", GIDs: []GID{
		{0, "fe80::1", "IB/RoCE v1", ""},
		{1, "fe80::1", "RoCE v2", ""},
		{2, "::ffff:10.0.0.1", "IB/RoCE v1", ""},
		{3, "::ffff:10.0.0.1", "RoCE v2", ""},
		{4, "fd00::1", "IB/RoCE v1", ""},
		{5, "fd00::1", "RoCE v2", ""},
		{6, "::ffff:10.9.0.1", "IB/RoCE v1", ""},
		{7, "::ffff:10.9.0.1", "RoCE v2", ""},
	}}
	local := Port{Link: "Ethernet", GIDs: roce.GIDs[:2]}
	ib := Port{Link: "InfiniBand", GIDs: []GID{{0, "fe80::9", "IB/RoCE v1", ""}, {1, "fec0:0:12::9", "IB/RoCE v1", ""}}}
	for _, c := range []struct {
		name string
		port Port
		env  []string
		code int
		want int // -1: none
	}{
		{"automatic", roce, nil, 0, 3},
		{"automatic, old", roce, nil, 22005, 0},
		{"first automatic", roce, nil, 22100, 3},
		{"forced", roce, []string{"NCCL_IB_GID_INDEX=5"}, 0, 5},
		{"forced, old", roce, []string{"NCCL_IB_GID_INDEX=3"}, 21805, 3},
		{"forced to an empty one", roce, []string{"NCCL_IB_GID_INDEX=9"}, 0, -1},
		{"forced far away", roce, []string{"NCCL_IB_GID_INDEX=4611686018427387904"}, 0, -1},
		{"forced to automatic", roce, []string{"NCCL_IB_GID_INDEX=-1"}, 0, 3},
		{"RoCE v1", roce, []string{"NCCL_IB_ROCE_VERSION_NUM=1"}, 0, 2},
		{"IPv6", roce, []string{"NCCL_IB_ADDR_FAMILY=AF_INET6"}, 0, 5},
		{"IPv6, RoCE v1", roce, []string{"NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_ROCE_VERSION_NUM=1"}, 0, 4},
		{"subnet", roce, []string{"NCCL_IB_ADDR_RANGE=10.9.0.0/16"}, 0, 7},
		{"subnet that is not here", roce, []string{"NCCL_IB_ADDR_RANGE=10.8.0.0/16"}, 0, 0},
		{"subnet of the other family", roce, []string{"NCCL_IB_ADDR_RANGE=fd00::/64"}, 0, 3},
		{"IPv6 subnet", roce, []string{"NCCL_IB_ADDR_FAMILY=AF_INET6", "NCCL_IB_ADDR_RANGE=fd00::/64"}, 0, 5},
		{"only link-local", local, nil, 0, 0},
		{"no table", Port{Link: "Ethernet"}, nil, 0, -1},
		{"InfiniBand", Port{Link: "InfiniBand", GIDs: ib.GIDs[:1]}, []string{"NCCL_IB_GID_INDEX=5"}, 0, 0},
		{"InfiniBand, routable", ib, nil, 0, 1},
		{"InfiniBand without a table", Port{Link: "InfiniBand"}, nil, 0, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, why, ok := c.port.GID(vars(c.env...), c.code)
			if ok != (c.want >= 0) || ok && g.Index != c.want || why == "" {
				t.Errorf("got %+v, %v because %q; want %d", g, ok, why, c.want)
			}
		})
	}
}
