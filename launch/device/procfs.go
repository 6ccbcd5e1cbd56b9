package device

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

// readProcfs reads /proc/driver/nvidia/gpus/<PCI address>/information below
// root. The folder's name is enough to count a GPU.
func readProcfs(root fs.FS) ([]GPU, error) {
	const folder = "proc/driver/nvidia/gpus"
	entries, err := fs.ReadDir(root, folder)
	if err != nil {
		return nil, err
	}
	gpus := make([]GPU, 0, len(entries))
	for _, e := range entries { // sorted by name, which is PCI order
		g := GPU{Index: len(gpus), PCI: sysfsPCI(e.Name())}
		if f, err := root.Open(folder + "/" + e.Name() + "/information"); err == nil {
			lines := bufio.NewScanner(f) // stops at a line above 64 KiB
			for lines.Scan() {
				key, value, _ := strings.Cut(lines.Text(), ":")
				g.inform(strings.TrimSpace(key), strings.TrimSpace(value))
			}
			f.Close()
		}
		// The file is not opened. This is the way that remains when the
		// driver's library hangs, and an open of a sick GPU's file would hang
		// as well.
		if g.Minor != nil && exposed(root) {
			if _, err := fs.Stat(root, node(*g.Minor)); errors.Is(err, fs.ErrNotExist) {
				g.Denied = fmt.Sprintf("no /%s", node(*g.Minor))
			}
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}

// inform reads one line of the driver's information.
func (g *GPU) inform(key, value string) {
	switch key {
	case "Model":
		g.Name = value
	case "GPU UUID": // the driver shows question marks until the GPU was used once
		if !strings.Contains(value, "?") {
			g.UUID = value
		}
	case "Device Minor":
		if n, err := strconv.Atoi(value); err == nil && n >= 0 {
			g.Minor = &n
		}
	}
}

// node returns the path of a GPU's file.
func node(minor int) string { return "dev/nvidia" + strconv.Itoa(minor) }

// exposed reports whether programs call the driver through files in /dev. Under
// WSL there is no file for a single GPU.
func exposed(root fs.FS) bool {
	_, err := fs.Stat(root, "dev/nvidiactl")
	return err == nil
}

// denied opens a GPU's file, as CUDA will, and says why that is not allowed.
// Other errors are left for the driver to report.
func denied(root fs.FS, minor int) string {
	f, err := root.Open(node(minor))
	switch {
	case err == nil:
		f.Close()
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "no /" + node(minor)
	case errors.Is(err, syscall.EPERM): // what the device controller says
		return fmt.Sprintf("the cgroup does not allow /%s", node(minor))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("no permission for /%s", node(minor))
	}
	return ""
}

// sysfsPCI turns a PCI address into the form of /sys/bus/pci/devices: lower
// case, with a domain of four digits (NVML writes eight) unless it needs more.
func sysfsPCI(s string) string {
	s = strings.ToLower(s)
	domain, rest, ok := strings.Cut(s, ":")
	for ok && len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	if !ok {
		return s
	}
	return domain + ":" + rest
}
