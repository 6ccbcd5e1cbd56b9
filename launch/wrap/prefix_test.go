package wrap

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// words splits at blanks; ~ stands for a blank within a word, ^ for an empty word.
func words(s string) []string {
	list := strings.Fields(s)
	for i, w := range list {
		list[i] = strings.NewReplacer("~", " ", "^", "").Replace(w)
	}
	return list
}

func TestParse(t *testing.T) {
	const (
		ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10 "
		run = "run --rm --pull=never --name=N --entrypoint="
	)
	for _, c := range []struct {
		line    string
		name    string // name of the wrappers that may lose variables; "": none does
		program string // "?": unknown
		probe   string // with env -0 as the program
	}{
		// No wrappers, and programs that count as transparent.
		{line: "python train.py --lr 1"},
		{line: "./docker-entry.sh run image"},
		{line: "/usr/bin/dockerize run -i"},
		{line: "./ssh-agent run -i"},
		{line: "bash train.sh -c x"},
		{line: "bash -eu train.sh"},
		{line: "nice"},
		{line: "apptainer exec my.sif python x"},
		{line: "kubectl exec pod -- python"},
		{line: "su - me -c python~x"},
		{line: "mpirun -n 1 python x"},

		// Programs that pass everything on.
		{line: "nice -n 5 python x", program: "python x", probe: "nice -n 5 env -0"},
		{line: "nice -5 python x", program: "python x", probe: "nice -5 env -0"},
		{line: "timeout -k 5 --signal=INT 1h python x -s 1", program: "python x -s 1", probe: "timeout -k 5 --signal=INT 1h env -0"},
		{line: "taskset -c 0-3 python x", program: "python x", probe: "taskset -c 0-3 env -0"},
		{line: "numactl --cpunodebind=0 -m 0 -l -- python x", program: "python x", probe: "numactl --cpunodebind=0 -m 0 -l env -0"},
		{line: "env -u B A=1 C=2 python x", program: "python x", probe: "env -u B A=1 C=2 env -0"},
		{line: "bash -c python~x", program: "python x", probe: "bash -c env~-0"},
		{line: "sh -euc cd~/x&&python~y", program: "?", probe: "sh -e -u -c env~-0"},
		{line: "bash -o pipefail -ec exec~python~x", program: "python x", probe: "bash -o pipefail -e -c env~-0"},

		// Wrappers that lose variables.
		{line: "env -i A=1 python x", name: "env -i", program: "python x", probe: "env -i A=1 env -0"},
		{line: "env - python x", name: "env -i", program: "python x", probe: "env -i env -0"},
		{line: "/bin/bash -lc python~x", name: "bash -l", program: "python x", probe: "/bin/bash -l -c env~-0"},
		{line: "bash --login -o pipefail -c a|b", name: "bash -l", program: "?", probe: "bash --login -o pipefail -c env~-0"},
		{line: "bash -l train.sh 1", name: "bash -l", program: "train.sh 1", probe: "bash -l -c env~-0"},
		{line: "sudo python x", name: "sudo", program: "python x", probe: "sudo -n env -0"},
		{line: "sudo -HEu me -g us A=1 -- python x", name: "sudo", program: "python x", probe: "sudo -n -H -E -u me -g us A=1 env -0"},
		{line: "sudo --preserve-env=A,B --user me python x", name: "sudo", program: "python x", probe: "sudo -n --preserve-env=A,B --user me env -0"},
		{line: "docker run image python x", name: "docker run", program: "python x", probe: "docker " + run + "env image -0"},
		{line: "docker run image", name: "docker run", probe: "docker " + run + "env image -0"},
		{
			line: "docker --context far run -itd --name job -p 80:80 -e A -eB=1 --gpus all --restart=always --shm-size 8g -v /a:/b image python x",
			name: "docker run", program: "python x",
			probe: "docker --context far " + run + "env -e A -eB=1 --gpus all --shm-size 8g -v /a:/b image -0",
		},
		{line: "docker run --rm --entrypoint bash image -lc python~x", name: "docker run bash -l", program: "python x", probe: "docker " + run + "bash image -l -c env~-0"},
		{line: "docker run --entrypoint ^ image python", name: "docker run", program: "python", probe: "docker " + run + "env image -0"},
		{line: "podman container run --replace --name=a --env NCCL_* image python", name: "podman run", program: "python", probe: "podman " + run + "env --env NCCL_* image -0"},
		{line: "docker exec -it -w /x -e A box python x", name: "docker exec", program: "python x", probe: "docker exec -w /x -e A box env -0"},
		{
			line: "sudo docker run -e A image bash -lc python~x", name: "sudo docker run bash -l", program: "python x",
			probe: "sudo -n docker " + run + "bash -e A image -l -c env~-0",
		},
		{line: "timeout 9 docker run image python", name: "docker run", program: "python", probe: "timeout 9 docker " + run + "env image -0"},
		{line: "ssh -tp 22 me@host python x", name: "ssh", program: "python x", probe: ssh + "-p 22 -- me@host env~-0"},
		{line: "ssh host -i key -L 1:a:1 cd~/x~&&~python~x", name: "ssh", program: "?", probe: ssh + "-i key -- host env~-0"},
		{line: "ssh host docker run image python x", name: "ssh docker run", program: "python x", probe: ssh + "-- host docker~" + strings.ReplaceAll(run, " ", "~") + "env~image~-0"},
		{line: "srun -n4 -N 2 --export=NONE -o out -l python x", name: "srun", program: "python x", probe: "srun --export=NONE --ntasks=1 --nodes=1 env -0"},

		// An option that is not known counts as a flag, so that the probe never names the program.
		{line: "sudo --new-option x python", name: "sudo", program: "x python", probe: "sudo -n --new-option env -0"},
		{line: "docker run --new-option x image python", name: "docker run", program: "image python", probe: "docker " + run + "env --new-option x -0"},
	} {
		p, err := Parse(words(c.line))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if c.probe == "" {
			if len(p.layers) > 0 {
				t.Errorf("%s: taken for a wrapper", c.line)
			}
			continue
		}
		program := strings.Join(p.program, " ")
		if p.program == nil && c.program == "?" {
			program = "?"
		}
		if p.Loses() != (c.name != "") || p.Loses() && p.Name() != c.name || program != c.program {
			t.Errorf("%s: %q before %q, want %q before %q", c.line, p.Name(), program, c.name, c.program)
		}
		want := words(c.probe)
		for i := range want {
			want[i] = strings.ReplaceAll(strings.ReplaceAll(want[i], "--name=N", "--name=gorun-1"), "'", "")
		}
		got := p.command(len(p.layers), "gorun-1", []string{"env", "-0"})
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], "'", "") // removes the quotes for the inner shell
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n probe %q\n want  %q", c.line, got, want)
		}
	}
}

// TestParseErrors checks that no probe runs where it could not take the program's
// place.
func TestParseErrors(t *testing.T) {
	for line, want := range map[string]string{
		"docker compose run web python": "not understood",
		"docker run -e":                 "-e has no value",
		"docker run":                    "names no program",
		"docker exec -l python":         "with -l",
		"sudo -b python":                "with -b",
		"sudo -l":                       "with -l",
		"ssh host":                      "names no program",
		"ssh -N host x":                 "with -N",
		"srun -n1 a : -n2 b":            "not understood",
		"srun --multi-prog conf":        "with --multi-prog",
		"bash -lc cd~/x~&&~docker~run~image~train": "its text starts docker",
		"env -S docker~run~image":                  "",
		"sudo env -S python~x":                     "with -S",
		strings.Repeat("sudo ", 9) + "python":      "more than 8 programs",
	} {
		p, err := Parse(words(line))
		switch {
		case want == "" && (err != nil || p.Loses()):
			t.Errorf("%s: %v, %s", line, err, p.Name())
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// FuzzParse checks that Parse and all that builds on it take any words.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"sudo -u me docker run -e A image bash -lc payload~x", "env -i A=1 payload", "ssh -p 22 h payload", "bash -o", "srun -n", "timeout 5 su - x -c 'payload'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p, err := Parse(words(line))
		if err != nil || len(p.layers) == 0 {
			return
		}
		_ = p.command(len(p.layers), "n", []string{"env", "-0"})
		_ = p.cleanup("n")
		_ = p.withheld(Sent{Env: []string{"RANK=1"}, FromGorun: []string{"RANK"}})
		_ = p.fix(preflight.WrapperLoss{Missing: preflight.EssentialVariables()}, func(string) string { return "" })
	})
}
