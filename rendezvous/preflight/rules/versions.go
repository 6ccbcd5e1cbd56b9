package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/library"
)

// versionRules returns V01 to V03 and V05, and V04 from bugRules: which
// libraries the workers load.
func versionRules() []preflight.Rule {
	return append([]preflight.Rule{
		{
			ID: "V01", Name: "nccl-version", Severity: preflight.Error,
			Meaning: "The NCCL that the workers will load has the same version on every node; a different build of it is a warning.",
			Symptom: "`Message truncated : received 64 bytes instead of 172`, `family 0 is neither AF_INET(2) nor AF_INET6(10)`, `Mismatched NCCL version detected`, or a hang in the first collective.",
			Steps:   []preflight.Step{preflight.InShell.Step("install the NCCL that the other nodes have, for instance", "python3 -m pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5")},
			Check:   checkNCCLVersion,
		},
		{
			ID: "V02", Name: "nccl-single", Severity: preflight.Error,
			Meaning: "A worker finds its NCCL and can load it (the file can be read and is complete), and no two wheels own the same file; in a site directory from which the workers load no NCCL it is a warning.",
			Symptom: "Another version than the one that was installed, `libnccl.so.2: cannot open shared object file`, `undefined symbol: ncclCommShrink`.",
			Steps: []preflight.Step{preflight.InShell.Step("uninstall every nvidia-nccl-cu* wheel before you install the one of torch's CUDA, for instance",
				"python3 -m pip uninstall -y nvidia-nccl-cu11 nvidia-nccl-cu12",
				"python3 -m pip install --no-deps nvidia-nccl-cu12==2.27.5")},
			Check: checkNCCLSingle,
		},
		{
			ID: "V03", Name: "driver-cuda", Severity: preflight.Error,
			Meaning: "The NVIDIA driver is new enough for the CUDA of NCCL and torch, and libcuda and NVML belong to the driver that runs; drivers that differ between nodes are a warning.",
			Symptom: "`CUDA driver version is insufficient for CUDA runtime version`, `Failed to initialize NVML: Driver/library version mismatch`, CUDA error 803 or 804.",
			Steps:   []preflight.Step{preflight.ByHand.Step("ask the administrator of the marked nodes to install a newer driver, or install builds of torch and NCCL for the CUDA of that driver")},
			Check:   checkDriver,
		},
		{
			ID: "V05", Name: "torch-loads", Severity: preflight.Error,
			Meaning: "The libraries in torch's folder can be read by the workers' user, and are complete.",
			Symptom: "`cannot open shared object file: Permission denied`, `file too short`, or `Bus error` (signal 7) at import torch.",
			Steps:   []preflight.Step{preflight.ByHand.Step("install that torch again, so that the user who starts the workers may read it")},
			Check: func(f *preflight.Fleet) []preflight.Finding {
				return preflight.IfAny(preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
					for _, b := range n.Libraries.Broken {
						add(b)
					}
				})), preflight.Finding{Text: "A library of torch is damaged, or the workers may not read it: they fail or crash at import torch."})
			},
		},
	}, bugRules()...)
}

// loadedNCCL returns the NCCL of a node if it can be loaded and its version is
// known.
func loadedNCCL(n *preflight.Facts) *library.NCCL {
	if x := n.Libraries.NCCL; x != nil && x.Version != "" && x.Error == "" {
		return x
	}
	return nil
}

func checkNCCLVersion(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	values := f.Differing(func(_ int, n *preflight.Facts) string {
		if x := loadedNCCL(n); x != nil {
			return releaseOf(x)
		}
		return ""
	})
	if values != nil {
		steps := installNCCL(f, values)
		f.Describe(values, func(i int) string { return describeNCCL(&f.Nodes[i]) })
		return preflight.IfAny(values, preflight.Finding{
			Steps: steps,
			Text:  "The workers would load different versions of NCCL. Ranks of different versions cannot talk to each other: they hang or crash when the communicator is made.",
		})
	}
	values = f.Differing(func(_ int, n *preflight.Facts) string {
		if x := loadedNCCL(n); x != nil {
			return x.Version + " for CUDA " + cmp.Or(x.CUDA, "unknown")
		}
		return ""
	})
	if values == nil {
		return nil
	}
	steps := installNCCL(f, values)
	f.Describe(values, func(i int) string { return f.Nodes[i].Libraries.NCCL.Path })
	return preflight.IfAny(values, preflight.Finding{
		Severity: preflight.Warning,
		Steps:    steps,
		Text:     "The workers would load different builds of the same NCCL.",
	})
}

// releaseOf returns what has to agree: the version without a vendor's suffix.
func releaseOf(x *library.NCCL) string {
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

// describeNCCL says which file has the version, why the loader takes it, and
// which other files it does not take.
func describeNCCL(n *preflight.Facts) string {
	x := n.Libraries.NCCL
	text := x.Path
	if x.Why != "" {
		text += " (" + x.Why + ")"
	}
	others := 0
	for _, c := range n.Libraries.Candidates {
		if c.Version == "" || c.Path == x.Path {
			continue
		}
		if others++; others > 2 {
			break
		}
		text += fmt.Sprintf("; not %s %s", c.Version, c.Path)
		if c.Why != "" {
			text += " (" + c.Why + ")"
		}
	}
	return text
}

func checkNCCLSingle(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	var all []preflight.Finding
	for _, severity := range []preflight.Severity{preflight.Error, preflight.Warning} {
		all = append(all, wheelFaults(f, severity)...)
	}
	damaged := f.Faults(func(_ int, n *preflight.Facts) string {
		if x := n.Libraries.NCCL; n.GPU.Driver && x != nil && x.Error != "" {
			return x.Path + ": " + x.Error
		}
		return ""
	})
	reinstall := f.StepsFor(preflight.Marked(damaged), preflight.InShell, "install it again", func(_ int, n *preflight.Facts) []string {
		for _, w := range n.Libraries.Wheels {
			if w.Site == siteOf(n.Libraries.NCCL.Path) {
				return installWheel(n, w.Site, w.Name, w.Version)
			}
		}
		return nil
	})
	all = append(all, preflight.IfAny(damaged, preflight.Finding{
		Text:  "The NCCL that the workers would load is damaged, or they may not read it: they fail or crash when they load it.",
		Steps: preflight.Either(reinstall, preflight.ByHand.Step("ask the administrator to install that NCCL again, so that the user who starts the workers may read it")),
	})...)
	missing := f.Faults(func(_ int, n *preflight.Facts) string {
		if !n.GPU.Driver {
			return ""
		}
		return n.Libraries.NCCLError
	})
	return append(all, preflight.IfAny(missing, preflight.Finding{
		Text:  "The workers need libnccl.so.2, and the loader finds none that it accepts.",
		Steps: provideNCCL(f, preflight.Marked(missing)),
	})...)
}

// provideNCCL returns the steps that give an NCCL to nodes that load none. If
// the loader refuses the file of a wheel, the steps install the wheel again,
// since pip takes it for complete. Otherwise torch names the release that it
// needs.
func provideNCCL(f *preflight.Fleet, nodes []int) []preflight.Step {
	steps := f.StepsFor(nodes, preflight.InShell, "let pip install what torch needs", func(_ int, n *preflight.Facts) []string {
		if n.Libraries.Torch == "" {
			return nil
		}
		for _, w := range n.Libraries.Wheels {
			if strings.Contains(n.Libraries.NCCLError, w.Site+wheelFolder) {
				return keepOneWheel(n, w.Site)
			}
		}
		return []string{pipCommand(n) + " install " + term.Command("torch=="+n.Libraries.Torch)}
	})
	return preflight.Either(steps, preflight.ByHand.Step("ask the administrator to install NCCL (libnccl2) in a folder that the loader searches, or name its folder in LD_LIBRARY_PATH"))
}

// wheelFaults finds faults of NCCL's wheels. They are errors in the site
// directory from which the workers load NCCL, or if they find no NCCL. In other
// site directories they are warnings.
func wheelFaults(f *preflight.Fleet, severity preflight.Severity) []preflight.Finding {
	of := func(n *preflight.Facts) []library.Wheel {
		if !n.GPU.Driver {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(n.Libraries.Wheels), func(w library.Wheel) bool {
			x := n.Libraries.NCCL
			used := n.Libraries.NCCLError != "" || x != nil && strings.HasPrefix(x.Path, w.Site+"/")
			return used != (severity == preflight.Error)
		})
	}
	find := func(text string, fault func([]library.Wheel) (site, what string)) []preflight.Finding {
		values := f.Faults(func(_ int, n *preflight.Facts) string { _, what := fault(of(n)); return what })
		return preflight.IfAny(values, preflight.Finding{Severity: severity, Text: text, Steps: f.StepsFor(preflight.Marked(values), preflight.InShell, "install the one that torch needs again, alone", func(_ int, n *preflight.Facts) []string {
			site, _ := fault(of(n))
			return keepOneWheel(n, site)
		})})
	}
	all := find("Two NCCL wheels in one site directory own the same file, libnccl.so.2: its version depends on the order in which they were installed, and uninstalling one deletes the file of the other.", twoWheels)
	return append(all, find("An NCCL wheel is installed, but its libnccl.so.2 is missing: uninstalling another nvidia-nccl wheel deletes it.", wheelWithoutFile)...)
}

// keepOneWheel returns the lines that leave one wheel of NCCL in a site
// directory: the wheel of torch's CUDA.
func keepOneWheel(n *preflight.Facts, site string) []string {
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
	return installWheel(n, site, keep.Name, keep.Version)
}

// twoWheels names the wheels of a site directory that has several.
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

// wheelWithoutFile names a wheel without its file.
func wheelWithoutFile(wheels []library.Wheel) (site, what string) {
	for _, w := range wheels {
		if !w.File {
			return w.Site, fmt.Sprintf("%s %s in %s", w.Name, w.Version, w.Site)
		}
	}
	return "", ""
}

// installNCCL returns the steps that give all nodes one version: the version
// that most nodes have, or else the newest. It returns nil if no known package
// has that version.
func installNCCL(f *preflight.Fleet, values []preflight.Value) []preflight.Step {
	good := 0
	if !preflight.HasMajority(values) {
		for k, v := range values {
			if f.Nodes[v.Nodes[0]].NCCLCode() > f.Nodes[values[good].Nodes[0]].NCCLCode() {
				good = k
			}
		}
	}
	model := &f.Nodes[values[good].Nodes[0]]
	from := model.Libraries.NCCL.Path
	text := "install NCCL " + releaseOf(loadedNCCL(model)) + ", as " + f.NamesOf(values[good].Nodes) + " has it"
	if preflight.HasMajority(values) {
		text = "install NCCL " + releaseOf(loadedNCCL(model)) + ", which most nodes load"
	}
	var elsewhere []int
	path := ""
	steps := f.StepsFor(preflight.NodesOutside(values, good), preflight.InShell, text, func(i int, n *preflight.Facts) []string {
		wheel, to := wheelOfNCCL(model), n.Libraries.NCCL.Path
		if wheel == nil || to != from && !strings.Contains(to, wheelFolder) {
			elsewhere, path = append(elsewhere, i), to
			return nil
		}
		return installWheel(n, siteOf(to), wheel.Name, wheel.Version)
	})
	switch {
	case len(elsewhere) == 0:
		return steps
	case path == from:
		return append(steps, preflight.ByHand.Step(text+", on "+f.NamesOf(elsewhere)+": the package that owns "+path))
	}
	return append(steps, preflight.ByHand.Step("keep the workers of "+f.NamesOf(elsewhere)+" from loading "+path+" (LD_LIBRARY_PATH, LD_PRELOAD), or "+text+", there"))
}

// wheelFolder is the folder of NCCL's wheels for the library, below a site
// directory.
const wheelFolder = "/nvidia/nccl/lib/"

func siteOf(path string) string {
	site, _, _ := strings.Cut(path, wheelFolder)
	return site
}

// pipCommand returns the command of the node's Python that installs packages.
// Debian's own Python refuses without the variable; an older pip ignores it.
func pipCommand(n *preflight.Facts) string {
	python := cmp.Or(n.Program.Python, "python3")
	command := term.Command(python) + " -m pip"
	if strings.HasPrefix(python, "/usr/bin/") {
		command = "PIP_BREAK_SYSTEM_PACKAGES=1 " + command
	}
	return command
}

// installWheel returns the lines that put a wheel of NCCL into a site directory
// and uninstall the others first, because the wheels of several CUDAs own the
// same file. The directory where pip installs by default is not where the
// workers look first if PYTHONPATH names the site directory.
func installWheel(n *preflight.Facts, site, name, version string) []string {
	wheel := term.Command(name + "==" + version)
	if isOutsidePip(n, site) {
		return []string{
			"rm -rf " + term.Command(site+"/nvidia/nccl") + " " + term.Command(site) + "/nvidia_nccl_cu*.dist-info",
			`d=$(mktemp -d) && ` + pipCommand(n) + ` install --no-deps --target="$d" ` + wheel + ` && cp -r "$d"/. ` + term.Command(site),
		}
	}
	var others []string
	for _, w := range n.Libraries.Wheels {
		if w.Site == site && w.Name != name {
			others = append(others, term.Command(w.Name))
		}
	}
	again := pipCommand(n) + " install --force-reinstall --no-deps " + wheel
	if others == nil {
		return []string{again}
	}
	return []string{pipCommand(n) + " uninstall -y " + strings.Join(others, " "), again}
}

// isOutsidePip reports whether pip installs elsewhere, because PYTHONPATH names
// the directory or another Python owns it.
func isOutsidePip(n *preflight.Facts, site string) bool {
	x := n.Libraries.NCCL
	return isInPythonPath(n, site) || x != nil && strings.Contains(x.Path, wheelFolder) && siteOf(x.Path) != site
}

// isInPythonPath reports whether PYTHONPATH names the directory.
func isInPythonPath(n *preflight.Facts, site string) bool {
	return slices.ContainsFunc(strings.Split(n.Env("PYTHONPATH"), ":"), func(dir string) bool {
		return dir != "" && strings.TrimRight(dir, "/") == strings.TrimRight(site, "/")
	})
}

// wheelOfNCCL returns the package that the node's NCCL is from, nil if it is
// from no package.
func wheelOfNCCL(n *preflight.Facts) *library.Wheel {
	x := loadedNCCL(n)
	if x == nil || !strings.Contains(x.Path, wheelFolder) {
		return nil
	}
	var same []*library.Wheel // wheels of its version: a link may hide the site
	for i := range n.Libraries.Wheels {
		w := &n.Libraries.Wheels[i]
		if w.Version != releaseOf(x) && w.Version != x.Version {
			continue
		}
		if strings.HasPrefix(x.Path, w.Site+"/") {
			return w
		}
		same = append(same, w)
	}
	if len(same) == 1 {
		return same[0]
	}
	return nil
}
