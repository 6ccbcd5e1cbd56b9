package ssh

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// host is the home of a user on a host, whose shell gets a command.
type host struct {
	*testing.T
	home string
}

// program writes a file that prints how it was called, in gorun's place.
func (h host) program(path, version string) string {
	h.Helper()
	text := "#!/bin/sh\nif [ \"$1\" = version ]; then echo gorun version " + version + "; else echo ran $0 \"$@\"; fi\n"
	path = filepath.Join(h.home, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		h.Fatal(err)
	}
	return text
}

// run gives the command to a shell and returns its output, with HOME for the home.
func (h host) run(shell, command, stdin string) (string, error) {
	cmd := exec.Command(shell, "-c", command)
	cmd.Env = []string{"HOME=" + h.home, "PATH=" + h.home + "/bin:/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return strings.ReplaceAll(strings.TrimSpace(string(out)+errs.String()), h.home, "HOME"), err
}

func TestScriptFindsGorun(t *testing.T) {
	for name, tt := range map[string]struct {
		have map[string]string // files and their versions
		copy bool
		path string
		want string
	}{
		"in PATH":                  {have: map[string]string{"bin/gorun": "v2"}, want: "ran HOME/bin/gorun ssh-node QUESTION"},
		"in go/bin":                {have: map[string]string{"go/bin/gorun": "v2"}, want: "ran HOME/go/bin/gorun ssh-node QUESTION"},
		"at the same place":        {have: map[string]string{"bin/gorun": "v1", "a b/gorun": "v1"}, path: "a b/gorun", want: "ran HOME/a b/gorun ssh-node QUESTION"},
		"an earlier copy":          {have: map[string]string{"bin/gorun": "v1", ".cache/gorun/v1-id/gorun": "v1"}, want: "ran HOME/.cache/gorun/v1-id/gorun ssh-node QUESTION"},
		"copy: the same version":   {have: map[string]string{"bin/gorun": "v1"}, copy: true, want: "ran HOME/bin/gorun ssh-node QUESTION"},
		"copy: an earlier copy":    {have: map[string]string{"bin/gorun": "v2", ".cache/gorun/v1-id/gorun": "v1"}, copy: true, want: "ran HOME/.cache/gorun/v1-id/gorun ssh-node QUESTION"},
		"copy: of another version": {have: map[string]string{"bin/gorun": "v2"}, copy: true, want: "sent"},
		"copy: none":               {copy: true, want: "sent"},
		"none":                     {want: "missing"},
	} {
		for _, shell := range []string{"sh", "bash", "csh", "tcsh", "fish", "zsh"} {
			if _, err := exec.LookPath(shell); err != nil {
				continue
			}
			h := host{t, t.TempDir()}
			sent := h.program("sent", "v1")
			for path, version := range tt.have {
				h.program(path, version)
			}
			p := Program{ID: "v1-id", Version: "v1", Copy: tt.copy, Size: int64(len(sent))}
			if tt.path != "" {
				p.Path = filepath.Join(h.home, tt.path)
			}
			got, err := h.run(shell, p.command(testToken, "QUESTION"), sent+"more")
			copied, readErr := os.ReadFile(filepath.Join(h.home, ".cache/gorun/v1-id/gorun"))
			switch tt.want {
			case "missing":
				if !strings.HasPrefix(got, testToken+" missing ") || err == nil || readErr == nil {
					t.Errorf("%s, %s: %s, %v", name, shell, got, err)
				}
			case "sent":
				if !strings.HasSuffix(got, "ran HOME/.cache/gorun/v1-id/gorun ssh-node QUESTION") || string(copied) != sent {
					t.Errorf("%s, %s: %s, %v; copied %v", name, shell, got, err, readErr)
				}
			default:
				if got != tt.want || err != nil {
					t.Errorf("%s, %s: %s, %v", name, shell, got, err)
				}
			}
		}
	}
}

// A copy that is cut off, or that does not run there, is not kept.
func TestScriptKeepsNoBrokenCopy(t *testing.T) {
	for name, sent := range map[string]string{"cut off": "#!/bin/sh\n", "does not run": "\x7fELF" + strings.Repeat("x", 96)} {
		h := host{t, t.TempDir()}
		got, err := h.run("sh", Program{ID: "id", Copy: true, Size: 100}.command(testToken, "QUESTION"), sent)
		left, _ := filepath.Glob(filepath.Join(h.home, ".cache/gorun/id/*"))
		if err == nil || len(left) > 0 {
			t.Errorf("%s: %s, %v; left %q", name, got, err, left)
		}
	}
}

func TestScriptIsPlain(t *testing.T) {
	if strings.ContainsAny(script, "'\\!\n") {
		t.Error("the script has a character that a login shell takes as special")
	}
	if got := (Program{ID: "id", Path: "/it's/gorun"}).command(testToken, "Q"); strings.Contains(got, "it") && strings.Contains(got, "it's") {
		t.Errorf("%s", got)
	}
}
