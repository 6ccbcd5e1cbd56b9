package device

import (
	"bufio"
	"io/fs"
	"strings"
)

// Source is where a probe looks.
type Source string

const (
	NVML   Source = "nvml"   // the driver's library: everything about each GPU
	Procfs Source = "procfs" // /proc/driver/nvidia: works without the library
)

// Report is what a probe found. The child process prints it as one line of
// JSON on its standard output.
type Report struct {
	Probe int    `json:"gorun_gpu_probe"` // reportVersion; marks the line
	GPUs  []GPU  `json:"gpus"`
	Error string `json:"error,omitempty"` // why there is no answer
}

const reportVersion = 1

// Probe looks for GPUs. It may never return or end the process: call it only
// in a child process made for it. It prints nothing.
func Probe(from Source, root fs.FS) Report {
	var gpus []GPU
	var err error
	if from == Procfs {
		gpus, err = readProcfs(root)
	} else {
		gpus, err = readNVML()
	}
	r := Report{Probe: reportVersion, GPUs: gpus}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

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
				switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
				case "Model":
					g.Name = value
				// The driver shows question marks until the GPU was used once.
				case "GPU UUID":
					if !strings.Contains(value, "?") {
						g.UUID = value
					}
				}
			}
			f.Close()
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}

// sysfsPCI turns a PCI address into the form of /sys/bus/pci/devices: lower
// case, a domain of four digits (NVML writes eight) unless it needs more.
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
