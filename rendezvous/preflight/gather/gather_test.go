package gather

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/ldso/ldsotest"
)

func TestThisMachine(t *testing.T) {
	script := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(script, []byte("print(1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := Facts(t.Context(), Options{
		Node: preflight.Node{ID: "id1", RunID: "none"}, Env: []string{"NCCL_DEBUG=INFO", "PATH=" + os.Getenv("PATH")},
		Program: preflight.Program{Title: "train.py", Path: "/usr/bin/python3", Python: "/usr/bin/python3", Script: script, Dir: "/"},
	})
	name, _ := os.Hostname()
	if f.Format != preflight.Format || f.Node.ID != "id1" || f.Host.Hostname != name || len(f.Network.Interfaces) == 0 {
		t.Errorf("the node is missing: %+v", f)
	}
	// The hash is the output of: printf 'print(1)\n' | sha256sum
	if want := "cc42155088fca5730758db72b2a5bca33112a941dfaa2d43098ec422ce4ea213"; f.Program.Hash != want {
		t.Errorf("hash %s, want %s", f.Program.Hash, want)
	}
	if len(f.Settings) == 0 {
		t.Error("NCCL_DEBUG is missing")
	}
	if f.GPU.Driver || len(f.Host.DevNodes) > 0 || f.RDMA.Verbs.Path != "" {
		t.Error("GPUs were looked for although there is no driver")
	}
	if b, err := preflight.Encode(f); err != nil {
		t.Error(err)
	} else if _, err := preflight.Decode(b); err != nil {
		t.Errorf("other nodes cannot read the facts: %v", err)
	}
}

// TestArgumentsWithoutCredentials checks that no credential of the command line
// is in the facts, which are sent and stored.
func TestArgumentsWithoutCredentials(t *testing.T) {
	given := []string{"-e", "HF_TOKEN=hush", "train", "--api-key", "hush", "--lr", "3"}
	f := Facts(t.Context(), Options{Program: preflight.Program{Title: "docker", Path: "/bin/true", Args: given, Dir: "/"}})
	if want := "-e HF_TOKEN=(hidden) train --api-key (hidden) --lr 3"; strings.Join(f.Program.Args, " ") != want {
		t.Errorf("%q, want %q", f.Program.Args, want)
	}
	if given[1] != "HF_TOKEN=hush" {
		t.Error("the program's own arguments have changed")
	}
}

// TestBrief checks that facts which are not read are unknown, never zero.
func TestBrief(t *testing.T) {
	f := Facts(t.Context(), Options{Program: preflight.Program{Path: "/bin/true", Dir: "/"}})
	if f.Host.Hostname == "" || f.Host.BootID == "" || len(f.Network.Addresses) == 0 {
		t.Errorf("the identity of the node is missing: %+v", f.Host)
	}
	if l := f.Host.Limits; l.NoFileHard != host.Unknown || l.MemLock != host.Unknown || f.Host.Sysctl.SomaxConn != host.Unknown {
		t.Errorf("limits %+v", l)
	}
}

// TestWorkerWithoutGPU checks that the libraries of an ELF worker are known on
// a node without a GPU, too.
func TestWorkerWithoutGPU(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(dir, "libnccl.so.2")
	worker := filepath.Join(dir, "worker")
	ldsotest.Write(t, lib, ldsotest.Library{Soname: "libnccl.so.2", Text: ldsotest.NCCL("2.27.5", "12.8")})
	ldsotest.Write(t, worker, ldsotest.Library{Program: true, Needed: []string{"libnccl.so.2"}, Rpath: "$ORIGIN"})
	f := Facts(t.Context(), Options{Run: ldsotest.Run, Program: preflight.Program{Path: worker, Dir: dir}})
	if n := f.Libraries.NCCL; n == nil || n.Path != lib || n.Code != 22705 {
		t.Errorf("NCCL %+v", n)
	}
	f = Facts(t.Context(), Options{EveryFact: true, Program: preflight.Program{Path: worker, Dir: dir}})
	if f.Host.Limits.NoFileHard == host.Unknown {
		t.Error("gorun check leaves limits out")
	}
}

// TestSourceThatHangs checks that a source which hangs costs its own facts and
// its own time, not those of other sources.
func TestSourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		begin := time.Now()
		f := Facts(t.Context(), Options{
			GPU: func(context.Context) (preflight.GPU, []string) {
				<-release
				return preflight.GPU{Driver: true}, nil
			},
		})
		if took := time.Since(begin); took < gpuTime || took > gpuTime+time.Second {
			t.Errorf("it took %v, want %v", took, gpuTime)
		}
		if f.GPU.Driver || f.Host.Hostname == "" {
			t.Errorf("GPU %+v, host %q", f.GPU, f.Host.Hostname)
		}
		for _, u := range f.Unknown {
			if u.Source == "gpu" && strings.Contains(u.Why, "nothing came within") {
				return
			}
		}
		t.Errorf("the GPUs are not named as unknown: %v", f.Unknown)
	})
}

// TestUnknown checks that a fact which a source could not learn is listed with
// the source's name.
func TestUnknown(t *testing.T) {
	f := Facts(t.Context(), Options{GPU: func(context.Context) (preflight.GPU, []string) {
		return preflight.GPU{Driver: true}, []string{"no NVML here"}
	}})
	for _, u := range f.Unknown {
		if u == (preflight.Unknown{Source: "gpu", Why: "no NVML here"}) {
			return
		}
	}
	t.Errorf("unknown: %v", f.Unknown)
}
