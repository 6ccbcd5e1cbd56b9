package compat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
)

// caseLimit bounds one case. Importing torch alone may take a minute on a busy machine.
const caseLimit = 4 * time.Minute

// outcome is what a case led to: texts by what they are, such as "exit code", "stdout",
// "worker 0.1 MASTER_ADDR" (rank 0, restart 1) or "file logs/…/stdout.log". What differs
// from run to run has been replaced.
type outcome map[string]string

// launcher starts torchrun or gorun.
type launcher struct {
	run    []string // what stands before the arguments
	launch []string // likewise in place of python -m torch.distributed.launch
	env    []string // variables of its own
}

// play plays a case under a launcher.
func (l launcher) play(t *testing.T, c testCase) outcome {
	t.Helper()
	if l, err := net.Listen("tcp", ":29500"); err == nil {
		l.Close()
	} else if c.alone {
		t.Skipf("another program has the port: %v", err)
	}
	r := &caseRun{
		dir:  t.TempDir(),
		port: strconv.Itoa(porttest.Free(t, "")),
		out:  outcome{},
	}
	for _, name := range []string{"tmp", "probes", "logs", "pkg", "sub"} {
		if err := os.Mkdir(filepath.Join(r.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"probe.py", "w0.py", "w1.py", "script", "a script.py", "pkg/__init__.py", "pkg/__main__.py", "pkg/mod.py", "sub/probe.py"} {
		mode := fs.FileMode(0o755)
		if name == "script" {
			mode = 0o644
		}
		text, err := os.ReadFile("testdata/probe.py")
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, name), append([]byte("#!/usr/bin/env python3\n"), text...), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	defer cancel()
	agents := make([]*agent, max(1, c.nodes))
	for i := range agents {
		agents[i] = r.start(ctx, t, l, c, i)
	}
	if c.signal != 0 {
		r.waitForWorkers(ctx, t, c.starts)
		for _, a := range agents {
			if err := a.cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, a := range agents {
		err := a.cmd.Wait()
		if ctx.Err() != nil {
			t.Fatalf("no end within %v\nstdout: %s\nstderr: %s", caseLimit, a.stdout.String(), a.stderr.String())
		}
		if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
			t.Fatal(err)
		}
		prefix := ""
		if len(agents) > 1 {
			prefix = fmt.Sprintf("node %d ", i)
		}
		r.addAgent(prefix, a)
	}
	r.addWorkers(t, c)
	r.addFiles(t, c)
	return r.out
}

// caseRun is one case under one launcher.
type caseRun struct {
	dir  string   // the working folder of everything
	port string   // @port in the case
	env  []string // what the launcher was given
	out  outcome
}

// agent is a launcher that runs.
type agent struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// fill replaces the placeholders of an argument or a variable.
func (r *caseRun) fill(text string, node int) string {
	return strings.NewReplacer("@port", r.port, "@dir", r.dir, "@node", strconv.Itoa(node)).Replace(text)
}

// start starts a launcher for one node.
func (r *caseRun) start(ctx context.Context, t *testing.T, l launcher, c testCase, node int) *agent {
	t.Helper()
	line := slices.Clone(l.run)
	if c.launch {
		line = slices.Clone(l.launch)
	}
	for _, arg := range append(strings.Fields(c.args), c.more...) {
		line = append(line, r.fill(arg, node))
	}
	r.env = append([]string{
		"PATH=/usr/bin:/bin", "HOME=" + r.dir, "TMPDIR=" + r.dir + "/tmp", "LC_ALL=C.UTF-8", "TZ=UTC", "SENTINEL=of the launcher",
		"PROBE_DIR=" + r.dir + "/probes", "PYTHONDONTWRITEBYTECODE=1", "CUDA_VISIBLE_DEVICES=",
	}, l.env...)
	if !c.alone {
		r.env = append(r.env, "PET_MASTER_PORT="+r.port)
	}
	for _, v := range c.env {
		r.env = append(r.env, r.fill(v, node))
	}
	a := &agent{cmd: exec.CommandContext(ctx, line[0], line[1:]...)}
	a.cmd.Dir, a.cmd.Env = r.dir, r.env
	a.cmd.Stdout, a.cmd.Stderr = &a.stdout, &a.stderr
	a.cmd.WaitDelay = 10 * time.Second
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return a
}

// waitForWorkers waits until n workers were started.
func (r *caseRun) waitForWorkers(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for {
		found, err := filepath.Glob(r.dir + "/probes/*.json")
		switch {
		case err != nil || ctx.Err() != nil:
			t.Fatalf("%d of %d workers have started: %v, %v", len(found), n, err, ctx.Err())
		case len(found) >= n:
			return
		}
		time.Sleep(20 * time.Millisecond) // sleep: between two looks at the folder
	}
}

// add notes a text, without what differs from run to run. An empty text is none.
func (r *caseRun) add(key, text string) {
	if text != "" {
		r.out[r.normalise(key)] = r.normalise(text)
	}
}

// addAgent notes how a launcher ended and what it wrote.
func (r *caseRun) addAgent(prefix string, a *agent) {
	r.add(prefix+"exit code", strconv.Itoa(a.cmd.ProcessState.ExitCode()))
	r.add(prefix+"stdout", sorted(strings.Lines(a.stdout.String())))
	text := a.stderr.String()
	r.add(prefix+"stderr", pick(text, workersLine))
	r.add(prefix+"error", argparseError(text))
	r.add(prefix+"log", pick(text, logLine))
	r.add(prefix+"report", report(text))
}

var (
	workersLine  = regexp.MustCompile(`(?m)^.*probe: .*$`)
	argparseLine = regexp.MustCompile(`error: (argument .*|the following arguments.*|unrecognized arguments: [^:\s]*|ambiguous option: .*)`)
	// logLine matches what scripts search torchrun's log for.
	logLine = regexp.MustCompile(`(?m)failed \(exitcode: .*$|Sending process \d+ closing signal \w+|Received \d+ death signal, shutting down workers|errors\.ChildFailedError:|Unable to shutdown process \d+ via`)
)

// pick returns the matches of a pattern, in order of their text.
func pick(text string, pattern *regexp.Regexp) string {
	return sorted(slices.Values(pattern.FindAllString(text, -1)))
}

// argparseError returns the line of an error of argparse in one form: flags have
// underscores and no value, and alternatives are in order.
func argparseError(text string) string {
	line := argparseLine.FindString(text)
	line = regexp.MustCompile(`--[a-z-]+/(--[a-z_]+)`).ReplaceAllString(line, "$1") // later torchruns show both spellings
	line = regexp.MustCompile(`((?:option|arguments): --\w+)=\S*`).ReplaceAllString(line, "$1")
	line = regexp.MustCompile(`--[a-z-]+`).ReplaceAllStringFunc(line, func(flag string) string { return "--" + strings.ReplaceAll(flag[2:], "-", "_") })
	if head, tail, ok := strings.Cut(line, " could match "); ok {
		line = head + " could match " + strings.Join(slices.Compact(slices.Sorted(strings.SplitSeq(tail, ", "))), ", ")
	}
	return line
}

// sorted returns lines in order, for those of several processes come in any order.
func sorted(lines func(yield func(string) bool)) string {
	all := slices.Sorted(lines)
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], "\n")
	}
	return strings.Join(all, "\n")
}

// report returns the text of ChildFailedError: from its first bar to its last.
func report(text string) string {
	bar := regexp.MustCompile(`(?m)^={5,60}\n`).FindAllStringIndex(text, 2)
	if len(bar) < 2 {
		return ""
	}
	return text[bar[0][0]:bar[1][1]]
}

// probed is what a worker saw, as probe.py writes it.
type probed struct {
	PID     int               `json:"pid"`
	Env     map[string]string `json:"env"`
	Argv    []string          `json:"argv"`
	Command []string          `json:"command"`
	Name    string            `json:"name"`
	Cwd     string            `json:"cwd"`
	Stdin   string            `json:"stdin"`
	Mask    string            `json:"mask"`
}

// addWorkers notes what each worker saw: its arguments, and what its environment has that
// the launcher's has not.
func (r *caseRun) addWorkers(t *testing.T, c testCase) {
	t.Helper()
	files, err := filepath.Glob(r.dir + "/probes/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		var p probed
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		worker := "worker " + strings.TrimSuffix(filepath.Base(name), ".json") + " "
		r.add(worker+"argv", strings.Join(p.Argv, "\n"))
		r.add(worker+"command", strings.Join(p.Command, "\n"))
		r.add(worker+"name", p.Name)
		r.add(worker+"cwd", p.Cwd)
		r.add(worker+"stdin", p.Stdin)
		r.add(worker+"ignored signals", withoutOwn(p.Mask))
		given := map[string]string{}
		for _, v := range r.env {
			name, value, _ := strings.Cut(v, "=")
			given[name] = value
		}
		for name, value := range p.Env {
			if name == "MASTER_ADDR" && value != "127.0.0.1" && !strings.Contains(c.args, value) {
				value = "HOST" // as this machine calls itself
			}
			if name == "MASTER_PORT" && value != r.port && (value != "29500" || !c.alone) {
				value = "FREE"
			}
			if had, ok := given[name]; !ok || had != value {
				r.add(worker+name, "'"+value+"'")
			}
			delete(given, name)
		}
		for name := range given {
			r.add(worker+name, "(removed)")
		}
	}
}

// withoutOwn returns a mask of ignored signals without those that the tests themselves were
// started with, as under nohup.
func withoutOwn(mask string) string {
	const python = 1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGXFSZ-1) // ignores them itself
	status, _ := os.ReadFile("/proc/self/status")
	_, own, _ := strings.Cut(string(status), "SigIgn:\t")
	own, _, _ = strings.Cut(own, "\n")
	inherited, _ := strconv.ParseUint(own, 16, 64)
	all, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return mask
	}
	return fmt.Sprintf("%016x", all&^(inherited&^python))
}

// addFiles notes what lies below the folders of logs, and the launcher's own error file.
func (r *caseRun) addFiles(t *testing.T, c testCase) {
	t.Helper()
	for _, top := range []string{"tmp", "logs"} {
		err := filepath.WalkDir(filepath.Join(r.dir, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, _ := filepath.Rel(r.dir, path)
			if !d.Type().IsRegular() {
				r.add("file "+name, d.Type().String())
				return nil
			}
			text, err := os.ReadFile(path)
			if strings.HasPrefix(d.Name(), "filtered_") { // of several workers
				text = []byte(sorted(strings.Lines(string(text))))
			}
			if len(text) == 0 {
				text = []byte("(empty)")
			}
			r.add("file "+name, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(r.dir, "error.json")); err == nil {
		if bytes.Contains(text, []byte("elastic_launch(")) {
			text = []byte("(of torchrun itself, which could not read the worker's)")
		}
		r.add("file error.json", compact(text))
	}
}

// compact writes JSON in one form, since the two launchers order and space it otherwise.
func compact(text []byte) string {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return string(text)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// rewrites lists what differs from run to run, and what stands in its place.
var rewrites = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`torchelastic_[A-Za-z0-9_]+/`), "torchelastic_*/"},
	{regexp.MustCompile(`_[a-z0-9_]{8}/attempt_`), "_*/attempt_"},
	{regexp.MustCompile(`pid: \d+`), "pid: PID"},
	{regexp.MustCompile(`\b(process|PID) \d+`), "$1 PID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`("timestamp": ?"?)1[5-9]\d{8}`), "${1}NOW"},
	{regexp.MustCompile(`(probe\.py\\?", line )\d+`), "${1}N"},
	{regexp.MustCompile(`(?m)^(  host      : ).*$`), "${1}HOST"},
	{regexp.MustCompile(`(?m)^[=-]{5,60}$`), "-----"}, // as long as the longest line, which has a host and pids
}

// normalise replaces what differs from run to run.
func (r *caseRun) normalise(text string) string {
	text = strings.ReplaceAll(text, r.dir, "DIR")
	text = strings.ReplaceAll(text, r.port, "PORT")
	for _, rw := range rewrites {
		text = rw.pattern.ReplaceAllString(text, rw.with)
	}
	return strings.ToValidUTF8(text, "\\x")
}

// difference is where two outcomes of a case differ; "" is nothing at all.
type difference struct{ key, torchrun, gorun string }

// differences compares two outcomes.
func differences(torchrun, gorun outcome) []difference {
	keys := maps.Clone(gorun)
	maps.Copy(keys, torchrun)
	var found []difference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if torchrun[key] != gorun[key] {
			found = append(found, difference{key, torchrun[key], gorun[key]})
		}
	}
	return found
}
