package ncclenv

import (
	"strings"
	"testing"
)

func TestDangerous(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"NCCL_NET", "IB", true},
		{"NCCL_NET", "ib", true},
		{"NCCL_NET", "Socket", false},
		{"NCCL_SOCKET_IFNAME", "lo", true},
		{"NCCL_SOCKET_IFNAME", "=lo", true},
		{"NCCL_SOCKET_IFNAME", "^docker0", true},
		{"NCCL_SOCKET_IFNAME", "^lo,docker", false},
		{"NCCL_SOCKET_IFNAME", "eth0", false},
		{"NCCL_IB_GID_INDEX", "3", true},
		{"NCCL_IB_GID_INDEX", "-1", false},
		{"NCCL_PROTO", "LL128", true},
		{"NCCL_PROTO", "Simple,ll128", true},
		{"NCCL_PROTO", "^LL128", false},
		{"NCCL_PROTO", "Simple", false},
		{"NCCL_PROTO", "Simple;allreduce:LL128", true},
		{"NCCL_ALGO", "Tree", true},
		{"NCCL_ALGO", "Ring,Tree", false},
		{"NCCL_ALGO", "^NVLS", false},
		{"NCCL_ALGO", "allreduce:tree", false},
		{"NCCL_ALGO", "", false},
		{"NCCL_COMM_ID", "10.0.0.1:5000", true},
		{"NCCL_COMM_ID", "", false},
		{"NCCL_HOSTID", "node", true},
		{"NCCL_IB_DISABLE", "1", true},
		{"NCCL_IB_DISABLE", "0x1", true},
		{"NCCL_IB_DISABLE", "0", false},
		{"NCCL_IB_DISABLE", "", false},
		{"NCCL_P2P_DISABLE", "1", true},
		{"NCCL_SHM_DISABLE", "1", true},
		{"NCCL_NVLS_ENABLE", "1", true},
		{"NCCL_NVLS_ENABLE", "0", false},
		{"NCCL_CUMEM_ENABLE", "1", true},
		{"NCCL_TOPO_FILE", "/opt/topo.xml", true},
		{"NCCL_DEBUG", "INFO", true},
		{"NCCL_DEBUG", "WARN", false},
		{"NCCL_DEBUG_FILE", "/tmp/nccl.log", true},
		{"NCCL_DEBUG_FILE", "/tmp/nccl.%p.log", true},
		{"NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p.log", false},
		{"NCCL_DEBUG_FILE", "/dev/stderr", false},
		{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", true},
		{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", false},
		{"NCCL_SOMETHING", "1", false},
	} {
		d, ok := Dangerous(c.name, c.value)
		if ok != c.want {
			t.Errorf("Dangerous(%s, %q) = %v", c.name, c.value, ok)
		}
		if ok && !strings.HasPrefix(d.Sentence(c.value), c.name+"="+c.value+" is forced: ") {
			t.Errorf("sentence: %s", d.Sentence(c.value))
		}
	}
}

func TestDangersAreSound(t *testing.T) {
	for _, d := range dangers {
		if _, ok := Lookup(d.Name); !ok || d.Effect == "" || d.Default == "" || d.Unless == "" {
			t.Errorf("%s: unknown, or a text is missing", d.Name)
		}
	}
}
