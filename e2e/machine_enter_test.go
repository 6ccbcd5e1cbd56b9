package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// playHost makes the test binary enter a simulated machine and become a program there.
// Its arguments are a file with a place, a program and the program's arguments.
const playHost = "host"

// place has the properties of a simulated machine. Its files are a read-only layer over
// the real ones, so that a program finds them at the same paths as on a real machine.
type place struct {
	Net    string            // network namespace
	Host   string            // host name
	Layer  string            // folder whose etc, opt, usr, dev and sys/class lie over the real ones
	SHM    string            // size of /dev/shm
	Limits map[int]uint64    // limits by resource, lower than the real ones
	Drop   []uintptr         // capabilities to take away
	Binds  map[string]string // mount point: file or folder below Layer
}

// enter enters the machine and runs the program. It returns only when it fails.
func enter(args []string) int {
	fmt.Fprintf(os.Stderr, "[e2e: cannot enter the machine: %v]\n", enterMachine(args))
	return 1
}

func enterMachine(args []string) error {
	if len(args) < 2 {
		return errors.New("a place and a program are needed")
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var p place
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	// The namespaces belong to this thread, and exec makes it the process's only thread.
	runtime.LockOSThread()
	for _, step := range []func() error{p.namespaces, p.mounts, p.limits} {
		if err := step(); err != nil {
			return err
		}
	}
	return os.NewSyscallError("exec "+args[1], syscall.Exec(args[1], args[1:], os.Environ()))
}

func (p place) namespaces() error {
	f, err := os.Open("/run/netns/" + p.Net)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(p.Host)))
}

func (p place) mounts() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	_ = unix.Unmount("/sys", unix.MNT_DETACH) // the /sys of the other network namespace
	if err := mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	for _, dir := range []string{"etc", "opt", "usr", "dev", "sys/class"} {
		over := filepath.Join(p.Layer, dir)
		if _, err := os.Stat(over); err != nil {
			continue
		}
		if err := mount("overlay", "/"+dir, "overlay", 0, "lowerdir="+over+":/"+dir); err != nil {
			return err
		}
	}
	if err := mount("tmpfs", "/dev/shm", "tmpfs", 0, "size="+p.SHM); err != nil {
		return err
	}
	for at, from := range p.Binds {
		if err := mount(filepath.Join(p.Layer, from), at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	return os.NewSyscallError("mount "+target, unix.Mount(source, target, kind, flags, data))
}

func (p place) limits() error {
	for what, l := range p.Limits {
		// syscall.Setrlimit, not unix.Setrlimit: otherwise syscall's exec restores the old
		// limit.
		if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: l, Max: l}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	for _, c := range p.Drop {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
	}
	return nil
}
