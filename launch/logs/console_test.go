package logs

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

func TestClosedConsoleKeepsLogs(t *testing.T) {
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer pw.Close()
	dir := t.TempDir()
	w := open(t, WorkerOptions{Dir: dir, Tee: 3, Prefix: "p:", Console: newCapture(t, pw, pw).Console})
	cmd := shell("echo out; echo err >&2; exit 7")
	run(t, w, cmd)
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("the worker ended with %d: %v", code, cmd.ProcessState)
	}
	if got := read(t, dir+"/0/stdout.log") + strings.Join(w.Tail(), "|"); got != "out\nerr" {
		t.Errorf("kept %q", got)
	}
}

func TestStalledConsoleKeepsLogs(t *testing.T) {
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer pw.Close()
	pw.Fd() // blocking, as gorun's own stdout is
	c := newCapture(t, pw, pw)
	dir := t.TempDir()
	flood := shell("head -c 100000 /dev/zero >&2; exec sleep 60")
	first := open(t, WorkerOptions{Console: c.Console})
	start(t, first, flood)
	eventually(t, "a console that is full", func() bool { return len(c.stderr.lock) == 1 && !first.LastOutput().IsZero() })

	second := open(t, WorkerOptions{LocalRank: 1, Dir: dir, Tee: Stderr, Console: c.Console})
	cmd := shell("echo my end >&2")
	start(t, second, cmd)
	cmd.Wait()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(second.Tail(), "|") + read(t, dir+"/1/stderr.log"); got != "my endmy end\n" {
		t.Errorf("kept %q", got)
	}
	if err := first.Close(); err == nil || !strings.Contains(err.Error(), "console") {
		t.Errorf("first worker: %v", err)
	}
}

// TestLinesStayWholeBetweenProcesses shows that lines of at most PIPE_BUF bytes
// stay whole beside those of other processes, which have locks of their own.
func TestLinesStayWholeBetweenProcesses(t *testing.T) {
	for name, connect := range map[string]func() (r, w *os.File, err error){
		"pipe":              openPipe,
		"non-blocking pipe": os.Pipe,
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			const processes, blocks, lines = 4, 50, 8
			var wg sync.WaitGroup
			for i := range processes {
				c := newCapture(t, w, w)
				line := strings.Repeat(fmt.Sprint(i), 900) + "\n" + strings.Repeat(fmt.Sprint(i), maxWrite-1) + "\n"
				block := []byte(strings.Repeat(line, lines/2)) // more than a pipe takes in one piece
				for _, write := range []func(){
					func() { c.stdout.write(block, nil) },
					func() { _, _ = c.Stderr().Write(block) },
					func() { _ = c.Print(block) },
				} {
					wg.Go(func() {
						for range blocks {
							write()
						}
					})
				}
			}
			in := bufio.NewReader(r)
			for range processes * 3 * blocks * lines {
				text, err := in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				text = strings.TrimSuffix(text, "\n")
				if n := len(text); n != 900 && n != maxWrite-1 || strings.Trim(text, text[:1]) != "" {
					t.Fatalf("split line: %d bytes, %.20q", n, strings.Trim(text, text[:1]))
				}
			}
			wg.Wait()
		})
	}
}

// TestLongLinesComeInOrder shows that output longer than a pipe takes in one
// piece, with or without lines, arrives whole and in order.
func TestLongLinesComeInOrder(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 3*maxWrite),
		strings.Repeat("x", maxWrite) + "\n" + strings.Repeat("y", 2*maxWrite) + "\nz",
		strings.Repeat("short\n", maxWrite) + strings.Repeat("z", maxWrite+1),
	} {
		c := captureFiles(t)
		if err := c.Print([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, c.out.Name()); got != text {
			t.Errorf("%d bytes of %d came", len(got), len(text))
		}
	}
}
