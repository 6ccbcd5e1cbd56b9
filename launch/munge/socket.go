package munge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/internal/smallfile"
	"github.com/gorun/gorun/internal/term"
)

// confFiles are the places where Slurm keeps its configuration. Where only the
// controller has it, slurmd keeps a copy under /run or /var/spool.
var confFiles = []string{
	"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf",
}

// maxConf bounds Slurm's configuration, in bytes.
const maxConf = 1 << 20

// findSocket returns munged's socket, as MUNGE_SOCKET or Slurm's configuration names
// it; "": munge knows it. It returns an error where Slurm does not use munge, since the
// nodes may then have different munge keys.
func findSocket(ctx context.Context, env []string, run Runner) (string, error) {
	if path := environ.Get(env, "MUNGE_SOCKET"); path != "" {
		return path, nil
	}
	text, err := readConf(env)
	if err != nil {
		text, err = askController(ctx, env, run)
	}
	if err != nil {
		return "", err
	}
	if kind := setting(text, "AuthType"); kind != "" && !strings.EqualFold(kind, "auth/munge") {
		return "", fmt.Errorf("the AuthType of Slurm is %s, not auth/munge", term.Truncate(term.OneLine(kind), 60))
	}
	for part := range strings.SplitSeq(setting(text, "AuthInfo"), ",") {
		name, path, ok := strings.Cut(part, "=")
		if strings.EqualFold(name, "socket") && ok {
			return path, nil
		}
	}
	return "", nil
}

// readConf reads the file with Slurm's configuration. A file that includes others does
// not count unless it says how Slurm proves who a user is.
func readConf(env []string) (string, error) {
	files := confFiles
	if file := environ.Get(env, "SLURM_CONF"); file != "" {
		files = []string{file}
	}
	for _, file := range files {
		text, _, err := smallfile.Read(file, maxConf)
		if err != nil {
			continue
		}
		if s := string(text); len(text) <= maxConf && (setting(s, "AuthInfo") != "" || !includes(s)) {
			return s, nil
		}
	}
	return "", errors.New("no slurm.conf can be read")
}

// askController asks Slurm's controller for the configuration.
func askController(ctx context.Context, env []string, run Runner) (string, error) {
	path, err := findProgram(env, "scontrol")
	if err != nil {
		return "", fmt.Errorf("no slurm.conf can be read, and %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, status, err := run(ctx, nil, path, []string{path, "show", "config"}, env, "/")
	if err == nil && status != 0 {
		err = fmt.Errorf("it ended with %d", status)
	}
	if err != nil {
		return "", fmt.Errorf("no slurm.conf can be read, and %s show config fails: %w", path, err)
	}
	return string(out), nil
}

// setting returns a setting of slurm.conf ("AuthInfo=socket=/x Other=...") or of
// scontrol ("AuthInfo                = socket=/x"). It returns "" for none.
func setting(text, name string) string {
	found := ""
	for line := range strings.SplitSeq(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for at := 0; at+len(name) <= len(line); at++ {
			if !strings.EqualFold(line[at:at+len(name)], name) || at > 0 && line[at-1] != ' ' && line[at-1] != '\t' {
				continue
			}
			value, ok := strings.CutPrefix(strings.TrimLeft(line[at+len(name):], " \t"), "=")
			if words := strings.Fields(value); ok && len(words) > 0 {
				found = strings.Trim(words[0], `"`)
			}
		}
	}
	if found == "(null)" {
		return ""
	}
	return found
}

// includes reports whether a configuration has parts in other files.
func includes(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if words := strings.Fields(line); len(words) > 1 && strings.EqualFold(words[0], "include") {
			return true
		}
	}
	return false
}
