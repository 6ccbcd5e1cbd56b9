package wrap

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

func TestCompare(t *testing.T) {
	sent := Sent{
		Env: []string{
			"PATH=/bin", "HOSTNAME=a", "LD_LIBRARY_PATH=/x", "HF_TOKEN=x", "MINE=1", "CUDA_HOME=/usr/local/cuda", "NCCL_VERSION=2.27",
			"NCCL_ALGO=Tree", "NCCL_SOCKET_IFNAME=eth0", "NCCL_ALGO=Ring", "CUDA_VISIBLE_DEVICES=0", "ROLE_NAME=default",
			"WORLD_SIZE=11", "RANK=7", "MASTER_ADDR=192.0.2.1", "OMP_NUM_THREADS=4", "TORCHELASTIC_ERROR_FILE=/tmp/x", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
		},
		FromGorun: []string{"WORLD_SIZE", "RANK", "MASTER_ADDR", "ROLE_NAME", "CUDA_DEVICE_ORDER", "OMP_NUM_THREADS", "TORCHELASTIC_ERROR_FILE"},
		Requested: []string{"MINE"},
	}
	for _, c := range []struct {
		line string
		got  string
		want preflight.WrapperLoss
	}{
		{
			line: "sudo python", got: "PATH=/usr/bin",
			want: preflight.WrapperLoss{Missing: []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MINE", "NCCL_ALGO", "NCCL_SOCKET_IFNAME", "CUDA_DEVICE_ORDER", "ROLE_NAME", "OMP_NUM_THREADS", "TORCHELASTIC_ERROR_FILE"}},
		},
		{
			line: "docker run image python",
			got:  "CUDA_DEVICE_ORDER=PCI_BUS_ID RANK=7 WORLD_SIZE=11 MASTER_ADDR=192.0.2.1 MINE=1 NCCL_ALGO=Tree NCCL_SOCKET_IFNAME=eth0 ROLE_NAME=default OMP_NUM_THREADS=1 LD_LIBRARY_PATH=/image",
			want: preflight.WrapperLoss{Changed: []string{"NCCL_ALGO", "OMP_NUM_THREADS"}},
		},
		{
			line: "docker run -e RANK=0 -e OMP_NUM_THREADS=1 -e NCCL_ALGO=Tree image python",
			got:  "CUDA_DEVICE_ORDER=PCI_BUS_ID RANK=0 WORLD_SIZE=11 MASTER_ADDR=192.0.2.1 MINE=1 NCCL_ALGO=Tree NCCL_SOCKET_IFNAME=eth0 ROLE_NAME=default OMP_NUM_THREADS=1",
			want: preflight.WrapperLoss{Forced: []string{"RANK"}},
		},
		{
			line: "sudo env -u NCCL_SOCKET_IFNAME python",
			got:  "CUDA_DEVICE_ORDER=PCI_BUS_ID RANK=7 WORLD_SIZE=11 MASTER_ADDR=192.0.2.1 MINE=1 NCCL_ALGO=Ring ROLE_NAME=default OMP_NUM_THREADS=4 TORCHELASTIC_ERROR_FILE=/tmp/x",
		},
		{
			line: "bash -lc NCCL_ALGO=Tree~exec~python",
			got:  "CUDA_DEVICE_ORDER=PCI_BUS_ID RANK=7 WORLD_SIZE=11 MASTER_ADDR=192.0.2.1 MINE=1 NCCL_ALGO=LL NCCL_SOCKET_IFNAME=eth0 ROLE_NAME=default OMP_NUM_THREADS=4 TORCHELASTIC_ERROR_FILE=/tmp/x",
		},
	} {
		p, err := Parse(words(c.line))
		if err != nil {
			t.Fatal(err)
		}
		got := p.compare(sent, parseOutput([]byte("Welcome to\r\nthis=host\n"+strings.ReplaceAll(c.got, " ", "\x00")+"\x00Bye=\n")))
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.line, got, c.want)
		}
	}
}

func TestFix(t *testing.T) {
	for _, c := range []struct {
		line string
		lost preflight.WrapperLoss
		want string
	}{
		{"docker run -e NCCL_ALGO image x", preflight.WrapperLoss{Missing: []string{"RANK", "NCCL_IB_HCA"}}, "\n  docker run -e RANK -e NCCL_IB_HCA ..."},
		{"sudo docker run -e RANK image x", preflight.WrapperLoss{Missing: []string{"RANK"}}, "\n  sudo --preserve-env=RANK ..."},
		{"sudo docker run image x", preflight.WrapperLoss{Missing: []string{"RANK"}}, "\n  docker run -e RANK ..."},
		{"podman run --env NCCL_* -e RANK image x", preflight.WrapperLoss{Missing: []string{"RANK", "NCCL_ALGO", "OMP_NUM_THREADS"}}, "\n  podman run -e OMP_NUM_THREADS ..."},
		{"sudo docker run -e CUDA_VISIBLE_DEVICES image x", preflight.WrapperLoss{Missing: []string{"CUDA_VISIBLE_DEVICES", "GORUN_DEVICE", "MINE"}}, "\n  sudo --preserve-env=CUDA_VISIBLE_DEVICES,GORUN_DEVICE,MINE ..."},
		{"docker run -e CUDA_VISIBLE_DEVICES=0 image x", preflight.WrapperLoss{Missing: []string{"CUDA_VISIBLE_DEVICES", "MINE"}}, "\n  docker run -e MINE ..."},
		{"sudo x", preflight.WrapperLoss{Missing: []string{"RANK"}, Changed: []string{"NCCL_ALGO"}}, "\n  sudo --preserve-env=RANK,NCCL_ALGO ..."},
		{"ssh host x", preflight.WrapperLoss{Missing: []string{"RANK", "NCCL_ALGO"}}, "\n  ssh -o SendEnv='RANK NCCL_ALGO' ..."},
		{"sudo --preserve-env=RANK x", preflight.WrapperLoss{Missing: []string{"RANK"}}, "sudoers must allow it"},
		{"sudo -E docker run image x", preflight.WrapperLoss{Missing: []string{"RANK"}}, "\n  docker run -e RANK ..."},
		{"srun --export=NONE x", preflight.WrapperLoss{Missing: []string{"RANK"}}, "\n  srun --export=ALL ..."},
		{"env -i x", preflight.WrapperLoss{Missing: []string{"RANK"}}, "leave out env's -i"},
		{"bash -lc x", preflight.WrapperLoss{Changed: []string{"NCCL_ALGO"}}, "/etc/profile.d/nccl.sh sets or unsets NCCL_ALGO: take it out there, or start bash without -l"},
		{"docker run image bash -lc x", preflight.WrapperLoss{Changed: []string{"NCCL_ALGO"}}, "start bash without -l"},
		{"docker run -e RANK=0 image x", preflight.WrapperLoss{Forced: []string{"RANK"}}, "do not give RANK a value of your own"},
	} {
		p, err := Parse(words(c.line))
		if err != nil {
			t.Fatal(err)
		}
		got := p.fix(c.lost, func(name string) string { return "/etc/profile.d/nccl.sh" })
		if !strings.Contains("\n"+got, c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
		if strings.Contains(c.line, "image bash") && strings.Contains(got, "nccl.sh") {
			t.Errorf("%s: a file of this machine is blamed for what happens in an image", c.line)
		}
	}
}

// TestForced checks that no probe is needed to see the values that a command line
// itself gives to a rank.
func TestForced(t *testing.T) {
	env := []string{"RANK=7", "LOCAL_RANK=5", "WORLD_SIZE=11", "MASTER_ADDR=192.0.2.1", "MASTER_PORT=9"}
	for line, want := range map[string][]string{
		"env RANK=3 x":                            {"RANK"},
		"env -u MASTER_ADDR nice env RANK=3 x":    {"MASTER_ADDR", "RANK"},
		"env LOCAL_RANK=5 MY_RANK=1 NCCL_ALGO=LL": nil, // as the worker has it
		"env A=1 x":                              nil,
		"bash -c RANK=$SLURM_PROCID~exec~x":      nil,
		"docker run -e WORLD_SIZE=1 -e RANK i x": {"WORLD_SIZE"},
		"sudo RANK=0 x":                          {"RANK"},
		"nice x RANK=3":                          nil,
	} {
		p, err := Parse(words(line + " x"))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Forced(env); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestStartFile(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"etc/profile":            "# RANK=1\nif [ -z x ]; then PATH=/bin; fi\nMY_RANK=1\n",
		"etc/profile.d/nccl.sh":  "export A=1 NCCL_ALGO=Ring; :\n",
		"home/me/.bash_profile":  "unset WORLD_SIZE\necho LOCAL_RANK\n",
		"home/me/.bashrc/is-dir": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"NCCL_ALGO": "/etc/profile.d/nccl.sh", "WORLD_SIZE": "/home/me/.bash_profile", "RANK": "", "LOCAL_RANK": "", "A": "/etc/profile.d/nccl.sh",
	} {
		if got := startFile(root, "/home/me", name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestWithheld checks what does not arrive according to the options: for certain,
// or assumed if a configuration may pass on more.
func TestWithheld(t *testing.T) {
	sent := Sent{Env: []string{"RANK=7", "WORLD_SIZE=11", "MINE=x"}, FromGorun: []string{"RANK", "WORLD_SIZE"}, Requested: []string{"MINE"}}
	for line, want := range map[string]struct {
		names   string
		assumed bool
	}{
		"docker run image prog":                                       {"RANK WORLD_SIZE MINE", false},
		"docker run -e RANK image prog":                               {"WORLD_SIZE MINE", false},
		"docker run -eRANK --env=WORLD_SIZE --env MINE image prog":    {},
		"docker run -e RANK=7 -e WORLD_SIZE=11 -e MINE=other im prog": {},
		"docker run -e RANK=0 -e WORLD_SIZE -e MINE image prog":       {"RANK", false},
		"docker run --env-file list image prog":                       {},
		"podman run image prog":                                       {"RANK WORLD_SIZE MINE", true},
		"podman run --env *RANK -e WORLD_* image prog":                {"MINE", true},
		"docker exec container prog":                                  {"RANK WORLD_SIZE MINE", true},
		"bash -lc prog":                                               {},
		"sudo prog -E":                                                {"RANK WORLD_SIZE MINE", true},
		"sudo -nE prog":                                               {},
		"sudo --preserve-env=RANK,MINE WORLD_SIZE=11 prog":            {},
		"sudo --preserve-env=RANK prog":                               {"WORLD_SIZE MINE", true},
		"sudo -E docker run -e RANK image prog":                       {"WORLD_SIZE MINE", false},
		"ssh host prog":                                               {"RANK WORLD_SIZE MINE", true},
		"ssh -o SendEnv=RANK~WORLD_* host prog":                       {"MINE", true},
		"srun prog":                                                   {},
		"srun --export=ALL,A=1 prog":                                  {},
		"srun --export=RANK,A=1 prog":                                 {"WORLD_SIZE MINE", true},
		"env -i RANK=7 prog":                                          {"WORLD_SIZE MINE", false},
		"env A=1 prog":                                                {},
	} {
		p, err := Parse(words(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		lost := p.withheld(sent)
		if got := strings.Join(names(lost), " "); got != want.names || got != "" && lost.Assumed != want.assumed {
			t.Errorf("%s: %q, assumed %v; want %+v", line, got, lost.Assumed, want)
		}
	}
}

func TestReason(t *testing.T) {
	for text, want := range map[string]string{
		"docker: Error response from daemon: exec: \"env\": not found\n\nRun 'docker run --help' for more information\n": ` (docker: Error response from daemon: exec: "env": not found)`,
		"docker: no.\nSee 'docker run --help'.\n": " (docker: no.)",
		"a\nb\n":       " (b)",
		"try --help\n": " (try --help)",
		"\n\n":         "",
		"HF_TOKEN=x\x00A=secret\x00docker: no.\n": " (docker: no.)",
	} {
		if got := reason([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
