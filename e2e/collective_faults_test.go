package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
	"github.com/gorun/gorun/worker"
	"golang.org/x/sys/unix"
)

// Modes of play in which ranks compute together until the test disturbs them.
const (
	playLoops = "loops" // until a call fails
	playStops = "stops" // the last rank stops itself; the calls of the others have a deadline
)

// cuts are ways in which the link of a host of a lan may break.
var cuts = map[string]func(l *lan, host int){
	"link down": func(l *lan, host int) { l.ip(host, "link set eth0 down") },
	"dropped": func(l *lan, host int) {
		_, err := exec.LookPath("iptables")
		need(l, err == nil, "iptables")
		for _, rule := range []string{"INPUT -i", "OUTPUT -o"} {
			l.do(append([]string{"ip", "netns", "exec", l.host(host), "iptables", "-A"}, strings.Fields(rule+" eth0 -j DROP")...)...)
		}
	},
}

// ended is what a rank printed when its call failed.
type ended struct {
	at   time.Time
	text string
}

// endOf returns how a rank's call failed.
func endOf(t testing.TB, out string, rank int) (e ended, ok bool) {
	t.Helper()
	m := regexp.MustCompile(fmt.Sprintf(`(?m)rank %d returned at (\d+): (.*)$`, rank)).FindStringSubmatch(out)
	if m == nil {
		return e, false
	}
	nanos, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ended{time.Unix(0, nanos), m[2]}, true
}

// TestCollectiveOnACutLink cuts the link between two nodes whose ranks compute together.
// Every rank's call must return in time, with the node that was lost.
func TestCollectiveOnACutLink(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 2)
			j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "5", "--rdzv-conf", detectionConf)
			agents := l.nodes(j, "2", self, playFlag, playLoops)
			waitForRanks(t, j.dir, 4)
			began := time.Now()
			cut(l, 2)
			j.wantExit(longWait, 137, agents...)
			for rank := range 4 {
				e, ok := endOf(t, agents[rank/2].out.String(), rank)
				if !ok {
					t.Errorf("rank %d did not return", rank)
					continue
				}
				t.Logf("rank %d returned %v after the cut: %s", rank, e.at.Sub(began).Round(time.Millisecond), e.text)
				if took := e.at.Sub(began); took > 2*detection+shortWait {
					t.Errorf("rank %d returned %v after the cut", rank, took)
				}
				if other := l.addr(2 - rank/2); !strings.Contains(e.text, other) || !strings.Contains(e.text, "gorun: aborted: ") {
					t.Errorf("rank %d does not name %s: %s", rank, other, e.text)
				}
			}
		})
	}
}

// TestCollectiveOnACutLinkWithoutAgent is the same for ranks that no agent started: each
// notices that its connections are silent.
func TestCollectiveOnACutLinkWithoutAgent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const silence = 10 * time.Second // after which package tcp gives a connection up
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 2)
			dir, port := t.TempDir(), porttest.Free(t, "")
			var outs [2]output
			var ranks []*exec.Cmd
			for rank := range 2 {
				cmd := exec.Command("ip", "netns", "exec", l.host(rank+1), self, playFlag, playLoops)
				cmd.Env = append(os.Environ(), envDir+"="+dir, "MASTER_ADDR="+l.addr(1), fmt.Sprint("MASTER_PORT=", port),
					"WORLD_SIZE=2", fmt.Sprint("RANK=", rank), fmt.Sprint("GROUP_RANK=", rank))
				cmd.Stdout, cmd.Stderr = &outs[rank], &outs[rank]
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				ranks = append(ranks, cmd)
			}
			waitForRanks(t, dir, 2)
			began := time.Now()
			cut(l, 2)
			for rank, cmd := range ranks {
				_ = cmd.Wait()
				e, ok := endOf(t, outs[rank].String(), rank)
				if !ok {
					t.Errorf("rank %d did not return: %s", rank, outs[rank].String())
					continue
				}
				t.Logf("rank %d returned %v after the cut: %s", rank, e.at.Sub(began).Round(time.Millisecond), e.text)
				if took := e.at.Sub(began); took > silence+shortWait {
					t.Errorf("rank %d returned %v after the cut", rank, took)
				}
				if want := fmt.Sprintf("rank %d is gone", 1-rank); !strings.Contains(e.text, want) {
					t.Errorf("rank %d does not say %q: %s", rank, want, e.text)
				}
			}
		})
	}
}

// TestDeadlineNamesAStoppedRankOfAnotherNode stops a rank that others wait for: a call with
// a deadline returns on every other rank and says who has not arrived, or that a rank whose
// deadline came first has ended the job.
func TestDeadlineNamesAStoppedRankOfAnotherNode(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "1")
	agents := j.nodes(2, self, playFlag, playStops)
	j.wantExit(longWait, 1, agents...)
	out := agents[0].out.String() + agents[1].out.String()
	named := 0
	for rank := range 3 {
		e, ok := endOf(t, out, rank)
		switch {
		case ok && strings.Contains(e.text, "rank 3 has not arrived") && strings.Contains(e.text, "not done after"):
			named++
		case !ok || !strings.Contains(e.text, "aborted: rank "): // by the rank whose deadline came first
			t.Errorf("rank %d does not name rank 3: %s\n%s", rank, e.text, out)
		}
	}
	if named == 0 {
		t.Errorf("no rank names rank 3:\n%s", out)
	}
}

// waitForRanks waits until so many ranks compute together.
func waitForRanks(t testing.TB, dir string, n int) {
	t.Helper()
	eventually(t, longWait, "all ranks compute", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "loops.*"))
		return len(files) == n
	})
}

// stopHere stops this process before the calling goroutine does anything more: a signal
// to the process may reach another thread, and later.
func stopHere() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}

// loops is a rank that calls all-reduces of many sizes in turn until one fails.
func loops(mode string) int {
	signal.Ignore(syscall.SIGTERM) // the calls must return, and the cause must reach them
	ctx, cancel := context.WithTimeout(context.Background(), 3*longWait)
	defer cancel()
	var opts []worker.Option
	if mode == playStops {
		opts = append(opts, worker.WithDeadline(3*time.Second))
	}
	w, err := worker.Init(ctx, opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer w.Close()
	c, err := w.Comm(ctx)
	for i := 0; err == nil && ctx.Err() == nil; i++ {
		buf := make([]float32, 1<<(i%18))
		err = worker.AllReduce(ctx, c, buf, worker.Sum)
		if i == 2 && err == nil {
			err = os.WriteFile(filepath.Join(os.Getenv(envDir), fmt.Sprint("loops.", w.Rank())), nil, 0o600)
		}
		if i == 2 && mode == playStops && w.Rank() == w.Size()-1 {
			_ = stopHere()
		}
	}
	if err == nil {
		err = errors.New("nothing disturbed the loop")
	}
	fmt.Printf("rank %d returned at %d: %s\n", w.Rank(), time.Now().UnixNano(), strings.ReplaceAll(err.Error(), "\n", " "))
	return 1
}
