package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
)

// torchSession is a command line of torchrun in the head of a program, and what its
// workers print under torchrun 1.13 with 2 ranks, sorted.
type torchSession struct {
	line, want string
	code       int
}

// torchSessions reads the sessions of a program. A program for later releases has none
// with output.
func torchSessions(t *testing.T, file string) (all []torchSession) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "# ends: 1") {
			code = 1
		} else if command, found := strings.CutPrefix(line, "# $ "); found {
			all = append(all, torchSession{line: strings.TrimSpace(command), code: code})
		} else if out, found := strings.CutPrefix(line, "# > "); found {
			all[len(all)-1].want += out
		}
	}
	return all
}

// TestTorchPrograms checks that real programs print under gorun what they print under
// torchrun, which compat/gpu.sh compares on machines with newer releases and GPUs.
func TestTorchPrograms(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	files, err := filepath.Glob("compat/programs/*.py")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, file := range files {
		for i, s := range torchSessions(t, file) {
			if s.want == "" {
				continue
			}
			tested++
			t.Run(fmt.Sprint(strings.TrimSuffix(filepath.Base(file), ".py"), i), func(t *testing.T) {
				t.Parallel()
				j := newJob(t)
				j.wd = filepath.Dir(file)
				j.env = []string{
					"PYTHON_EXEC=" + py, "PYTHONDONTWRITEBYTECODE=1", "GLOO_SOCKET_IFNAME=lo",
					"N=2", fmt.Sprintf("PORT=%d", porttest.Free(t, "127.0.0.1")),
				}
				cmd := j.command()
				cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", `torchrun() { "$` + envGorun + `" "$@"; }; eval "$0"`, s.line}
				a := j.launch("a", cmd)
				j.wantExit(8*longWait, s.code, a)
				if got := strings.ReplaceAll(sortedLines(a.out.String()), " \n", "\n"); got != s.want {
					t.Errorf("%s\n%s, want\n%s", s.line, got, s.want)
				}
			})
		}
	}
	if tested < 10 {
		t.Errorf("%d sessions were tested", tested)
	}
}
