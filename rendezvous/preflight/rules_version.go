package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/library"
)

// versionRules are V01 to V03 and V05, with V04: which libraries the workers load.
func versionRules() []Rule {
	return append([]Rule{
		{
			ID: "V01", Name: "nccl-version", Severity: Error,
			Meaning: "The NCCL that the workers will load has the same version on every node; a different build of it is a warning.",
			Users:   "`Message truncated : received 64 bytes instead of 172`, `family 0 is neither AF_INET(2) nor AF_INET6(10)`, `Mismatched NCCL version detected`, or a hang in the first collective.",
			Steps:   []Step{inShell("install the NCCL that the other nodes have, for instance", "python3 -m pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5")},
			Check:   checkNCCLVersion,
		},
		{
			ID: "V02", Name: "nccl-single", Severity: Error,
			Meaning: "A worker finds its NCCL and can load it (the file can be read and is not cut off), and not two wheels own the same file; in a site directory from which the workers load none it is a warning.",
			Users:   "Another version than the one that was installed, `libnccl.so.2: cannot open shared object file`, `undefined symbol: ncclCommShrink`.",
			Steps: []Step{inShell("uninstall every nvidia-nccl-cu* wheel before you install the one of torch's CUDA, for instance",
				"python3 -m pip uninstall -y nvidia-nccl-cu11 nvidia-nccl-cu12",
				"python3 -m pip install --no-deps nvidia-nccl-cu12==2.27.5")},
			Check: checkNCCLSingle,
		},
		{
			ID: "V03", Name: "driver-cuda", Severity: Error,
			Meaning: "The NVIDIA driver is new enough for the CUDA of NCCL and torch, and libcuda and NVML belong to the driver that runs; drivers that differ between nodes are a warning.",
			Users:   "`CUDA driver version is insufficient for CUDA runtime version`, `Failed to initialize NVML: Driver/library version mismatch`, CUDA error 803 or 804.",
			Steps:   []Step{byHand("ask the administrator of the marked nodes to install a newer driver, or install builds of torch and NCCL for the CUDA of that driver")},
			Check:   checkDriver,
		},
		{
			ID: "V05", Name: "torch-loads", Severity: Error,
			Meaning: "The libraries in torch's folder can be read by the workers' user, and are not cut off.",
			Users:   "`cannot open shared object file: Permission denied`, `file too short`, or `Bus error` (signal 7) at import torch.",
			Steps:   []Step{byHand("install that torch anew, so that the user who starts the workers may read it")},
			Check: func(f *Fleet) []Finding {
				return one(odd(f.collect(func(_ int, n *Facts, add func(string)) {
					for _, b := range n.Libraries.Broken {
						add(b)
					}
				})), Finding{Text: "A library of torch's is damaged, or the workers may not read it: they fail or crash at import torch."})
			},
		},
	}, bugRules()...)
}

// loaded is the NCCL of a node if it can be loaded and its version is known.
func (n *Facts) loaded() *library.NCCL {
	if x := n.Libraries.NCCL; x != nil && x.Version != "" && x.Error == "" {
		return x
	}
	return nil
}

func checkNCCLVersion(f *Fleet) []Finding {
	if !f.look().nccl {
		return nil
	}
	values := f.differ(func(_ int, n *Facts) string {
		if x := n.loaded(); x != nil {
			return release(x)
		}
		return ""
	})
	if values != nil {
		steps := f.installNCCL(values)
		f.describe(values, func(i int) string { return whence(&f.Nodes[i]) })
		return one(values, Finding{
			Steps: steps,
			Text:  "The workers would load different versions of NCCL. Ranks of different versions do not understand each other: they hang or crash when the communicator is made.",
		})
	}
	values = f.differ(func(_ int, n *Facts) string {
		if x := n.loaded(); x != nil {
			return x.Version + " for CUDA " + orUnknown(x.CUDA)
		}
		return ""
	})
	if values == nil {
		return nil
	}
	steps := f.installNCCL(values)
	f.describe(values, func(i int) string { return f.Nodes[i].Libraries.NCCL.Path })
	return one(values, Finding{
		Severity: Warning,
		Steps:    steps,
		Text:     "The workers would load different builds of the same NCCL.",
	})
}

// release is what has to agree: the version without a vendor's suffix.
func release(x *library.NCCL) string {
	if x.Code > 0 {
		return versionOf(x.Code)
	}
	return x.Version
}

// versionOf writes a version code as ncclGetVersion gives it: 2804 is 2.8.4,
// 20906 is 2.9.6.
func versionOf(code int) string {
	if code < 10000 {
		return fmt.Sprintf("%d.%d.%d", code/1000, code/100%10, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code/100%100, code%100)
}

// whence says which file the version is of, why it wins, and which others lose.
func whence(n *Facts) string {
	x := n.Libraries.NCCL
	text := x.Path
	if x.Why != "" {
		text += " (" + x.Why + ")"
	}
	lost := 0
	for _, c := range n.Libraries.Candidates {
		if c.Version == "" || c.Path == x.Path {
			continue
		}
		if lost++; lost > 2 {
			break
		}
		text += fmt.Sprintf("; not %s %s", c.Version, c.Path)
		if c.Why != "" {
			text += " (" + c.Why + ")"
		}
	}
	return text
}

func checkNCCLSingle(f *Fleet) []Finding {
	if !f.look().nccl {
		return nil
	}
	var all []Finding
	for _, severity := range []Severity{Error, Warning} {
		all = append(all, f.wheels(severity)...)
	}
	damaged := f.faults(func(_ int, n *Facts) string {
		if x := n.Libraries.NCCL; n.GPU.Driver && x != nil && x.Error != "" {
			return x.Path + ": " + x.Error
		}
		return ""
	})
	again := f.each(marked(damaged), inShell, "install it anew", func(_ int, n *Facts) []string {
		for _, w := range n.Libraries.Wheels {
			if w.Site == siteOf(n.Libraries.NCCL.Path) {
				return n.install(w.Site, w.Name, w.Version)
			}
		}
		return nil
	})
	all = append(all, one(damaged, Finding{
		Text:  "The NCCL that the workers would load is damaged, or they may not read it: they fail or crash when they load it.",
		Steps: or(again, byHand("ask the administrator to install that NCCL anew, so that the user who starts the workers may read it")),
	})...)
	lost := f.faults(func(_ int, n *Facts) string {
		if !n.GPU.Driver {
			return ""
		}
		return n.Libraries.NCCLError
	})
	return append(all, one(lost, Finding{
		Text:  "The workers need libnccl.so.2, and the loader would not find one that it takes.",
		Steps: f.bringNCCL(marked(lost)),
	})...)
}

// bringNCCL says how nodes get an NCCL that load none. A wheel whose file the
// loader gives up at is installed anew, since pip takes it for complete; else torch
// names the release that it needs.
func (f *Fleet) bringNCCL(nodes []int) []Step {
	steps := f.each(nodes, inShell, "have pip bring what torch needs", func(_ int, n *Facts) []string {
		if n.Libraries.Torch == "" {
			return nil
		}
		for _, w := range n.Libraries.Wheels {
			if strings.Contains(n.Libraries.NCCLError, w.Site+wheelFolder) {
				return n.onlyWheel(w.Site)
			}
		}
		return []string{n.pip() + " install " + quote("torch=="+n.Libraries.Torch)}
	})
	return or(steps, byHand("ask the administrator to install NCCL (libnccl2) where the loader looks, or name its folder in LD_LIBRARY_PATH"))
}

// wheels finds faults of NCCL's wheels: errors in the site directory from which
// the workers load it, or where they find none; warnings in others.
func (f *Fleet) wheels(severity Severity) []Finding {
	of := func(n *Facts) []library.Wheel {
		if !n.GPU.Driver {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(n.Libraries.Wheels), func(w library.Wheel) bool {
			x := n.Libraries.NCCL
			used := n.Libraries.NCCLError != "" || x != nil && strings.HasPrefix(x.Path, w.Site+"/")
			return used != (severity == Error)
		})
	}
	find := func(text string, fault func([]library.Wheel) (site, what string)) []Finding {
		values := f.faults(func(_ int, n *Facts) string { _, what := fault(of(n)); return what })
		return one(values, Finding{Severity: severity, Text: text, Steps: f.each(marked(values), inShell, "install the one that torch needs anew, alone", func(_ int, n *Facts) []string {
			site, _ := fault(of(n))
			return n.onlyWheel(site)
		})})
	}
	all := find("Two NCCL wheels in one site directory own the same file, libnccl.so.2: which version lies there depends on the order in which they were installed, and uninstalling one takes the file from the other.", twoWheels)
	return append(all, find("An NCCL wheel is installed, but its libnccl.so.2 is gone: uninstalling another nvidia-nccl wheel deletes it.", lostFile)...)
}

// onlyWheel is the lines that leave one wheel of NCCL in a site directory: the
// one of torch's CUDA.
func (n *Facts) onlyWheel(site string) []string {
	var keep *library.Wheel
	major, _, _ := strings.Cut(n.Libraries.TorchCUDA, ".")
	for i := range n.Libraries.Wheels {
		if w := &n.Libraries.Wheels[i]; w.Site == site && (keep == nil || strings.HasSuffix(w.Name, "-cu"+major)) {
			keep = w
		}
	}
	if keep == nil {
		return nil
	}
	return n.install(site, keep.Name, keep.Version)
}

// twoWheels names the wheels of a site directory that has more than one.
func twoWheels(wheels []library.Wheel) (site, what string) {
	for i, a := range wheels {
		for _, b := range wheels[:i] {
			if a.Site == b.Site && a.Name != b.Name {
				return a.Site, fmt.Sprintf("%s %s and %s %s in %s", b.Name, b.Version, a.Name, a.Version, a.Site)
			}
		}
	}
	return "", ""
}

// lostFile names a wheel without its file.
func lostFile(wheels []library.Wheel) (site, what string) {
	for _, w := range wheels {
		if !w.File {
			return w.Site, fmt.Sprintf("%s %s in %s", w.Name, w.Version, w.Site)
		}
	}
	return "", ""
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
