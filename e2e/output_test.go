package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// TestLogFolderIsFull checks that on a full disk a job loses only its log files, and
// gorun says so for each.
func TestLogFolderIsFull(t *testing.T) {
	t.Parallel()
	need(t, os.Geteuid() == 0, "root, to mount a file system")
	logs := t.TempDir()
	if err := unix.Mount("none", logs, "tmpfs", 0, "size=64k"); err != nil {
		need(t, false, fmt.Sprintf("a file system: %v", err))
	}
	t.Cleanup(func() { _ = unix.Unmount(logs, unix.MNT_DETACH) })
	j := newJob(t, "--standalone", "--nproc-per-node", "2", "--tee", "3", "--log-dir", logs)
	more := strings.ReplaceAll(loud, " end", " end, and each file alone is more than fits") // 2000 lines of 60 bytes
	a := j.run("alone", sh(more)...)
	j.wantExit(longWait, 0, a)
	for rank := range 2 {
		for stream, text := range map[string]string{"out": a.out.String(), "err": a.err.String()} {
			if n := strings.Count(text, fmt.Sprintf("[default%d]:%s of", rank, stream)); n != 2000 {
				t.Errorf("%d lines of rank %d on std%s", n, rank, stream)
			}
			word := regexp.MustCompile(fmt.Sprintf(`(?m)^gorun: rank %d: cannot write %s/\S+/attempt_0/%d/std%s\.log: no space left on device; `, rank, logs, rank, stream))
			if n := len(word.FindAllString(a.err.String(), -1)); n != 1 {
				t.Errorf("%d words about std%s of rank %d: %s", n, stream, rank, word)
			}
		}
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
