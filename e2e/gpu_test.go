package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

const (
	driver = "550.54.15"
	libDir = "/usr/lib/x86_64-linux-gnu"
	venv   = "/opt/train"          // a virtual environment
	script = "/opt/train/train.py" // in it
	nccl   = "2.27.5"              // NCCL's version on a machine, by default
	torch  = "2.6.0+cu124"
)

// gpus gives the machine a driver and n GPUs. The driver's library and its files in /proc
// answer; the device files are like /dev/null.
func (m *machine) gpus(n int) {
	m.Helper()
	if !asksNVML() {
		m.Skip("the gorun under test was built without cgo, and cannot ask NVML for GPUs")
	}
	need(m, runtime.GOARCH == "amd64", "amd64, for the libraries of a machine with GPUs")
	m.device("/dev/nvidiactl")
	m.device("/dev/nvidia-uvm")
	for i := range n {
		m.device(fmt.Sprintf("/dev/nvidia%d", i))
	}
	m.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "+driver+"  Tue Mar  5 22:23:56 UTC 2024\n")
	for i := range n {
		m.write(fmt.Sprintf("proc/driver/nvidia/gpus/0000:%02x:00.0/information", 0x1a+i),
			fmt.Sprintf("Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-%s-%04d\nDevice Minor: \t %d\nGPU Excluded:\t No\n", m.Host, i, i))
		m.write(fmt.Sprintf("proc/driver/nvidia/capabilities/gpu%d/mig/none", i), "")
	}
	m.Binds["/proc/driver"] = "proc/driver"
	m.nvml(fmt.Sprintf("gpus %d host %s", n, m.Host))
	m.write(libDir+"/libnvidia-ml.so."+driver, string(fakeNVML(m)))
	m.link(libDir+"/libnvidia-ml.so.1", "libnvidia-ml.so."+driver)
	m.library(libDir+"/libcuda.so."+driver, ldsotest.Library{Soname: "libcuda.so.1"})
	m.link(libDir+"/libcuda.so.1", "libcuda.so."+driver)
}

// nvml sets the answers of the driver's library; see testdata/nvml.c.
func (m *machine) nvml(text string) { m.write("etc/fake-nvml", text+"\n") }

// torch installs PyTorch in the virtual environment with an NCCL wheel, and a
// script that prints a line when it runs. The interpreter is the real one.
func (m *machine) torch(ncclVersion string) {
	m.Helper()
	exe, version := interpreter(m)
	m.write(venv+"/pyvenv.cfg", "home = "+filepath.Dir(exe)+"\nversion = "+version+".0\n")
	m.link(venv+"/bin/python", exe)
	site := m.site()
	lib := site + "/torch/lib"
	rpath := "$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"
	m.write(site+"/torch/version.py", "__version__ = '"+torch+"'\ncuda: Optional[str] = '12.4'\n")
	m.library(lib+"/libtorch_cuda.so", ldsotest.Library{Needed: []string{"libnccl.so.2"}, Rpath: rpath})
	m.library(lib+"/libtorch_python.so", ldsotest.Library{Needed: []string{"libtorch_cuda.so"}, Rpath: rpath})
	m.wheel(ncclVersion)
	m.write(script, `import os
print("up", os.environ["RANK"], *["%s=%s" % (n, os.environ.get(n)) for n in
      ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")])
`)
	m.env = append(m.env, "VIRTUAL_ENV="+venv, "PYTHON_EXEC=", "HOME=/nonexistent", "PYTHONPATH=", "LD_LIBRARY_PATH=")
}

// site returns the folder of the virtual environment's packages.
func (m *machine) site() string {
	_, version := interpreter(m)
	return venv + "/lib/python" + version + "/site-packages"
}

// wheel installs NCCL's wheel in the virtual environment.
func (m *machine) wheel(version string) {
	m.Helper()
	m.library(m.site()+"/nvidia/nccl/lib/libnccl.so.2", ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL(version, "12.4")})
	m.write(m.site()+"/nvidia_nccl_cu12-"+version+".dist-info/METADATA", "Name: nvidia-nccl-cu12\nVersion: "+version+"\n")
}

// systemNCCL installs the distribution's package.
func (m *machine) systemNCCL(version string) {
	m.Helper()
	m.library(libDir+"/libnccl.so."+version, ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL(version, "12.0")})
	m.link(libDir+"/libnccl.so.2", "libnccl.so."+version)
}

// healthy gives every machine of the fleet two GPUs and the same torch.
func (f *fleet) healthy() *fleet {
	f.Helper()
	for _, m := range f.machines {
		m.gpus(2)
		m.torch(nccl)
		m.noVerbs()
	}
	return f
}

// noVerbs takes libibverbs from the machine.
func (m *machine) noVerbs() {
	m.Helper()
	for _, dir := range []string{libDir, "/usr/lib", "/usr/lib64"} {
		for _, name := range []string{"libibverbs.so", "libibverbs.so.1"} {
			m.hide(dir + "/" + name)
		}
	}
}

// interpreter returns the real Python that virtual environments link to, and its
// version.
func interpreter(t testing.TB) (exe, version string) {
	t.Helper()
	words, err := realPython()
	need(t, err == nil && len(words) == 2, "python3")
	return words[0], words[1]
}

var realPython = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command("python3", "-c", "import os, sys; print(os.path.realpath(sys.executable), '%d.%d' % sys.version_info[:2])").Output()
	return strings.Fields(string(out)), err
})

// fakeNVML returns the library built from testdata/nvml.c.
func fakeNVML(t testing.TB) []byte {
	t.Helper()
	b, err := compiledNVML()
	need(t, err == nil, fmt.Sprintf("gcc, for a driver's library: %v", err))
	return b
}

var compiledNVML = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "gorun-e2e-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lib := filepath.Join(dir, "libnvidia-ml.so.1")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", lib, "testdata/nvml.c").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(lib)
})

// asksNVML reports whether the gorun under test can ask NVML.
var asksNVML = sync.OnceValue(func() bool {
	out, _ := exec.Command(os.Getenv(envGorun), "probe-gpu", "nvml").Output()
	return !strings.Contains(string(out), "this build has no NVML")
})
