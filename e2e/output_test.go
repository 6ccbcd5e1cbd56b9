package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// loud prints 2000 lines on both streams, one write a line.
const loud = `i=0; while [ $i -lt 2000 ]; do echo "out of $RANK line $i end"; echo "err of $RANK line $i end" >&2; i=$((i + 1)); done`

// TestTeeKeepsLinesWhole checks that lines of workers that print at the same time are
// never torn, and none is lost.
func TestTeeKeepsLinesWhole(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone", "--nproc-per-node", "4", "--tee", "3", "--log-dir", t.TempDir())
	a := j.run("alone", sh(loud)...)
	j.wantExit(longWait, 0, a)
	for stream, text := range map[string]string{"out": a.out.String(), "err": a.err.String()} {
		line := regexp.MustCompile(fmt.Sprintf(`^\[default([0-3])\]:%s of ([0-3]) line (\d+) end$`, stream))
		next := map[string]int{}
		for l := range strings.Lines(text) {
			m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
			switch {
			case m == nil:
				t.Fatalf("torn line %q", l)
			case m[1] != m[2]:
				t.Fatalf("another rank's prefix: %q", l)
			case m[3] != fmt.Sprint(next[m[1]]):
				t.Fatalf("line %d of rank %s is missing before %q", next[m[1]], m[1], l)
			}
			next[m[1]]++
		}
		for rank := range 4 {
			if n := next[fmt.Sprint(rank)]; n != 2000 {
				t.Errorf("%d lines of rank %d on std%s", n, rank, stream)
			}
		}
	}
}

// TestTeeKeepsLinesWholeBetweenAgents checks that the agents of --local-nodes, which
// share one pipe, do not tear each other's lines of up to PIPE_BUF bytes (4096).
func TestTeeKeepsLinesWholeBetweenAgents(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	j := newJob(t, "--local-nodes", "3", "--tee", "3", "--log-dir", t.TempDir())
	cmd := j.command(sh(`l=$RANK; while [ ${#l} -lt 1024 ]; do l=$l$l; done; i=0; while [ $i -lt 200 ]; do echo $l; echo $l >&2; i=$((i + 1)); done`)...)
	cmd.Stdout, cmd.Stderr = w, w
	a := j.launch("all", cmd)
	w.Close()
	in, lines := bufio.NewScanner(r), 0
	for in.Scan() {
		text := in.Text()
		if rank, ok := strings.CutPrefix(text, "[default0]:"); ok && len(rank) == 1024 && strings.Trim(rank, rank[:1]) == "" {
			lines++
		} else if !strings.HasPrefix(text, "gorun") {
			t.Fatalf("torn: %d bytes, begins %.30q, ends %q", len(text), text, text[max(0, len(text)-30):])
		}
	}
	if lines != 3*2*200 {
		t.Errorf("%d lines, want %d (%v)", lines, 3*2*200, in.Err())
	}
	j.wantExit(longWait, 0, a)
}

// TestLogFolderIsFull checks that a job loses only its log files on a full disk, and that
// gorun says so in one line.
func TestLogFolderIsFull(t *testing.T) {
	t.Parallel()
	need(t, os.Geteuid() == 0, "root, to mount a file system")
	for flag, says := range map[string]string{
		"--tee":       `rank \d: cannot write \S+/attempt_0/\d/std(out|err)\.log: no space left on device; from here on the log files of this node's workers lack output`,
		"--redirects": `the file system of \S+ is full: the files of --redirects may lack what the workers printed last`,
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			if err := unix.Mount("none", logs, "tmpfs", 0, "size=64k"); err != nil {
				need(t, false, fmt.Sprintf("a file system: %v", err))
			}
			t.Cleanup(func() { _ = unix.Unmount(logs, unix.MNT_DETACH) })
			j := newJob(t, "--standalone", "--nproc-per-node", "2", flag, "3", "--log-dir", logs)
			more := strings.ReplaceAll(loud, " end", " end, and each file alone is more than fits") // 2000 lines of 60 bytes
			a := j.run("alone", sh(more+"; exit 0")...)
			j.wantExit(longWait, 0, a)
			for rank := range 2 {
				for stream, text := range map[string]string{"out": a.out.String(), "err": a.err.String()} {
					if n := strings.Count(text, fmt.Sprintf("[default%d]:%s of", rank, stream)); n != 2000 && flag == "--tee" {
						t.Errorf("%d lines of rank %d on std%s", n, rank, stream)
					}
				}
			}
			line := regexp.MustCompile("(?m)^gorun: " + says + "$")
			if n := len(line.FindAllString(a.err.String(), -1)); n != 1 || strings.Count(a.err.String(), logs) != 1 {
				t.Errorf("%d lines match %s", n, line)
			}
		})
	}
}

// TestRedirectsLayout checks that --redirects makes torchrun's files, and the console
// stays empty.
func TestRedirectsLayout(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	j := newJob(t, "--nproc-per-node", "2", "--redirects", "3", "--log-dir", logs, "--max-restarts", "1")
	a := j.nodes(2, sh(`echo out $RANK; echo err $RANK >&2; [ $TORCHELASTIC_RESTART_COUNT = 1 ]`)...)
	j.wantExit(longWait, 0, a...)
	for _, a := range a {
		if strings.Contains(a.out.String()+a.err.String(), "err ") || a.out.String() != "" {
			t.Errorf("%s shows what was redirected", a.name)
		}
	}
	runs, _ := filepath.Glob(filepath.Join(logs, j.id+"_*"))
	if len(runs) != 2 {
		t.Fatalf("folders of runs: %v", runs)
	}
	seen := map[string]bool{}
	for _, run := range runs {
		for local := range 2 {
			dir := filepath.Join(run, "attempt_1", fmt.Sprint(local))
			out, err := os.ReadFile(filepath.Join(dir, "stdout.log"))
			errs, err2 := os.ReadFile(filepath.Join(dir, "stderr.log"))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if strings.Replace(string(out), "out", "err", 1) != string(errs) {
				t.Errorf("stdout %q, stderr %q", out, errs)
			}
			seen[string(out)] = true
			if _, err := os.Stat(filepath.Join(run, "attempt_0", fmt.Sprint(local), "stdout.log")); err != nil {
				t.Error(err)
			}
		}
	}
	for rank := range 4 {
		if !seen[fmt.Sprintf("out %d\n", rank)] {
			t.Errorf("no file has the output of rank %d", rank)
		}
	}
}

// TestOutputUntouched checks that without flags a worker's output is gorun's, byte by
// byte, even if it is no text or has no line end.
func TestOutputUntouched(t *testing.T) {
	t.Parallel()
	want := make([]byte, 300_000)
	for i := range want {
		want[i] = byte(i * 7 / 3)
	}
	j := newJob(t, "--standalone")
	j.write("bytes", string(want), 0o600)
	a := j.run("alone", sh(`cat $E2E_DIR/bytes; cat $E2E_DIR/bytes >&2`)...)
	j.wantExit(longWait, 0, a)
	if got := a.out.String(); got != string(want) {
		t.Errorf("stdout: %d bytes, want %d, equal up to %d", len(got), len(want), commonLength(got, string(want)))
	}
	if got := a.err.String(); got != string(want) {
		t.Errorf("stderr: %d bytes, want %d, equal up to %d", len(got), len(want), commonLength(got, string(want)))
	}
}

// TestOutputKeepsOrder checks that a worker's lines on both streams keep their order where
// gorun's two streams are one file, pipe or terminal.
func TestOutputKeepsOrder(t *testing.T) {
	t.Parallel()
	const script = `i=0; while [ $i -lt 300 ]; do echo line $i; echo line $((i + 1)) >&2; i=$((i + 2)); done`
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	check := func(t *testing.T, got string) {
		t.Helper()
		if got = strings.ReplaceAll(got, "\r", ""); got != want.String() {
			t.Errorf("the order is lost after %d bytes: %.200q", commonLength(got, want.String()), got[commonLength(got, want.String()):])
		}
	}
	for _, flags := range [][]string{{"--standalone"}, {"--standalone", "--max-restarts", "1"}} {
		t.Run(fmt.Sprint("file ", len(flags)), func(t *testing.T) {
			j := newJob(t)
			f, err := os.Create(filepath.Join(j.dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			cmd := j.command(with(sh(script), flags...)...)
			cmd.Stdout, cmd.Stderr = f, f
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			check(t, string(got))
		})
	}
	t.Run("pipe", func(t *testing.T) {
		out, err := newJob(t).command(with(sh(script), "--standalone")...).CombinedOutput() // one pipe
		if err != nil {
			t.Fatal(err)
		}
		check(t, string(out))
	})
	t.Run("terminal", func(t *testing.T) {
		j := newJob(t)
		a, _ := j.terminal(with(sh(script), "--standalone")...)
		j.wantExit(longWait, 0, a)
		a.waitForStdout("line 299", 1)
		check(t, a.out.String())
	})
}

func commonLength(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// TestStandardInput checks that workers get gorun's standard input, and a single worker
// may read all of it.
func TestStandardInput(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone")
	cmd := j.command(sh("cat")...)
	cmd.Stdin = bytes.NewReader(bytes.Repeat([]byte("a line of input\n"), 10_000))
	a := j.launch("alone", cmd)
	j.wantExit(longWait, 0, a)
	if n := len(a.out.String()); n != 160_000 {
		t.Errorf("%d bytes came through, want 160000", n)
	}
}

// TestOutputReaderEnds checks that if the reader of gorun's output ends, the job goes on
// and its report is correct. Only the agent's later lines are lost.
func TestOutputReaderEnds(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(t, "--tee", "3", "--log-dir", t.TempDir())
	script := `echo up; while [ ! -e $E2E_DIR/go ]; do echo more; echo more >&2; sleep 0.02; done; exit $((RANK * 3))`
	first := j.node(1, "2", sh(script)...)
	cmd := j.command(with(sh(script), "--nnodes", "2", "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id, "--local-addr", "127.0.0.2")...)
	cmd.Stdout, cmd.Stderr = w, w
	second := j.launch("127.0.0.2", cmd)
	w.Close()
	if _, err := r.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	first.waitForStdout("more", 20)
	j.touch("go")
	j.wantExit(shortWait, 3, first, second)
	j.wantCause([]*agent{first}, "rank 1", "exited with code 3")
}

// TestRedirectsOfNoWorker checks that gorun names no log folder that will not exist, but
// names a flag without effect.
func TestRedirectsOfNoWorker(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone")
	a := j.run("other ranks", with(sh("echo hello"), "-r", "10:3", "-t", "0:0")...)
	b := j.run("this rank", with(sh("echo hello"), "-r", "0:1")...)
	j.wantExit(longWait, 0, a, b)
	a.waitForStdout("hello", 1)
	a.waitForStderr("--redirects 10:3 has no effect on this node: its local ranks are below 1")
	if strings.Contains(a.err.String(), "output is in") || strings.Contains(a.err.String(), "--tee") {
		t.Error("of folders and flags that do not matter")
	}
	b.waitForStderr("output is in")
}

// TestConsoleFlags checks torchrun's flags for what the terminal shows: a prefix of the
// user's own, only some local ranks, and lines that are copied to files of the attempt.
func TestConsoleFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := newJob(t, "--standalone", "--nproc-per-node", "2", "--role", "r", "--log-dir", dir)
	a := j.run("alone", with(sh(`echo "loss $RANK"; echo other; echo "bad $RANK" >&2`),
		"--tee", "3", "--log-line-prefix-template", "<${role_name} ${rank}/${local_rank} $unknown $$>",
		"--local-ranks-filter", "1", "--duplicate-stdout-filters", "loss,never", "--duplicate-stderr-filters", "bad")...)
	j.wantExit(longWait, 0, a)
	const prefix1 = "<r 1/1 $unknown $>"
	if got, want := a.out.String(), prefix1+"loss 1\n"+prefix1+"other\n"; got != want {
		t.Errorf("stdout %q, want %q", got, want)
	}
	for file, want := range map[string]string{
		"0/stdout.log": "loss 0\nother\n", "1/stderr.log": "bad 1\n",
		"filtered_stdout.log": "<r 0/0 $unknown $>loss 0\n" + prefix1 + "loss 1\n",
		"filtered_stderr.log": "<r 0/0 $unknown $>bad 0\n" + prefix1 + "bad 1\n",
	} {
		found, err := filepath.Glob(filepath.Join(dir, "*", "attempt_0", file))
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %q, %v", file, found, err)
			continue
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(b), "\n")
		slices.Sort(lines) // workers end in any order
		wanted := strings.SplitAfter(want, "\n")
		slices.Sort(wanted)
		if !slices.Equal(lines, wanted) {
			t.Errorf("%s: %q, want %q", file, b, want)
		}
	}
}
