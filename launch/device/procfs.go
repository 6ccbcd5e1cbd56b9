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
				g.setProperty(strings.TrimSpace(key), strings.TrimSpace(value))
			}
			f.Close()
		}
		// readProcfs must work while the driver's library hangs. To open the
		// file of a failed GPU would hang as well, so Stat has to do.
		if g.Minor != nil && hasControlFile(root) {
			if _, err := fs.Stat(root, deviceFile(*g.Minor)); errors.Is(err, fs.ErrNotExist) {
				g.Denied = fmt.Sprintf("no /%s", deviceFile(*g.Minor))
			}
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}

// setProperty reads one line of the driver's information.
func (g *GPU) setProperty(key, value string) {
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

// deviceFile returns the path of a GPU's file.
func deviceFile(minor int) string { return "dev/nvidia" + strconv.Itoa(minor) }

// hasControlFile reports whether programs call the driver through files in /dev.
// Under WSL a GPU has no file.
func hasControlFile(root fs.FS) bool {
	_, err := fs.Stat(root, "dev/nvidiactl")
	return err == nil
}

// deniedReason opens a GPU's file, as CUDA will. It says why that is not allowed,
// "" if it is. The driver reports other errors.
func deniedReason(root fs.FS, minor int) string {
	f, err := root.Open(deviceFile(minor))
	switch {
	case err == nil:
		f.Close()
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "no /" + deviceFile(minor)
	case errors.Is(err, syscall.EPERM): // the error of the cgroup's device controller
		return fmt.Sprintf("the cgroup does not allow /%s", deviceFile(minor))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("no permission for /%s", deviceFile(minor))
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
