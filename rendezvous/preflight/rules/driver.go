package rules

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/library"
)

func checkDriver(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	skewed := f.Faults(func(_ int, n *preflight.Facts) string { return driverMismatch(n) })
	all := preflight.IfAny(skewed, preflight.Finding{
		Text:  "A user library of the driver does not belong to the kernel module that runs: the driver was upgraded without a reboot, or the container was started before the upgrade.",
		Steps: []preflight.Step{preflight.ByHand.Step("ask the administrator of " + f.NamesOf(preflight.Marked(skewed)) + " to restart the machine, or to load the modules of the NVIDIA driver again; then restart the containers there")},
	})
	old := f.Faults(func(_ int, n *preflight.Facts) string { return oldDriver(n) })
	all = append(all, preflight.IfAny(old, preflight.Finding{
		Text:  "The driver is too old for the CUDA of the workers' libraries.",
		Steps: []preflight.Step{preflight.ByHand.Step("ask the administrator of " + f.NamesOf(preflight.Marked(old)) + " to install such a driver, or install builds of torch and NCCL for the CUDA of the installed driver")},
	})...)
	if len(all) > 0 {
		return all
	}
	return preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string { return n.Libraries.Driver }), preflight.Finding{
		Severity: preflight.Warning,
		Text:     "The nodes run different NVIDIA drivers; NCCL may choose differently on them.",
		Steps:    []preflight.Step{preflight.ByHand.Step("ask the administrator of the nodes to install one driver on all of them")},
	})
}

// driverMismatch says which library does not fit the kernel module. A libcuda
// of the forward compatibility package is newer on purpose.
func driverMismatch(n *preflight.Facts) string {
	l := n.Libraries
	switch {
	case l.Driver == "":
		return ""
	case l.NVML != "" && l.NVML != l.Driver:
		return "kernel module " + l.Driver + ", libnvidia-ml " + l.NVML
	}
	if c := loadedCUDA(n); c != nil && c.Version != "" && c.Version != l.Driver && !c.Stub && !isCompat(c) {
		return "kernel module " + l.Driver + ", libcuda " + c.Version + " (" + c.Path + ")"
	}
	return ""
}

func loadedCUDA(n *preflight.Facts) *library.CUDA {
	if len(n.Libraries.CUDA) == 0 {
		return nil
	}
	return &n.Libraries.CUDA[0]
}

func isCompat(c *library.CUDA) bool { return strings.Contains(path.Dir(c.Path)+"/", "/compat/") }

// oldDriver says which CUDA release needs a newer driver.
func oldDriver(n *preflight.Facts) string {
	driver := n.Libraries.Driver
	if c := loadedCUDA(n); c != nil && isCompat(c) && isOlder(driver, c.Version) {
		driver = c.Version
	}
	if driver == "" {
		return ""
	}
	check := func(library, cuda string) string {
		if need := minimumDriver(cuda); need != "" && isOlder(driver, need) {
			return fmt.Sprintf("driver %s; CUDA %s of %s needs %s", driver, cuda, library, need)
		}
		return ""
	}
	if text := check("torch "+n.Libraries.Torch, n.Libraries.TorchCUDA); text != "" {
		return text
	}
	if x := loadedNCCL(n); x != nil {
		return check("NCCL "+x.Version, x.CUDA)
	}
	return ""
}

// minimumDriver returns the oldest driver for a CUDA release, from NVIDIA's
// table of minor version compatibility; "" for a release that is not in the
// table.
func minimumDriver(cuda string) string {
	major, _, _ := strings.Cut(cuda, ".")
	switch major {
	case "11":
		return "450.80.02"
	case "12":
		return "525.60.13"
	case "13":
		return "580"
	default:
		return ""
	}
}

// isOlder compares versions number by number. Text that is not a number ends
// the comparison.
func isOlder(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		m, n := number(x, i), number(y, i)
		if m != n {
			return m < n
		}
	}
	return false
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil {
		return 0
	}
	return n
}
