package rdma

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// maxHCAs is how many ports NCCL uses, and how many names it reads from
// NCCL_IB_HCA (MAX_IB_DEVS).
const maxHCAs = 32

// HCA is one port that NCCL uses as a network device.
type HCA struct {
	Device string
	Port
}

// String returns "mlx5_0:1".
func (h HCA) String() string { return fmt.Sprintf("%s:%d", h.Device, h.Number) }

// HCAs returns the ports that NCCL's NET/IB uses: ACTIVE, with a link layer of
// InfiniBand or Ethernet, and selected by NCCL_IB_HCA.
//
// Source: src/transport/net_ib/init.cc, ncclIbInitDevices.
func HCAs(f Facts, env func(string) string) []HCA {
	used, _ := hcas(f, env)
	return used
}

// hcas returns the used ports, and says of the other ports why they are not
// used: "mlx5_3:1 is DOWN".
func hcas(f Facts, env func(string) string) (used []HCA, not []string) {
	list := netif.ParseList(env("NCCL_IB_HCA"), maxHCAs)
	for _, d := range f.Devices {
		for _, p := range d.Ports {
			h := HCA{Device: d.Name, Port: p}
			switch {
			case p.State != "ACTIVE":
				not = append(not, h.String()+" is "+p.State)
			case p.Link != "InfiniBand" && p.Link != "Ethernet":
				not = append(not, h.String()+" has the link layer "+p.Link)
			case !list.Selects(d.Name, p.Number):
				not = append(not, h.String()+" is not in NCCL_IB_HCA")
			case len(used) == maxHCAs:
				not = append(not, h.String()+" is one too many")
			default:
				used = append(used, h)
			}
		}
	}
	return used, not
}

// verbsUsable says why NET/IB finds nothing on this node; "" if it works.
func verbsUsable(f Facts, env func(string) string) string {
	if number(env, "NCCL_IB_DISABLE", 0) != 0 {
		return "NCCL_IB_DISABLE=" + env("NCCL_IB_DISABLE")
	}
	if f.Verbs.Path == "" || f.Verbs.Error != "" {
		why := f.Verbs.Error
		if why == "" {
			why = "libibverbs.so.1 is not found"
		}
		return why
	}
	if len(f.Devices) == 0 {
		return "there is no adapter in /sys/class/infiniband"
	}
	used, not := hcas(f, env)
	if len(used) == 0 {
		return "no port is left: " + strings.Join(not[:min(len(not), 8)], ", ")
	}
	var first string
	for _, h := range used {
		why := f.whyClosed(h.Device)
		if why == "" {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}

// whyClosed says what keeps libibverbs from a device that /sys shows.
func (f Facts) whyClosed(device string) string {
	i := slices.IndexFunc(f.Devices, func(d Device) bool { return d.Name == device })
	if i < 0 {
		return ""
	}
	d := f.Devices[i]
	if d.Driver != "" && !slices.Contains(f.Provider, d.Driver) {
		return fmt.Sprintf("libibverbs has no provider library for %s (lib%s-rdmav*.so)", d.Name, d.Driver)
	}
	if d.Verbs == "" {
		return ""
	}
	path := "/dev/infiniband/" + d.Verbs
	for _, n := range f.Nodes {
		if n.Path != path {
			continue
		}
		if n.Error != "" {
			return fmt.Sprintf("%s of %s cannot be opened: %s", path, d.Name, n.Error)
		}
		return ""
	}
	return fmt.Sprintf("%s of %s is missing", path, d.Name)
}

// number reads a variable as NCCL_PARAM does. A value that does not begin with
// a number is 0, and a number that does not fit is the default.
func number(env func(string) string, name string, otherwise int64) int64 {
	v := strings.TrimLeft(env(name), " \t\n\v\f\r")
	if v == "" {
		return otherwise
	}
	for n := min(len(v), 32); n > 0; n-- {
		i, err := strconv.ParseInt(v[:n], 0, 64)
		switch {
		case err == nil && !strings.Contains(v[:n], "_"):
			return i
		case err != nil && isRange(err):
			return otherwise
		}
	}
	return 0
}
