package board

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/contract"
)

// envRank makes the test program a rank of the board that it inherits.
const envRank = "BOARD_TEST_RANK"

func TestMain(m *testing.M) {
	if text := os.Getenv(envRank); text != "" {
		rank, _ := strconv.Atoi(text)
		if err := runRank(rank); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runRank meets the other ranks again and again until the round is aborted. It prints
// "ready" after the first time, "writing" every page when it is rank 0 and asked to, and
// at the end "aborted" with the nanoseconds since the abort.
func runRank(rank int) error {
	b, err := Map(os.NewFile(3, "board"))
	if err != nil {
		return err
	}
	b.Join(rank, rank, os.Getpid())
	line := b.OpenLine(rank, Comm{Rank: rank, Size: b.Ranks()})
	w := b.Waiter(rank, nil, line)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for n := uint32(1); ; n++ {
		line.Enter(Call{Kind: 3, Seq: uint64(n), Peer: -1})
		WordAt(b.Memory()[rank*64:]).Publish(n)
		for other := range b.Ranks() {
			err = w.Await(ctx, WordAt(b.Memory()[other*64:]), n)
			if errors.Is(err, ErrAborted) {
				now := time.Now()
				c := b.Cause()
				if c == nil {
					return errors.New("an abort without cause")
				}
				fmt.Println("aborted", now.Sub(c.Time).Nanoseconds(), c.Text)
				return nil
			}
			if err != nil {
				return err
			}
		}
		line.Leave()
		if n == 1 {
			fmt.Println("ready")
		}
	}
}

// process is a rank that runs in another process.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startRanks(t testing.TB, b *Board) []*process {
	t.Helper()
	var all []*process
	for rank := range b.Ranks() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envRank+"="+strconv.Itoa(rank))
		cmd.ExtraFiles = []*os.File{b.File()}
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
		})
		all = append(all, &process{cmd, bufio.NewScanner(out)})
	}
	for _, p := range all {
		if got := p.next(); got != "ready" {
			t.Fatalf("a rank says %q", got)
		}
	}
	return all
}

func (p *process) next() string {
	p.lines.Scan()
	return p.lines.Text()
}

// waitForSleepers waits until the ranks have waited for long.
func waitForSleepers(t testing.TB, b *Board, ranks ...int) {
	t.Helper()
	waitFor(t, "the other ranks do not sleep", func() bool {
		for _, rank := range ranks {
			p := b.Positions(rank, 1)
			if len(p) != 1 || !p[0].Open() || p[0].Since.IsZero() || time.Since(p[0].Since) < 20*time.Millisecond {
				return false
			}
		}
		return true
	})
}

// TestAbortAfterARankIsGone ends or stops one of 4 processes inside a barrier. The board
// says which rank did not come, and an abort ends the other three.
func TestAbortAfterARankIsGone(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			b := create(t, Options{Ranks: 4, Memory: 4 * 64})
			ranks := startRanks(t, b)
			if err := ranks[2].cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			waitForSleepers(t, b, 0, 1, 3)
			late := b.Positions(2, 1)[0]
			for _, rank := range []int{0, 1, 3} {
				if p := b.Positions(rank, 1)[0]; p.Entered < late.Entered {
					t.Errorf("rank %d is at call %d, rank 2 at %d", rank, p.Entered, late.Entered)
				}
				if m := b.Member(rank); m.Rank != rank || m.PID != ranks[rank].cmd.Process.Pid {
					t.Errorf("rank %d says %+v", rank, m)
				}
			}
			b.Abort(contract.Cause{Rank: 2, Text: "rank 2 is gone", Time: time.Now()})
			for _, rank := range []int{0, 1, 3} {
				got := ranks[rank].next()
				fields := strings.SplitN(got, " ", 3)
				if len(fields) != 3 || fields[2] != "rank 2 is gone" {
					t.Errorf("rank %d says %q", rank, got)
				}
				t.Logf("rank %d is back after %s ns", rank, fields[1])
			}
			if sig == syscall.SIGSTOP { // it learns of the abort when it goes on
				_ = ranks[2].cmd.Process.Signal(syscall.SIGCONT)
				if got := ranks[2].next(); !strings.HasPrefix(got, "aborted") {
					t.Errorf("the stopped rank says %q", got)
				}
			}
		})
	}
}

// TestCorruptedPage writes junk over the page of one rank of 4 processes. The others and
// the reader go on, and an abort ends them.
func TestCorruptedPage(t *testing.T) {
	b := create(t, Options{Ranks: 4, Memory: 4 * 64})
	ranks := startRanks(t, b)
	page := b.data[headerSize+2*rankSize:][:rankSize]
	for i := range page {
		page[i] = byte(i*7) | 1
	}
	b.Member(2)
	b.Positions(2, 100)
	b.Abort(contract.Cause{Text: "junk", Time: time.Now()})
	for rank, p := range ranks {
		if got := p.next(); !strings.HasPrefix(got, "aborted") {
			t.Errorf("rank %d says %q", rank, got)
		}
	}
}

// BenchmarkAbort measures the time from the agent's abort to the moment at which the last
// of 4 processes is back from its wait.
func BenchmarkAbort(b *testing.B) {
	var last []int64
	for b.Loop() {
		shared := create(b, Options{Ranks: 4, Memory: 4 * 64})
		ranks := startRanks(b, shared)
		_ = ranks[2].cmd.Process.Signal(syscall.SIGSTOP)
		waitForSleepers(b, shared, 0, 1, 3)
		shared.Abort(contract.Cause{Text: "x", Time: time.Now()})
		slowest := int64(0)
		for _, rank := range []int{0, 1, 3} {
			ns, err := strconv.ParseInt(strings.Fields(ranks[rank].next() + " 0 0")[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			slowest = max(slowest, ns)
		}
		last = append(last, slowest)
		_ = ranks[2].cmd.Process.Kill()
	}
	slices.Sort(last)
	b.ReportMetric(float64(last[len(last)/2])/1e3, "median-µs")
	b.ReportMetric(float64(last[len(last)-1])/1e3, "max-µs")
}
