package device

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// sysfs makes a /sys with GPUs and adapters at the given places.
func sysfs(links map[string]string, numa map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for link, target := range links {
		root["sys/"+link] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(target)}
	}
	for place, node := range numa {
		root["sys/devices/"+place+"/numa_node"] = &fstest.MapFile{Data: []byte(node + "\n")}
	}
	return root
}

func TestNearest(t *testing.T) {
	const (
		gpu      = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
		switched = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0"
		port     = "pci0000:15/0000:15:01.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0"
		bridge   = "pci0000:15/0000:15:02.0/0000:1d:00.0"
		node     = "pci0000:37/0000:37:01.0/0000:38:00.0"
		far      = "pci0000:97/0000:97:01.0/0000:98:00.0"
	)
	tests := []struct {
		name string
		at   map[string]string // name of an adapter to its place
		nics []string
		far  string
	}{
		{"same switch", map[string]string{"mlx5_0": switched, "mlx5_1": port, "mlx5_2": far}, []string{"mlx5_0"}, "PIX"},
		{"two equally near", map[string]string{"mlx5_1": switched, "mlx5_0": switched, "mlx5_2": node}, []string{"mlx5_0", "mlx5_1"}, "PIX"},
		{"another switch of the root port", map[string]string{"mlx5_0": port, "mlx5_1": bridge}, []string{"mlx5_0"}, "PXB"},
		{"same host bridge", map[string]string{"mlx5_0": bridge, "mlx5_1": node}, []string{"mlx5_0"}, "PHB"},
		{"same NUMA node", map[string]string{"mlx5_0": far, "mlx5_1": node}, []string{"mlx5_1"}, "NODE"},
		{"another NUMA node", map[string]string{"mlx5_0": far}, []string{"mlx5_0"}, "SYS"},
		{"none", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			links := map[string]string{
				"bus/pci/devices/0000:18:00.0": "../../../devices/" + gpu,
				"class/net/lo":                 "../../devices/virtual/net/lo",
			}
			for name, place := range tt.at {
				links["class/infiniband/"+name] = "../../devices/" + place + "/infiniband/" + name
			}
			root := sysfs(links, map[string]string{gpu: "0", node: "0", far: "1"})
			gpus := []GPU{{PCI: "0000:18:00.0", State: &preflight.DeviceState{}}, {PCI: "0000:99:00.0", State: &preflight.DeviceState{}}, {}}
			locate(root, gpus, true)
			if got := gpus[0].State; !slices.Equal(got.NICs, tt.nics) || got.Distance != tt.far {
				t.Errorf("got %q at %s, want %q at %s", got.NICs, got.Distance, tt.nics, tt.far)
			}
			if n := gpus[0].NUMA; n == nil || *n != 0 {
				t.Errorf("NUMA node %v, want 0", n)
			}
			if gpus[1].NUMA != nil || gpus[1].State.NICs != nil {
				t.Errorf("a GPU that /sys does not have: %+v", gpus[1])
			}
		})
	}
}

// TestNearestInterface shows that interfaces count if there are no verbs, also
// an interface several folders below its PCI device. A NUMA node of -1 is
// unknown.
func TestNearestInterface(t *testing.T) {
	root := sysfs(map[string]string{
		"bus/pci/devices/0000:00:05.0": "../../../devices/pci0000:00/0000:00:05.0",
		"class/net/eth0":               "../../devices/pci0000:00/0000:00:04.0/virtio1/net/eth0",
		"class/net/docker0":            "../../devices/virtual/net/docker0",
	}, map[string]string{"pci0000:00/0000:00:05.0": "-1"})
	gpus := []GPU{{PCI: "0000:00:05.0", State: &preflight.DeviceState{}}}
	locate(root, gpus, true)
	if got := gpus[0].State; !slices.Equal(got.NICs, []string{"eth0"}) || got.Distance != "PHB" || gpus[0].NUMA != nil {
		t.Errorf("got %+v, NUMA node %v", got, gpus[0].NUMA)
	}
	quick := []GPU{{PCI: "0000:00:05.0"}}
	if locate(root, quick, false); quick[0].State != nil {
		t.Errorf("a quick list has a state: %+v", quick[0])
	}
}
