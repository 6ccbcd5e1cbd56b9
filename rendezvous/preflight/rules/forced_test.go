package rules

import (
	"testing"

	"github.com/gorun/gorun/envprop/ncclenv"
)

func TestDangersMatchValues(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
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
		{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", true},
		{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", false},
		{"NCCL_SOMETHING", "1", false},
	} {
		d, ok := dangers[c.name]
		if got := ok && d.matches(c.value); got != c.want {
			t.Errorf("%s=%q is dangerous: %v", c.name, c.value, got)
		}
	}
}

func TestDangersAreComplete(t *testing.T) {
	for name, d := range dangers {
		if _, ok := ncclenv.Lookup(name); !ok || d.effect == "" || d.unset == "" || d.unless == "" {
			t.Errorf("%s: not in the catalogue, or a text is missing", name)
		}
	}
}
