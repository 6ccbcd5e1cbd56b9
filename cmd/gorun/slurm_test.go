package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSlurmScript compares scripts with the files in testdata.
func TestSlurmScript(t *testing.T) {
	for name, line := range map[string]string{
		"plain":   "train.py",
		"gpus":    "--nodes 4 --gpus-per-node h100:8 --time 1-00:00:00 -p big -A me --sbatch=--reservation=r --max-restarts 2 train.py --lr 0.1",
		"requeue": "-N 2 -c 16 -J name --requeue -x A=1 -- train.py",
		"elastic": "-N 4 --nnodes 2:4 --requeue --requeue-exit-code 99 --sbatch=--signal=TERM@300 train.py",
	} {
		var out strings.Builder
		root := newRootCommand()
		root.SetOut(&out)
		if err := execute(root, append([]string{"slurm"}, strings.Fields(line)...)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := strings.ReplaceAll(out.String(), ownName()+" ", "gorun ")
		file := filepath.Join("testdata", "slurm-"+name+".sh")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

func TestSlurmScriptRefuses(t *testing.T) {
	for line, flag := range map[string]string{
		"--nnodes many train.py":                   "--nnodes",
		"--nodes few train.py":                     "--nodes",
		"--job-name=a#b train.py":                  "--job-name",
		"--partition= train.py":                    "--partition",
		"--sbatch reservation train.py":            "--sbatch",
		"--sbatch=--comment=\"x\" train.py":        "--sbatch",
		"--nodes 2":                                "required: PROGRAM",
		"--requeue --requeue-exit-code 1 train.py": "--requeue-exit-code",
	} {
		root := newRootCommand()
		root.SetOut(&strings.Builder{})
		err := execute(root, append([]string{"slurm"}, strings.Fields(line)...))
		if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
