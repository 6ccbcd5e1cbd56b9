package rdma

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/internal/smallfile"
)

const (
	class = "/sys/class/infiniband"

	maxDevices = 64
	maxPorts   = 16
	maxGIDs    = 256 // entries of one table
	emptyGIDs  = 16  // this many empty entries in a row end the search
)

// devices reads the adapters and sorts them by the numbers in their names:
// mlx5_2 before mlx5_10.
func (g *gatherer) devices(ctx context.Context) []Device {
	names, err := smallfile.Names(g.o.Root+class, maxDevices)
	if err != nil {
		return nil
	}
	slices.SortFunc(names, compareNames)
	var out []Device
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		dir := class + "/" + name + "/"
		d := Device{
			Name: name, Firmware: g.line(dir + "fw_ver"), Board: g.line(dir + "board_id"),
			Type: g.line(dir + "hca_type"), GUID: g.line(dir + "node_guid"), Driver: g.driver(name),
		}
		ports, _ := smallfile.Names(g.o.Root+dir+"ports", maxPorts)
		for _, p := range ports {
			if n, err := strconv.Atoi(p); err == nil {
				d.Ports = append(d.Ports, g.port(name, n))
			}
		}
		slices.SortFunc(d.Ports, func(a, b Port) int { return a.Number - b.Number })
		out = append(out, d)
	}
	g.setVerbs(out)
	return out
}

// compareNames puts numbers in names in the order of their values.
func compareNames(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	for i > 0 && digit(a, i-1) {
		i--
	}
	if digit(a, i) && digit(b, i) {
		na, nb := digits(a[i:]), digits(b[i:])
		if len(na) != len(nb) {
			return len(na) - len(nb)
		}
	}
	return strings.Compare(a, b)
}

func digit(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }

func digits(s string) string {
	n := 0
	for digit(s, n) {
		n++
	}
	return strings.TrimLeft(s[:n], "0")
}

func (g *gatherer) port(device string, number int) Port {
	dir := fmt.Sprintf("%s/%s/ports/%d/", class, device, number)
	p := Port{
		Number: number, State: word(g.line(dir + "state")), Phys: word(g.line(dir + "phys_state")),
		Link: g.line(dir + "link_layer"), Rate: g.line(dir + "rate"),
	}
	if p.State != "ACTIVE" {
		return p
	}
	forced, _ := strconv.Atoi(environ.Get(g.o.Env, "NCCL_IB_GID_INDEX"))
	for i, empty := 0, 0; i < maxGIDs && (empty < emptyGIDs || i <= forced); i++ {
		if gid, ok := g.gid(dir, i); ok {
			p.GIDs, empty = append(p.GIDs, gid), 0
		} else {
			empty++
		}
	}
	return p
}

// word returns the word after the number in "4: ACTIVE".
func word(s string) string {
	if _, after, ok := strings.Cut(s, ":"); ok {
		return strings.TrimSpace(after)
	}
	return s
}

// gid reads an entry of a port's table; ok is false for an empty one.
func (g *gatherer) gid(dir string, i int) (GID, bool) {
	ip, err := netip.ParseAddr(g.line(dir + "gids/" + strconv.Itoa(i)))
	if err != nil || ip.IsUnspecified() {
		return GID{}, false
	}
	return GID{
		Index: i, GID: ip.String(),
		Type:  g.line(dir + "gid_attrs/types/" + strconv.Itoa(i)),
		Iface: g.line(dir + "gid_attrs/ndevs/" + strconv.Itoa(i)),
	}, true
}

// driverName returns libibverbs' name for a driver of the kernel.
func driverName(kernel string) string {
	switch kernel {
	case "mlx5_core":
		return "mlx5"
	case "mlx4_core":
		return "mlx4"
	case "bnxt_en", "bnxt_re":
		return "bnxt_re"
	case "ice", "i40e", "irdma", "idpf":
		return "irdma"
	case "hns3", "hns_roce_hw_v2":
		return "hns"
	case "efa", "erdma", "mana", "cxgb4", "ionic":
		return kernel
	case "qede":
		return "qedr"
	}
	return ""
}

// driver returns the driver of a device. For a software device it finds the
// driver by the device's name.
func (g *gatherer) driver(name string) string {
	if real, err := filepath.EvalSymlinks(g.o.Root + class + "/" + name + "/device/driver"); err == nil {
		if d := driverName(filepath.Base(real)); d != "" {
			return d
		}
	}
	for _, d := range []string{"mlx5", "mlx4", "rxe", "siw", "bnxt_re", "irdma", "hns", "efa", "erdma", "mana"} {
		if strings.HasPrefix(name, d) {
			return d
		}
	}
	return ""
}

// peerMem looks for GPUDirect RDMA's kernel module where NCCL looks for it.
func (g *gatherer) peerMem() bool {
	for _, name := range []string{"module/nvidia_peermem", "kernel/mm/memory_peers/nv_mem", "kernel/mm/memory_peers/nv_mem_nc"} {
		if _, err := os.Stat(g.o.Root + "/sys/" + name + "/version"); err == nil {
			return true
		}
	}
	return false
}
