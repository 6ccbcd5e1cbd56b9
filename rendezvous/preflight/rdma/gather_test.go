package rdma

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/ldso"
	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

func TestAnAdapterIsReadFromSys(t *testing.T) {
	m := newMachine(t)
	m.verbs()
	m.adapter(0, "4: ACTIVE", "Ethernet",
		"fe80:0000:0000:0000:966d:aeff:feab:cdef|IB/RoCE v1", "0000:0000:0000:0000:0000:0000:0000:0000",
		"0000:0000:0000:0000:0000:ffff:0a00:0001|RoCE v2")
	m.adapter(10, "1: DOWN", "InfiniBand", "fe80:0000:0000:0000:966d:aeff:feab:cde0")
	m.adapter(2, "4: ACTIVE", "InfiniBand")
	m.write("sys/module/nvidia_peermem/version", "1\n")
	m.write("dev/infiniband/issm0", "")
	f := m.gather()

	port := Port{
		Number: 1, State: "ACTIVE", Phys: "LinkUp", Link: "Ethernet", Rate: "400 Gb/sec (4X NDR)",
		GIDs: []GID{{0, "fe80::966d:aeff:feab:cdef", "IB/RoCE v1", "eth0"}, {2, "::ffff:10.0.0.1", "RoCE v2", "eth0"}},
	}
	down, ib := port, port
	down.State, down.Link, down.GIDs = "DOWN", "InfiniBand", nil
	ib.Link, ib.GIDs = "InfiniBand", nil
	device := func(name, verbs string, p Port) Device {
		return Device{name, "28.39.1002", "MT_0000000838", "MT4129", "946d:ae03:00ab:cdef", "mlx5", verbs, []Port{p}}
	}
	want := Facts{
		Devices:  []Device{device("mlx5_0", "uverbs0", port), device("mlx5_2", "uverbs2", ib), device("mlx5_10", "uverbs10", down)},
		Verbs:    Library{Path: m.at("usr/lib64/libibverbs.so.1"), Why: "LD_LIBRARY_PATH"},
		Provider: []string{"mlx5"},
		Nodes:    []DevNode{{Path: "/dev/infiniband/uverbs0"}, {Path: "/dev/infiniband/uverbs2"}, {Path: "/dev/infiniband/uverbs10"}},
		PeerMem:  true,
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

func TestLibibverbsIsTheOneThatNCCLOpens(t *testing.T) {
	for _, c := range []struct {
		name      string
		make      func(machine)
		env       []string
		code      int
		path, err string
	}{
		{"none", func(machine) {}, nil, 0, "", "libibverbs.so.1: not found"},
		{"usual", machine.verbs, nil, 0, "/usr/lib64/libibverbs.so.1", ""},
		{"without a version first", func(m machine) { m.verbs(); m.library("libibverbs.so", symbolVersion) }, nil, 0, "/usr/lib64/libibverbs.so", ""},
		{"too old", func(m machine) { m.library("libibverbs.so.1", "IBVERBS_1.0", "IBVERBS_1.10") }, nil, 0, "/usr/lib64/libibverbs.so.1", "lacks the symbol version IBVERBS_1.1"},
		{"named", func(m machine) { m.verbs(); m.library("libmine.so", symbolVersion) }, []string{"NCCL_IBVERBS_LIB=libmine.so"}, 0, "/usr/lib64/libmine.so", ""},
		{"named, before 2.30.3", func(m machine) { m.verbs(); m.library("libmine.so", symbolVersion) }, []string{"NCCL_IBVERBS_LIB=libmine.so"}, 23000, "/usr/lib64/libibverbs.so.1", ""},
		{"named and missing", machine.verbs, []string{"NCCL_IBVERBS_LIB=libmine.so"}, 0, "/usr/lib64/libibverbs.so.1", ""},
		{"LD_LIBRARY_PATH", func(m machine) {
			m.verbs()
			m.libraryAt("opt/ofed/libibverbs.so.1", symbolVersion)
		}, []string{"LD_LIBRARY_PATH=ROOT/opt/ofed"}, 0, "/opt/ofed/libibverbs.so.1", ""},
		{"no library at all", func(m machine) { m.write("usr/lib64/libibverbs.so.1", strings.Repeat("GROUP ( x ) ", 100)) }, nil, 0, "", "the loader gives up at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			c.make(m)
			for i := range c.env {
				c.env[i] = strings.Replace(c.env[i], "ROOT", m.root, 1)
			}
			o := m.options(c.env...)
			o.Code = c.code
			f, _ := Gather(t.Context(), o)
			if strings.TrimPrefix(f.Verbs.Path, m.root) != c.path || !strings.Contains(f.Verbs.Error, c.err) || (c.err == "") != (f.Verbs.Error == "") {
				t.Errorf("%+v, want %q, %q", f.Verbs, c.path, c.err)
			}
		})
	}
}

func TestProvidersAreFound(t *testing.T) {
	m := newMachine(t)
	m.library("libibverbs.so.1.14", symbolVersion)
	m.link("opt/lib/libibverbs.so.1", m.at("usr/lib64/libibverbs.so.1.14"))
	m.library("libibverbs/librxe-rdmav34.so")
	m.write("usr/lib64/libibverbs/README", "")
	m.write("etc/libibverbs.d/mlx5.driver", "driver mlx5\n")
	m.write("etc/libibverbs.d/efa.driver", "driver efa\n")
	m.library("libmlx5.so.1")
	if f := m.gather("LD_LIBRARY_PATH=" + m.at("opt/lib")); !reflect.DeepEqual(f.Provider, []string{"mlx5", "rxe"}) {
		t.Errorf("%q of %+v", f.Provider, f.Verbs)
	}
}

func TestPluginsAreThoseThatNCCLTries(t *testing.T) {
	ofi := []string{"ncclNetPlugin_v8", "ncclNetPlugin_v10", "ncclCollNetPlugin_v8", "ncclNetPlugin_version_string"}
	for _, c := range []struct {
		name string
		make func(machine)
		env  string
		want string // "name asked path versions error", a line each
	}{
		{"none", func(machine) {}, "", ""},
		{"default", func(m machine) { m.library("libnccl-net.so", ofi...) }, "", "net  libnccl-net.so ncclCollNetPlugin_v8,ncclNetPlugin_v8,ncclNetPlugin_v10 \n"},
		{"short name", func(m machine) { m.library("libnccl-net-ofi.so", ofi[0]) }, "NCCL_NET_PLUGIN=ofi", "net ofi libnccl-net-ofi.so ncclNetPlugin_v8 \n"},
		{"file name has no other", func(m machine) { m.library("libnccl-net-libx.so.so", ofi[0]) }, "NCCL_NET_PLUGIN=libx.so", "net libx.so . <none> not found\n"},
		{
			"list", func(m machine) { m.library("liba.so", ofi[0]); m.library("libnccl-net-b.so", ofi[0]) },
			"NCCL_NET_PLUGIN=liba.so,,b,gone", "net liba.so liba.so ncclNetPlugin_v8 \nnet b libnccl-net-b.so ncclNetPlugin_v8 \nnet gone . <none> not found\n",
		},
		{"switched off", func(m machine) { m.library("libnccl-net.so", ofi...) }, "NCCL_NET_PLUGIN=None", ""},
		{"set to nothing", func(m machine) { m.library("libnccl-net.so", ofi...) }, "NCCL_NET_PLUGIN=", ""},
		{"no plugin", func(m machine) { m.library("libnccl-net.so", "main") }, "", "net  libnccl-net.so <none> exports no ncclNetPlugin_v*\n"},
		{"no library", func(m machine) { m.write("usr/lib64/libnccl-net.so", "<html>") }, "", "net  libnccl-net.so <none> the loader gives up at\n"},
		{"tuner", func(m machine) { m.library("libnccl-tuner.so", "ncclTunerPlugin_v4") }, "", "tuner  libnccl-tuner.so ncclTunerPlugin_v4 \n"},
		{"tuner by name", func(m machine) { m.library("libnccl-tuner-x.so", "ncclTunerPlugin_v4") }, "NCCL_TUNER_PLUGIN=x", "tuner x libnccl-tuner-x.so ncclTunerPlugin_v4 \n"},
		{"tuner is missing", func(machine) {}, "NCCL_TUNER_PLUGIN=x", "tuner x . <none> not found\n"},
		{"tuner in the net plugin", func(m machine) { m.library("libnccl-net.so", ofi[0], "ncclTunerPlugin_v3") }, "", "net  libnccl-net.so ncclNetPlugin_v8,ncclTunerPlugin_v3 \ntuner  libnccl-net.so ncclNetPlugin_v8,ncclTunerPlugin_v3 \n"},
		{"tuner switched off", func(m machine) { m.library("libnccl-tuner.so", "ncclTunerPlugin_v4") }, "NCCL_TUNER_PLUGIN=none", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			c.make(m)
			var env []string
			if c.env != "" {
				env = append(env, c.env)
			}
			want := strings.Split(strings.TrimSuffix(c.want, "\n"), "\n")
			if c.want == "" {
				want = nil
			}
			got := m.gather(env...).Plugin
			if len(got) != len(want) {
				t.Fatalf("got %+v, want %q", got, want)
			}
			for i, p := range got {
				w := strings.SplitN(want[i], " ", 5)
				versions := strings.Join(p.Versions, ",")
				if versions == "" {
					versions = "<none>"
				}
				if p.Name != w[0] || p.Asked != w[1] || filepath.Base(p.Path) != w[2] || versions != w[3] ||
					!strings.Contains(p.Error, w[4]) || (w[4] == "") != (p.Error == "") {
					t.Errorf("got %+v, want %q", p, want[i])
				}
			}
		})
	}
}

func TestAPluginsHashIsOfItsContent(t *testing.T) {
	m := newMachine(t)
	m.library("libnccl-net.so", "ncclNetPlugin_v8")
	b, err := os.ReadFile(filepath.Join(m.root, "usr/lib64/libnccl-net.so"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if p := m.gather().Plugin; len(p) != 1 || p[0].Hash != hex.EncodeToString(sum[:]) {
		t.Errorf("%+v", p)
	}
}

func TestADeviceFileSaysWhyItCannotBeOpened(t *testing.T) {
	m := newMachine(t)
	m.write("dev/infiniband/uverbs0", "")
	m.link("dev/infiniband/uverbs1", "gone")
	f := m.gather()
	want := []DevNode{{Path: "/dev/infiniband/uverbs0"}, {"/dev/infiniband/uverbs1", "no such file or directory"}}
	if !reflect.DeepEqual(f.Nodes, want) {
		t.Errorf("%+v", f.Nodes)
	}
}

func TestGatherEndsWithItsContext(t *testing.T) {
	m := newMachine(t)
	m.adapter(0, "4: ACTIVE", "Ethernet")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f, unknown := Gather(ctx, m.options()); len(unknown) == 0 || len(f.Devices) > 0 {
		t.Errorf("%+v, %q", f, unknown)
	}
}

// TestALoaderThatGivesNoAnswerIsANote checks that only the libraries are
// unknown if the loader gives no answer. The adapters are known.
func TestALoaderThatGivesNoAnswerIsANote(t *testing.T) {
	m := newMachine(t)
	m.adapter(0, "4: ACTIVE", "Ethernet")
	o := m.options()
	o.Find = func(context.Context, []string) (map[string]ldso.Request, error) {
		return nil, errors.New("/lib/ld-musl-x86_64.so.1 is not the loader of glibc")
	}
	f, unknown := Gather(t.Context(), o)
	if len(unknown) != 1 || !strings.HasSuffix(unknown[0], "is not the loader of glibc") || len(f.Devices) != 1 || f.Verbs != (Library{}) {
		t.Errorf("%+v, unknown %q", f, unknown)
	}
}

func TestNamesAreInTheOrderOfTheirNumbers(t *testing.T) {
	order := []string{"", "efa_0", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_11", "mlx5_bond_0"}
	for i, a := range order {
		for j, b := range order {
			if got := compareNames(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("compare %q with %q: %d", a, b, got)
			}
		}
	}
}

func TestAMachineWithoutRDMAHasNone(t *testing.T) {
	f := newMachine(t).gather()
	if len(f.Devices)+len(f.Nodes)+len(f.Plugin)+len(f.Provider) > 0 || f.Verbs.Path != "" || f.Verbs.Error == "" || f.PeerMem {
		t.Errorf("%+v", f)
	}
}

func BenchmarkGather(b *testing.B) {
	for b.Loop() {
		Gather(b.Context(), Options{Env: os.Environ(), Find: ldso.Loader{Run: ldsotest.Run, Env: os.Environ(), Dir: "/"}.Find})
	}
}
