package device

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// readProcfs reads /proc/driver/nvidia/gpus/<PCI address>/information. The folder's
// name is enough to count a GPU.
func readProcfs(sys System) ([]GPU, error) {
	const folder = "proc/driver/nvidia/gpus"
	root := sys.Files
	entries, err := fs.ReadDir(root, folder)
	if err != nil {
		return nil, err
	}
	gpus := make([]GPU, 0, len(entries))
	// A domain of five digits comes after all of four.
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int {
		return cmp.Or(cmp.Compare(len(a.Name()), len(b.Name())), cmp.Compare(strings.ToLower(a.Name()), strings.ToLower(b.Name())))
	})
	for _, e := range entries[:min(len(entries), maxGPUs)] {
		g, excluded := GPU{Index: len(gpus), PCI: sysfsPCI(e.Name())}, false
		if f, err := root.Open(folder + "/" + e.Name() + "/information"); err == nil {
			lines := bufio.NewScanner(f) // stops at a line above 64 KiB
			for lines.Scan() {
				key, value, _ := strings.Cut(lines.Text(), ":")
				key, value = strings.TrimSpace(key), strings.TrimSpace(value)
				isExclusion := key == "GPU Excluded" || key == "Blacklisted" // in older drivers
				excluded = excluded || isExclusion && value == "Yes"
				g.setProperty(key, value)
			}
			f.Close()
		}
		if excluded { // by the driver's option NVreg_ExcludedGpus (NVreg_GpuBlacklist): neither NVML nor CUDA has it
			continue
		}
		if g.Minor != nil && hasControlFile(root) {
			g.Denied = deniedReason(sys.MayOpen(deviceFile(*g.Minor)), *g.Minor)
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}

// unsureReason says why CUDA may show other GPUs than those of readProcfs, "" if it
// shows them. Instances of MIG have names that only NVML knows; the driver has a folder
// for each of them. A GPU in MIG mode that has no instance yet looks like a whole one, since
// the driver makes the folder "mig" of each GPU, whatever its mode (osRmCapRegisterGpu in
// NVIDIA's open-gpu-kernel-modules). The driver shows a GPU's UUID once the GPU was used,
// which also creates its file in /dev.
func unsureReason(root fs.FS, gpus []GPU) string {
	open := 0
	for _, g := range gpus {
		switch {
		case !strings.HasPrefix(g.UUID, "GPU-"), g.Name == "", g.Name == "Unknown", g.Minor == nil:
			return fmt.Sprintf("GPU %d has not been used since the driver was loaded", g.Index)
		case g.Denied == "":
			open++
		}
	}
	if open == 0 || !hasControlFile(root) {
		return "no GPU has a file in /dev that this process may open"
	}
	if parts, err := fs.Glob(root, "proc/driver/nvidia/capabilities/gpu*/mig/gi*"); err != nil || len(parts) > 0 {
		return "there are MIG instances"
	}
	return ""
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

// openDevice opens a GPU's file, as CUDA will.
func openDevice(root fs.FS, minor int) error {
	f, err := root.Open(deviceFile(minor))
	if err == nil {
		f.Close()
	}
	return err
}

// MayOpen is System.MayOpen for this machine. Its name has no slash at its beginning.
// The kernel asks the cgroup, too. To open the file of a GPU would take long if the GPU
// sleeps, and hang if it has failed.
func MayOpen(name string) error { return unix.Access("/"+name, unix.R_OK|unix.W_OK) }

// deniedReason says why a process may not use a GPU, by the error of its file, "" if it
// may. The driver reports other errors.
func deniedReason(err error, minor int) string {
	switch {
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
