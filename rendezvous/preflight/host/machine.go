package host

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/environ"
)

// cpuVendor returns the vendor in the first lines of /proc/cpuinfo: vendor_id
// on x86 and s390, the implementer's number on ARM.
func cpuVendor(cpuinfo []byte) string {
	for line := range bytes.Lines(cpuinfo) {
		key, value, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id":
			return bounded(value)
		case "CPU implementer":
			return implementer(strings.ToLower(value))
		}
	}
	return ""
}

// implementer names the maker of a server processor by its code in Arm's MIDR
// register (arch/arm64/include/asm/cputype.h).
func implementer(code string) string {
	switch code {
	case "0x41":
		return "ARM"
	case "0x46":
		return "Fujitsu"
	case "0x48":
		return "HiSilicon"
	case "0x4e":
		return "NVIDIA"
	case "0x6d":
		return "Microsoft"
	case "0xc0":
		return "Ampere"
	}
	return bounded("ARM implementer " + code)
}

// container returns the kind of container that this process runs in, "" if
// there is no sign of one.
func (o Options) container() string {
	exists := func(name string) bool { return unix.Access(o.Root+name, unix.F_OK) == nil }
	cgroup := o.head("/proc/self/cgroup", 4096)
	switch kind := environ.Get(o.Env, "container"); {
	case environ.Get(o.Env, "KUBERNETES_SERVICE_HOST") != "" || bytes.Contains(cgroup, []byte("kubepods")):
		return "kubernetes"
	case environ.Get(o.Env, "APPTAINER_CONTAINER") != "" || environ.Get(o.Env, "SINGULARITY_CONTAINER") != "":
		return "apptainer"
	case environ.Get(o.Env, "ENROOT_ROOTFS") != "" || exists("/etc/enroot"):
		return "enroot"
	case exists("/.dockerenv") || bytes.Contains(cgroup, []byte("/docker")):
		return "docker"
	case exists("/run/.containerenv") || bytes.Contains(cgroup, []byte("libpod")):
		return "podman"
	case kind != "": // systemd-nspawn, LXC and podman set it
		return bounded(kind)
	}
	return ""
}

// sysctl reads the kernel's limits that depend on the size of a job.
func (o Options) sysctl() Sysctl {
	return Sysctl{
		SomaxConn:     o.number("/proc/sys/net/core/somaxconn"),
		GCThresh3:     o.number("/proc/sys/net/ipv4/neigh/default/gc_thresh3"),
		ConntrackMax:  o.number("/proc/sys/net/netfilter/nf_conntrack_max"),
		ConntrackUsed: o.number("/proc/sys/net/netfilter/nf_conntrack_count"),
		FileMax:       o.number("/proc/sys/fs/file-max"),
	}
}

// devices opens the files that CUDA opens. It does not wait: with O_NONBLOCK
// the driver starts a sleeping GPU in the background. Only an open shows what a
// container's device filter forbids. The control and memory files must be
// there. A missing GPU is no fault, because a container may have only some of
// them.
func (o Options) devices() (nodes []Node, why string) {
	if !o.Driver {
		return nil, ""
	}
	const maxDevices = 64
	if unix.Access(o.Root+"/dev/nvidiactl", unix.F_OK) != nil && unix.Access(o.Root+WSL, unix.F_OK) == nil {
		return []Node{{Path: WSL, Error: o.openDevice(WSL)}}, ""
	}
	names := []string{"nvidiactl", "nvidia-uvm"}
	names = append(names, o.names("/dev", maxDevices, func(name string) bool {
		digits, ok := strings.CutPrefix(name, "nvidia")
		return ok && isNumber(digits)
	})...)
	nodes = make([]Node, len(names))
	for i, name := range names {
		nodes[i] = Node{Path: "/dev/" + name, Error: o.openDevice("/dev/" + name)}
	}
	return nodes, ""
}

func (o Options) openDevice(name string) string {
	fd, err := unix.Open(o.Root+name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
		unix.Close(fd)
		return ""
	case unix.ENOENT:
		return "missing"
	}
	return err.Error()
}
