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

func TestWrap(t *testing.T) {
	const (
		ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10 "
		run = "run --rm --pull=never --name=N --entrypoint="
	)
	for _, c := range []struct {
		line    string
		name    string // name of the wrappers that may lose variables; "" with keeps: none does
		program string // "?": unknown
		probe   string // with env -0 as the program
	}{
		// No wrappers.
		{line: "python train.py --lr 1"},
		{line: "./docker-entry.sh run image"},
		{line: "bash train.sh -c x"},
		{line: "bash -eu train.sh"},
		{line: "nice --strange python train.py"},

		// Wrappers that pass everything on.
		{line: "nice -n 5 python x", program: "python x", probe: "nice -n 5 env -0"},
		{line: "nice -5 python x", program: "python x", probe: "nice -5 env -0"},
		{line: "timeout -k 5 --signal=INT 1h python x -s 1", program: "python x -s 1", probe: "timeout -k 5 --signal=INT 1h env -0"},
		{line: "taskset -c 0-3 python x", program: "python x", probe: "taskset -c 0-3 env -0"},
		{line: "numactl --cpunodebind=0 -m 0 -l -- python x", program: "python x", probe: "numactl --cpunodebind=0 -m 0 -l env -0"},
		{line: "ip netns exec blue python x", program: "python x", probe: "ip netns exec blue env -0"},
		{line: "chroot --userspec=me /srv python x", program: "python x", probe: "chroot --userspec=me /srv env -0"},
		{line: "unshare -rn --mount-proc python x", program: "python x", probe: "unshare -r -n --mount-proc env -0"},
		{line: "nsenter -t 17 -n -m/proc/3/ns/mnt python x", program: "python x", probe: "nsenter -t 17 -n -m/proc/3/ns/mnt env -0"},
		{line: "env A=1 -u B C=2 python x", program: "python x", probe: "env -u B A=1 C=2 env -0"},
		{line: "bash -c python~x", program: "python x", probe: "bash -c env~-0"},
		{line: "sh -euc cd~/x&&python~y", program: "?", probe: "sh -eu -c env~-0"},
		{line: "bash -o pipefail -ec exec~python~x", program: "python x", probe: "bash -o pipefail -e -c env~-0"},
		{line: "su me -c python~x", program: "python x", probe: "su me -c env~-0"},

		// Wrappers that lose variables.
		{line: "env -i A=1 python x", name: "env -i", program: "python x", probe: "env -i A=1 env -0"},
		{line: "env - python x", name: "env -i", program: "python x", probe: "env -i env -0"},
		{line: "setpriv --reuid 7 --clear-groups --reset-env python x", name: "setpriv", program: "python x", probe: "setpriv --reuid 7 --clear-groups --reset-env env -0"},
		{line: "nsenter -e -t 3 python x", name: "nsenter", program: "python x", probe: "nsenter -e -t 3 env -0"},
		{line: "/bin/bash -lc python~x", name: "bash -l", program: "python x", probe: "/bin/bash -l -c env~-0"},
		{line: "bash --login -o pipefail -c a|b", name: "bash -l", program: "?", probe: "bash --login -o pipefail -c env~-0"},
		{line: "bash -l train.sh 1", name: "bash -l", program: "train.sh 1", probe: "bash -l -c env~-0"},
		{line: "sudo python x", name: "sudo", program: "python x", probe: "sudo -n env -0"},
		{line: "sudo -HEu me -g us A=1 -- python x", name: "sudo", program: "python x", probe: "sudo -n -H -E -u me -g us A=1 env -0"},
		{line: "sudo --preserve-env=A,B --user me python x", name: "sudo", program: "python x", probe: "sudo -n --preserve-env=A,B --user me env -0"},
		{line: "su - me -c python~x", name: "su", program: "python x", probe: "su - me -c env~-0"},
		{line: "runuser -l me -c python~x", name: "runuser", program: "python x", probe: "runuser -l me -c env~-0"},
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
		{line: "nerdctl -n k8s.io run image python", name: "nerdctl run", program: "python", probe: "nerdctl -n k8s.io " + run + "env image -0"},
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
		{line: "apptainer -s exec --nv -eB /a:/b my.sif python x", name: "apptainer exec", program: "python x", probe: "apptainer -s exec --nv -e -B /a:/b my.sif env -0"},
		{line: "singularity run --cleanenv my.sif python x", name: "singularity run", program: "python x", probe: "singularity exec --cleanenv my.sif env -0"},
		{line: "conda run -n torch --no-capture-output python x", name: "conda run", program: "python x", probe: "conda run -n torch --no-capture-output env -0"},
		{line: "mpirun -mca btl tcp,self -np 1 -x A --allow-run-as-root python x", name: "mpirun", program: "python x", probe: "mpirun -mca btl tcp,self -np 1 -x A --allow-run-as-root env -0"},
	} {
		p, err := Wrap(words(c.line))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		program := strings.Join(p.program, " ")
		if p.program == nil && c.program == "?" {
			program = "?"
		}
		if p.Name() != c.name || p.Loses() != (c.name != "") || program != c.program {
			t.Errorf("%s: %q before %q, want %q before %q", c.line, p.Name(), program, c.name, c.program)
		}
		if c.probe == "" {
			if len(p.layers) > 0 {
				t.Errorf("%s: taken for a wrapper", c.line)
			}
			continue
		}
		want := words(c.probe)
		for i := range want {
			want[i] = strings.ReplaceAll(strings.ReplaceAll(want[i], "--name=N", "--name=gorun-1"), "'", "")
		}
		got := p.Command("gorun-1", "env", "-0")
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], "'", "") // removes the quotes for the inner shell
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n probe %q\n want  %q", c.line, got, want)
		}
	}
}

// TestDoubt checks that a command line that is not understood for certain is never
// run.
func TestDoubt(t *testing.T) {
	for line, why := range map[string]string{
		"docker run --new-option x image python":   "--new-option is not known",
		"docker compose run web python":            "not understood",
		"docker run -e":                            "-e has no value",
		"docker run":                               "names no program",
		"sudo -b python":                           "with -b",
		"sudo -l":                                  "with -l",
		"ssh host":                                 "names no program",
		"ssh -N host x":                            "with -N",
		"kubectl exec pod -- python":               "not understood",
		"nice --strange docker run image python":   "--strange is not known",
		"srun -n1 a : -n2 b":                       "not understood",
		"srun --multi-prog conf":                   "with --multi-prog",
		"mpirun -np 4 python x":                    "only with -n 1",
		"su me script":                             "not understood",
		"apptainer exec docker://alpine python":    "fetched",
		"conda activate x":                         "not understood",
		"bash -lc cd~/x~&&~docker~run~image~train": "its text starts docker",
		"env -S docker~run~image":                  "",
		"sudo env -S python~x":                     "with -S",
		strings.Repeat("sudo ", 9) + "python":      "more than 8 programs",
	} {
		p, err := Wrap(words(line))
		switch {
		case why == "" && (err != nil || p.Loses()):
			t.Errorf("%s: %v, %s", line, err, p.Name())
		case why != "" && (err == nil || !strings.Contains(err.Error(), why)):
			t.Errorf("%s: %v, want %q", line, err, why)
		}
	}
}

// FuzzWrap checks that only wrappers are run, whatever the words are, and that the
// program itself is never part of a probe.
func FuzzWrap(f *testing.F) {
	for _, s := range []string{"sudo -u me docker run -e A image bash -lc payload~x", "env -i A=1 payload", "ssh -p 22 h payload", "bash -o", "srun -n", "timeout 5 su - x -c 'payload'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p, err := Wrap(words(line))
		if err != nil || len(p.layers) == 0 {
			return
		}
		_ = p.Command("n", "env", "-0")
		_ = p.undo("n")
		_ = p.fix(preflight.Lost{Missing: essential()}, func(string) string { return "" })
	})
}
