package e2e_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	volumeWorkers = 8
	volumeLines   = 10_000
	volumeLong    = 2 << 20 // bytes of one line
	// volumeMemory bounds the peak of an agent and of a keeper, in KiB. The workers
	// write more.
	volumeMemory = 64 << 10
)

// TestOutputAtVolume checks that what 8 workers write at once (lines, a line of megabytes,
// any bytes, an end without a newline) is in their files byte for byte and on the console
// in whole lines, and that gorun keeps none of it in memory.
func TestOutputAtVolume(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--tee", "--redirects"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			j := newJob(t, "--standalone", "--nproc-per-node", strconv.Itoa(volumeWorkers), flag, "3", "--log-dir", logs)
			written := map[string][]byte{}
			for rank := range volumeWorkers {
				for _, stream := range []string{"out", "err"} {
					name := fmt.Sprintf("%s.%d", stream, rank)
					written[name] = volumeOutput(stream, rank)
					if err := os.WriteFile(filepath.Join(j.dir, name), written[name], 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			j.wd = j.dir
			cmd := j.command(sh(`cat out.$RANK & cat err.$RANK >&2; wait; : >done.$RANK; until [ -e go ]; do sleep 0.05; done`)...)
			var console [2]*os.File
			for i := range console {
				var err error
				if console[i], err = os.Create(filepath.Join(j.dir, fmt.Sprint("console", i))); err != nil {
					t.Fatal(err)
				}
				defer console[i].Close()
			}
			cmd.Stdout, cmd.Stderr = console[0], console[1]
			a := j.launch("alone", cmd)
			eventually(t, longWait, "all have written", func() bool {
				done, _ := filepath.Glob(filepath.Join(j.dir, "done.*"))
				return len(done) == volumeWorkers
			})
			for _, pid := range []int{a.pid(), j.agentOfLocalNode(0)} {
				if peak := peakMemory(t, pid); peak > volumeMemory && raceFlag != "-race" {
					t.Errorf("process %d took %d KiB of memory, at most %d are allowed", pid, peak, volumeMemory)
				}
			}
			j.touch("go")
			j.wantExit(longWait, 0, a)
			for name, want := range written {
				stream, rank, _ := strings.Cut(name, ".")
				files, _ := filepath.Glob(filepath.Join(logs, "*", "attempt_0", rank, "std"+stream+".log"))
				if len(files) != 1 {
					t.Fatalf("std%s of rank %s has the files %q", stream, rank, files)
				}
				if got, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(got, want) {
					t.Errorf("std%s of rank %s: the file has %d bytes, or others, of %d (%v)", stream, rank, len(got), len(want), err)
				}
			}
			if flag == "--tee" {
				checkVolumeConsole(t, console[0].Name(), "out")
				checkVolumeConsole(t, console[1].Name(), "err")
			}
		})
	}
}

// volumeOutput returns what a rank writes to a stream. Only the long line has the letter
// Y.
func volumeOutput(stream string, rank int) []byte {
	var b bytes.Buffer
	for i := range volumeLines {
		fmt.Fprintf(&b, "%s of %d line %d %s end\n", stream, rank, i, strings.Repeat("x", 40+i%20))
	}
	b.WriteString(strings.Repeat("Y", volumeLong) + "\n")
	rnd := rand.New(rand.NewPCG(1, uint64(rank)))
	for range 256 << 10 {
		if c := byte(rnd.Uint32()); c != 'Y' {
			b.WriteByte(c)
		}
	}
	b.WriteString("\nthe end without a newline")
	return b.Bytes()
}

// checkVolumeConsole checks the lines of one stream on the console.
func checkVolumeConsole(t *testing.T, path, stream string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^\[default(\d)\]:` + stream + ` of (\d) line (\d+) (x+) end\n$`)
	var next [volumeWorkers]int
	for l := range bytes.Lines(text) {
		m := line.FindSubmatch(l)
		if m == nil {
			continue // the count below shows if it is a torn one
		}
		rank, _ := strconv.Atoi(string(m[1]))
		if i := next[rank]; string(m[2]) != string(m[1]) || string(m[3]) != strconv.Itoa(i) || len(m[4]) != 40+i%20 {
			t.Fatalf("%q comes in place of line %d of rank %d", l, i, rank)
		}
		next[rank]++
	}
	for rank, n := range next {
		if n != volumeLines {
			t.Errorf("%d whole lines of rank %d on std%s, want %d", n, rank, stream, volumeLines)
		}
	}
	if n := bytes.Count(text, []byte("Y")); n != volumeWorkers*volumeLong {
		t.Errorf("%d bytes of the long lines on std%s, want %d", n, stream, volumeWorkers*volumeLong)
	}
}

// peakMemory returns the most memory that a process has had, in KiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("process %d has no peak of memory in its status", pid)
	}
	peak, _ := strconv.Atoi(string(m[1]))
	return peak
}
