package ncclenv

import (
	"strings"
	"testing"
)

func TestCatalogueIsSound(t *testing.T) {
	seen := map[string]bool{}
	for v := range Variables() {
		if seen[v.Name] {
			t.Errorf("%s is in the catalogue twice", v.Name)
		}
		seen[v.Name] = true
		if v.Text == "" || v.Scope == "" {
			t.Errorf("%s: no text or no scope: %+v", v.Name, v)
		}
		// Four digits up to 2.8, five from 2.9 on.
		if s := v.Since; s != 0 && (s < 2100 || s > 2899) && (s < 20900 || s > 23299) {
			t.Errorf("%s: since %d is no version code", v.Name, s)
		}
		if strings.HasSuffix(v.Name, "_") {
			t.Errorf("%s: a family ends with *", v.Name)
		}
	}
	if len(seen) < 200 {
		t.Errorf("only %d variables", len(seen))
	}
	for name := range strings.FieldsSeq(contract) {
		if !seen[name] {
			t.Errorf("%s is of the contract, but not in the catalogue", name)
		}
	}
	for name := range strings.FieldsSeq(ncclNames + torchNames) {
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
		if len(name) > maxName {
			t.Errorf("%s is longer than maxName", name)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name       string
		entry      string
		scope      Scope
		since      int
		setByGorun bool
	}{
		{"NCCL_PROTO", "NCCL_PROTO", All, 2500, false},
		{"NCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", Node, 0, false},
		{"NCCL_COMM_ID", "NCCL_COMM_ID", Never, 0, false},
		{"NCCL_P2P_DISABLE", "NCCL_P2P_DISABLE", NodeKeepAll, 0, false},
		{"NCCL_CUMEM_ENABLE", "NCCL_CUMEM_ENABLE", All, 21800, false},
		{"NCCL_DEBUG_TIMESTAMP_LEVELS", "NCCL_DEBUG_TIMESTAMP_*", Free, 22600, false},
		{"NCCL_SYM_CTAS", "NCCL_SYM_*", All, 22700, false},
		{"NCCL_TREE_THRESHOLD", "NCCL_TREE_THRESHOLD", Obsolete, 0, false},
		{"FI_PROVIDER", "FI_PROVIDER", All, 0, false},
		{"FI_EFA_USE_DEVICE_RDMA", "FI_EFA_*", All, 0, false},
		{"FI_LOG_LEVEL", "FI_*", All, 0, false},
		{"UCX_TLS", "UCX_TLS", All, 0, false},
		{"UCX_IB_SL", "UCX_*", AllSoft, 0, false},
		{"OMPI_MCA_btl", "OMPI_MCA_*", Never, 0, false},
		{"OMPI_COMM_WORLD_RANK", "OMPI_*", Never, 0, false},
		{"SLURM_PROCID", "SLURM_*", Never, 0, false},
		{"CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", Rank, 0, false},
		{"MASTER_ADDR", "MASTER_ADDR", All, 0, true},
		{"RANK", "RANK", Rank, 0, true},
		{"OMP_NUM_THREADS", "OMP_NUM_THREADS", Node, 0, false},
		{"http_proxy", "http_proxy", Never, 0, false},
	} {
		v, ok := Lookup(c.name)
		if !ok || v.Name != c.entry || v.Scope != c.scope || v.Since != c.since || v.SetByGorun != c.setByGorun {
			t.Errorf("Lookup(%s) = %+v, %v; want %+v", c.name, v, ok, c)
		}
	}
	for _, name := range []string{"", "NCCL_", "FI", "MY_OWN", "NCCL_PROTO ", "nccl_proto"} {
		if v, ok := Lookup(name); ok {
			t.Errorf("Lookup(%q) = %+v", name, v)
		}
	}
}

func TestScopesSayWhatTravels(t *testing.T) {
	for scope, want := range map[Scope]struct{ agree, travels bool }{
		All: {true, true}, AllSoft: {false, true}, Node: {false, false}, NodeKeepAll: {false, true},
		Rank: {false, false}, Never: {false, false}, Free: {false, true}, Obsolete: {false, false},
	} {
		if scope.Agree() != want.agree || scope.Travels() != want.travels {
			t.Errorf("%s: agree %v, travels %v; want %+v", scope, scope.Agree(), scope.Travels(), want)
		}
	}
}

func TestMisspelt(t *testing.T) {
	for _, c := range []struct {
		name, nearest string
		unknown       bool
	}{
		// What releases, PyTorch, plugins and images really use.
		{"NCCL_SOCKET_IFNAME", "", false},
		{"NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT", "", false},
		{"NCCL_GIN_SOMETHING_NEW", "", false},
		{"NCCL_FASTRAK_CTRL_DEV", "", false},
		{"NCCL_VERSION", "", false},
		{"NCCL_BLOCKING_WAIT", "", false},
		{"NCCL_IB_PKEY_VALUE", "", false},
		{"TORCH_NCCL_NAN_CHECK", "", false},
		{"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "", false},
		{"TORCH_FR_DUMP_TEMP_FILE", "", false},
		{"GLOO_SOCKET_IFNAME", "", false},
		// Not of these families.
		{"MY_NCCL_THING", "", false},
		{"TORCH_HOME", "", false},
		{"NCCL_", "", false},
		// Typing errors.
		{"NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME", true},
		{"NCCL_SOCKET_NTHREAD", "NCCL_SOCKET_NTHREADS", true},
		{"NCCL_SOKCET_IFNAME", "NCCL_SOCKET_IFNAME", true},
		{"NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME", true},
		{"NCCL_IB_DISABLED", "NCCL_IB_DISABLE", true},
		{"NCCL_NSOCKS_PER_THREAD", "NCCL_NSOCKS_PERTHREAD", true},
		{"NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS", true},
		{"NCCL_ALG", "NCCL_ALGO", true},
		{"NCCL_IB_HCAS", "NCCL_IB_HCA", true},
		{"GLOO_SOCKET_IFACE", "GLOO_SOCKET_IFNAME", true},
		{"TORCH_NCCL_ASYNC_ERR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING", true},
		// Nothing is near.
		{"NCCL_TIMEOUT", "", true},
		{"NCCL_MAKE_IT_FAST_PLEASE", "", true},
		{"NCCL_" + strings.Repeat("X", 500), "", true},
	} {
		nearest, unknown := Misspelt(c.name)
		if nearest != c.nearest || unknown != c.unknown {
			t.Errorf("Misspelt(%.40s) = %q, %v; want %q, %v", c.name, nearest, unknown, c.nearest, c.unknown)
		}
	}
}

func TestEveryNameOfTheDocumentationIsKnown(t *testing.T) {
	// The names of NCCL's page of environment variables, 2.32.
	const documented = `
NCCL_SOCKET_IFNAME NCCL_SOCKET_FAMILY NCCL_SOCKET_MAGIC NCCL_SOCKET_RETRY_CNT
NCCL_SOCKET_RETRY_SLEEP_MSEC NCCL_SOCKET_POLL_TIMEOUT_MSEC NCCL_PSK NCCL_SOCKET_NTHREADS
NCCL_NSOCKS_PERTHREAD NCCL_CROSS_NIC NCCL_IB_HCA NCCL_IB_RAIL_POLICY NCCL_IB_TIMEOUT
NCCL_IB_RETRY_CNT NCCL_IB_GID_INDEX NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE
NCCL_IB_ROCE_VERSION_NUM NCCL_IB_PKEY NCCL_IB_PKEY_VALUE NCCL_IB_SL NCCL_IB_TC NCCL_IB_FIFO_TC
NCCL_IB_RETURN_ASYNC_EVENTS NCCL_IB_EVENT_BASED_LB NCCL_OOB_NET_ENABLE NCCL_OOB_NET_IFNAME
NCCL_UID_STAGGER_THRESHOLD NCCL_UID_STAGGER_RATE NCCL_NET NCCL_NET_PLUGIN NCCL_GIN_PLUGIN
NCCL_RMA_PLUGIN NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN NCCL_ENV_PLUGIN NCCL_IGNORE_CPU_AFFINITY
NCCL_CONF_FILE NCCL_DEBUG NCCL_DEBUG_LEVELS NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS
NCCL_DEBUG_TIMESTAMP_FORMAT NCCL_DEBUG_TIMESTAMP_LEVELS NCCL_COLLNET_ENABLE
NCCL_COLLNET_NODE_THRESHOLD NCCL_CTA_POLICY NCCL_NETDEVS_POLICY NCCL_MULTI_RANK_GPU_ENABLE
NCCL_TOPO_FILE NCCL_TOPO_DUMP_FILE NCCL_SET_THREAD_NAME NCCL_P2P_DISABLE NCCL_P2P_LEVEL
NCCL_P2P_DIRECT_DISABLE NCCL_SHM_DISABLE NCCL_BUFFSIZE NCCL_NTHREADS NCCL_MAX_NCHANNELS
NCCL_MAX_NRINGS NCCL_MIN_NCHANNELS NCCL_MIN_NRINGS NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS
NCCL_CHECK_MODE NCCL_LAUNCH_MODE NCCL_IB_DISABLE NCCL_IB_AR_THRESHOLD NCCL_IB_OOO_RQ
NCCL_IB_QPS_PER_CONNECTION NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_CUDA_SUPPORT
NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ECE_ENABLE NCCL_MEM_SYNC_DOMAIN
NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE NCCL_NET_GDR_LEVEL NCCL_IB_GDR_LEVEL NCCL_NET_GDR_C2C
NCCL_NET_GDR_READ NCCL_GDRCOPY_ENABLE NCCL_GDRCOPY_FIFO_ENABLE NCCL_GDRCOPY_SYNC_ENABLE
NCCL_GDRCOPY_FLUSH_ENABLE NCCL_NET_SHARED_BUFFERS NCCL_NET_SHARED_COMMS
NCCL_IGNORE_NET_MISMATCH NCCL_IGNORE_COLLNET_MISMATCH NCCL_SINGLE_RING_THRESHOLD
NCCL_LL_THRESHOLD NCCL_TREE_THRESHOLD NCCL_ALGO NCCL_PROTO NCCL_NVB_DISABLE NCCL_PXN_DISABLE
NCCL_P2P_PXN_LEVEL NCCL_PXN_C2C NCCL_RUNTIME_CONNECT NCCL_GRAPH_REGISTER NCCL_LOCAL_REGISTER
NCCL_LEGACY_CUDA_REGISTER NCCL_WIN_ENABLE NCCL_SET_STACK_SIZE NCCL_GRAPH_MIXING_SUPPORT
NCCL_GRAPH_STREAM_ORDERING NCCL_RMA_EAGER_INIT NCCL_DMABUF_ENABLE NCCL_P2P_NET_CHUNKSIZE
NCCL_P2P_LL_THRESHOLD NCCL_ALLOC_P2P_NET_LL_BUFFERS NCCL_COMM_BLOCKING NCCL_CGA_CLUSTER_SIZE
NCCL_MAX_CTAS NCCL_MIN_CTAS NCCL_NVLS_ENABLE NCCL_IB_MERGE_NICS NCCL_NET_MERGE_POLICY
NCCL_MNNVL_ENABLE NCCL_MNNVL_UUID NCCL_MNNVL_CLIQUE_ID NCCL_RAS_ENABLE NCCL_RAS_ADDR
NCCL_RAS_TIMEOUT_FACTOR NCCL_LAUNCH_ORDER_IMPLICIT NCCL_LAUNCH_RACE_FATAL
NCCL_IPC_USE_ABSTRACT_SOCKET NCCL_SYM_GIN_KERNELS_ENABLE`
	for name := range strings.FieldsSeq(documented) {
		if !Known(name) {
			t.Errorf("%s is unknown", name)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"A", "", 1}, {"", "AB", 2}, {"ABC", "ABC", 0}, {"ABC", "ACB", 1}, {"ABC", "AC", 1}, {"KITTEN", "SITTING", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		Lookup("NCCL_SOCKET_IFNAME")
		Lookup("FI_LOG_LEVEL")
	}
}

func BenchmarkMisspelt(b *testing.B) {
	for b.Loop() {
		Misspelt("NCCL_SOCKET_IFNAMES")
	}
}
