package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker/contract"
)

// envRole makes the test program a rank of three. Rank 2 does what the role says in its
// 200th all-reduce.
const envRole = "WORKER_TEST_ROLE"

const (
	roleKilled  = "killed"  // rank 2 dies
	roleStopped = "stopped" // rank 2 is stopped; the others have a deadline
	roleFails   = "fails"   // rank 2 reports a failure and closes
	roleBound   = "bound"   // the rank prints the CPUs that it may use
	roleCorrupt = "corrupt" // rank 2 writes junk over its page, then dies
	roleLeaves  = "leaves"  // rank 2 exits in order, but does not close
	roleCloses  = "closes"  // rank 2 closes; the others receive from it
	roleInside  = "inside " // and a call: rank 2 dies in its 50th one, in which it waits for the others
	roleExits   = "exits "  // and a call: rank 2 exits in order while the others are in their 50th one
	roleEnds    = "ends "   // likewise, and it closes
)

// calls are what a rank of three does again and again.
var calls = map[string]func(ctx context.Context, c *Comm, buf []float32) error{
	"all-reduce":      func(ctx context.Context, c *Comm, buf []float32) error { return AllReduce(ctx, c, buf[:3], Sum) },
	"long all-reduce": func(ctx context.Context, c *Comm, buf []float32) error { return AllReduce(ctx, c, buf, Sum) },
	"broadcast":       func(ctx context.Context, c *Comm, buf []float32) error { return Broadcast(ctx, c, buf, 0) },
	"barrier":         func(ctx context.Context, c *Comm, _ []float32) error { return Barrier(ctx, c) },
	"reduce": func(ctx context.Context, c *Comm, buf []float32) error {
		return Reduce(ctx, c, buf[:len(buf)/2], buf[len(buf)/2:], Max, 2)
	},
	"reduce-scatter": func(ctx context.Context, c *Comm, buf []float32) error {
		return ReduceScatter(ctx, c, buf[:len(buf)/4], buf[len(buf)/4:], Sum)
	},
	"all-gather": func(ctx context.Context, c *Comm, buf []float32) error {
		return AllGather(ctx, c, buf[len(buf)/4:], buf[:len(buf)/4])
	},
	"all-to-all": func(ctx context.Context, c *Comm, buf []float32) error {
		third := len(buf) / 6 * 3
		return AllToAll(ctx, c, buf[:third], buf[third:2*third])
	},
	"gather": func(ctx context.Context, c *Comm, buf []float32) error {
		return Gather(ctx, c, buf[len(buf)/4:], buf[:len(buf)/4], 2)
	},
	"scatter": func(ctx context.Context, c *Comm, buf []float32) error {
		return Scatter(ctx, c, buf[:len(buf)/4], buf[len(buf)/4:], 0)
	},
	"split": func(ctx context.Context, c *Comm, _ []float32) error {
		_, err := c.Split(ctx, 0, c.Rank())
		return err
	},
	"send": func(ctx context.Context, c *Comm, buf []float32) error {
		return fan(ctx, c, buf, Send[float32], Recv[float32])
	},
	"receive": func(ctx context.Context, c *Comm, buf []float32) error {
		return fan(ctx, c, buf[:9], Recv[float32], Send[float32])
	},
	"long receive": func(ctx context.Context, c *Comm, buf []float32) error {
		return fan(ctx, c, buf, Recv[float32], Send[float32])
	},
}

// fan lets rank 2 exchange messages with the others.
func fan(ctx context.Context, c *Comm, buf []float32, mine, theirs func(context.Context, *Comm, []float32, int, ...int) error) error {
	if c.Rank() < 2 {
		if err := theirs(ctx, c, buf, 2); err != nil {
			return err
		}
		return Barrier(ctx, c) // a short send has no need of rank 2
	}
	for peer := range 2 {
		if err := mine(ctx, c, buf, peer); err != nil {
			return err
		}
	}
	return Barrier(ctx, c)
}

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		if err := playRank(role); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playRank makes all-reduces until one fails, and returns its error.
func playRank(role string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w, err := Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	if role == roleBound {
		fmt.Println(allowedCPUs(), w.board().Spin())
		return nil
	}
	c, err := w.Comm(ctx)
	if err != nil {
		return err
	}
	if numbers, ok := strings.CutPrefix(role, roleProgram); ok {
		return playProgram(ctx, c, numbers)
	}
	if call, ok := strings.CutPrefix(role, roleInside); ok {
		return dieInside(ctx, c, calls[call])
	}
	for _, early := range []string{roleExits, roleEnds} {
		if call, ok := strings.CutPrefix(role, early); ok {
			return endEarly(ctx, w, c, calls[call], early)
		}
	}
	if role == roleLeaves || role == roleCloses {
		return leave(ctx, w, c, role)
	}
	buf := make([]float32, 3)
	for i := 0; ; i++ {
		if i == 200 && w.Rank() == 2 && role == roleFails {
			return w.Fail(errors.New("no more data"))
		}
		if i == 200 && w.Rank() == 2 {
			misbehave(w, role)
		}
		call := ctx
		if i >= 200 && role == roleStopped {
			var cancel context.CancelFunc
			call, cancel = context.WithTimeout(ctx, time.Second)
			defer cancel()
		}
		if err := AllReduce(call, c, buf, Sum); err != nil {
			return err
		}
	}
}

// leave lets rank 2 end while the others wait for a message of it. They have exchanged some
// before.
func leave(ctx context.Context, w *World, c *Comm, role string) error {
	buf := make([]float32, 10)
	if w.Rank() < 2 {
		if err := Recv(ctx, c, buf, 2); err != nil {
			return err
		}
		return Recv(ctx, c, buf, 2, 7)
	}
	for peer := range 2 {
		if err := Send(ctx, c, buf, peer); err != nil {
			return err
		}
	}
	time.Sleep(50 * time.Millisecond) // sleep: the others shall wait by then
	if role == roleLeaves {
		os.Exit(0)
	}
	return w.Close()
}

// dieInside makes the same call again and again. Rank 2 is killed while it waits in it.
func dieInside(ctx context.Context, c *Comm, call func(context.Context, *Comm, []float32) error) error {
	buf := make([]float32, 120_000)
	for i := 0; ; i++ {
		if i == 50 && c.Rank() == 2 {
			time.AfterFunc(30*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		} else if i == 50 {
			time.Sleep(60 * time.Millisecond) // sleep: rank 2 shall be killed before this rank comes
		}
		if err := call(ctx, c, buf); err != nil {
			return err
		}
	}
}

// endEarly makes the same call again and again. Rank 2 ends while the others are inside one.
func endEarly(ctx context.Context, w *World, c *Comm, call func(context.Context, *Comm, []float32) error, role string) error {
	buf := make([]float32, 120_000)
	for i := 0; ; i++ {
		if i == 50 && c.Rank() == 2 {
			awaitInside(w)
			if role == roleExits {
				os.Exit(0)
			}
			return w.Close()
		}
		if err := call(ctx, c, buf); err != nil {
			return err
		}
	}
}

// awaitInside waits until ranks 0 and 1 have been in the same calls for a while.
func awaitInside(w *World) {
	var last [2]uint64
	for same := 0; same < 20; {
		same++
		for local := range last {
			inside, entered := false, uint64(0)
			for _, p := range w.board().Positions(local, 1) {
				inside, entered = inside || p.Open(), entered+p.Entered
			}
			if !inside || entered != last[local] {
				same = 0
			}
			last[local] = entered
		}
		time.Sleep(time.Millisecond) // sleep: between two looks at the board
	}
}

func misbehave(w *World, role string) {
	sig := syscall.SIGKILL
	switch role {
	case roleStopped:
		sig = syscall.SIGSTOP
	case roleCorrupt:
		const half = 64 << 10 // of the last rank's page, which lies before the memory
		page := unsafe.Add(unsafe.Pointer(&w.board().Memory()[0]), -half)
		for i := range unsafe.Slice((*byte)(page), half) {
			*(*byte)(unsafe.Add(page, i)) = byte(i*7) | 1
		}
	}
	_ = syscall.Kill(os.Getpid(), sig)
	select {} // the signal comes soon
}

// rankProcess is a rank in a process of its own.
type rankProcess struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

// allowedCPUs returns the CPUs that this process may use, as the kernel lists them.
func allowedCPUs() string {
	text, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(text), "Cpus_allowed_list:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// TestWorkerBindsItself checks what a worker does with the CPUs of its welcome.
func TestWorkerBindsItself(t *testing.T) {
	all := allowedCPUs()
	text := all[:strings.IndexFunc(all+",", func(r rune) bool { return r < '0' || r > '9' })]
	first, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	b := newBoard(t)
	for want, cpus := range map[string][]int{text + " true": {first}, all + " false": {first, 8000}} { // no machine has CPU 8000
		answer := contract.Frame{Type: contract.TypeWelcome, Version: 1, Board: contract.BoardVersion, CPUs: cpus}
		path, _ := answerWith(t, answer, int(b.File().Fd()))
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envRole+"="+roleBound, "RANK=0", "WORLD_SIZE=1", "GORUN_WORKER_SOCKET="+path)
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("with CPUs %v the worker prints %q, %v; want %q", cpus, got, err, want)
		}
	}
}

// startProcesses starts three ranks, with an agent if socket is not "".
func startProcesses(t *testing.T, role, socket string) (ranks []*rankProcess) {
	t.Helper()
	host, port, _ := strings.Cut(serveStore(t), ":")
	for rank := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(
			os.Environ(), envRole+"="+role, "RANK="+strconv.Itoa(rank), "LOCAL_RANK="+strconv.Itoa(rank),
			"WORLD_SIZE=3", "LOCAL_WORLD_SIZE=3", "GROUP_RANK=0", "MASTER_ADDR="+host, "MASTER_PORT="+port, "GORUN_WORKER_SOCKET="+socket,
		)
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
		ranks = append(ranks, &rankProcess{cmd, bufio.NewScanner(out)})
	}
	return ranks
}

// openAgent opens the agent's socket for three workers, with a board.
func openAgent(t *testing.T) *socket.Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := socket.Open(ctx, socket.Options{Path: filepath.Join(t.TempDir(), "s"), Failed: func(socket.Report) {}})
	if err != nil {
		t.Fatal(err)
	}
	s.Begin(board.Round{Ranks: 3})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	return s
}

// TestAbortAfterARankDies kills one of three processes in an all-reduce, with its page of
// the board intact or full of junk. The agent's abort ends the other two.
func TestAbortAfterARankDies(t *testing.T) {
	for _, role := range []string{roleKilled, roleCorrupt} {
		t.Run(role, func(t *testing.T) {
			s := openAgent(t)
			ranks := startProcesses(t, role, s.Path())
			var exit *exec.ExitError
			if err := ranks[2].cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("rank 2 ended with %v", err)
			}
			s.Board().Calls() // the agent reads all pages
			s.Abort(rendezvous.Cause{Kind: rendezvous.KindSignal, Host: "n1", Rank: 2, Signal: syscall.SIGKILL})
			for _, rank := range []int{0, 1} {
				if ranks[rank].out.Scan(); !strings.HasPrefix(ranks[rank].out.Text(), "gorun: aborted: ") {
					t.Errorf("rank %d says %q", rank, ranks[rank].out.Text())
				}
			}
		})
	}
}

// TestDeathInsideEachCall kills one of three processes inside each kind of call. The others
// end with the agent's abort; without an agent a connection tells them.
func TestDeathInsideEachCall(t *testing.T) {
	for call := range calls {
		for _, agent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, agent %v", call, agent), func(t *testing.T) {
				path, want := "", "rank 2 is gone"
				var s *socket.Server
				if agent {
					s = openAgent(t)
					path, want = s.Path(), "gorun: aborted: "
				}
				ranks := startProcesses(t, roleInside+call, path)
				var exit *exec.ExitError
				if err := ranks[2].cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("rank 2 ended with %v", err)
				}
				if agent {
					s.Abort(rendezvous.Cause{Kind: rendezvous.KindSignal, Host: "n1", Rank: 2, Signal: syscall.SIGKILL})
				}
				for _, rank := range []int{0, 1} {
					if ranks[rank].out.Scan(); !strings.Contains(ranks[rank].out.Text(), want) {
						t.Errorf("rank %d says %q", rank, ranks[rank].out.Text())
					}
				}
			})
		}
	}
}

// TestEndInsideEachCall lets one of three processes end in order, with or without Close, while
// the others are inside a call of each kind. They end, and name it.
func TestEndInsideEachCall(t *testing.T) {
	for role, want := range map[string]string{roleExits: "rank 2 is gone: its connection closed", roleEnds: "rank 2 has closed its communicator"} {
		for call := range calls {
			for _, agent := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s%s, agent %v", role, call, agent), func(t *testing.T) {
					path := ""
					if agent {
						path = openAgent(t).Path()
					}
					ranks := startProcesses(t, role+call, path)
					for _, rank := range []int{0, 1} {
						ranks[rank].out.Scan()
						// One of the two may learn it from the other.
						if text := ranks[rank].out.Text(); !strings.Contains(text, want) {
							t.Errorf("rank %d says %q", rank, text)
						}
					}
					// What the others sent is unread, of which a rank says nothing that they have ended.
					unread := role == roleEnds && strings.Contains(call, "receive")
					ranks[2].out.Scan()
					if text := ranks[2].out.Text(); text != "" && !(unread && strings.Contains(text, "without receiving")) {
						t.Errorf("rank 2 says %q", text)
					}
				})
			}
		}
	}
}

// TestRanksThatEndAreNamed lets rank 2 end in order while the others wait for it.
func TestRanksThatEndAreNamed(t *testing.T) {
	for role, want := range map[string]string{roleLeaves: "rank 2 is gone: its connection closed", roleCloses: "rank 2 has closed its communicator"} {
		for name, path := range map[string]func() string{"with an agent": func() string { return openAgent(t).Path() }, "without": func() string { return "" }} {
			t.Run(role+" "+name, func(t *testing.T) {
				ranks := startProcesses(t, role, path())
				for _, rank := range []int{0, 1} {
					ranks[rank].out.Scan()
					// One of the two may learn it from the other.
					if text := ranks[rank].out.Text(); !strings.Contains(text, want) {
						t.Errorf("rank %d says %q", rank, text)
					}
				}
			})
		}
	}
}

// TestFailEndsTheOthersCalls lets one of three processes report a failure and close. The
// others learn the reason; the rank has not ended in order.
func TestFailEndsTheOthersCalls(t *testing.T) {
	for name, path := range map[string]func() string{"with an agent": func() string { return openAgent(t).Path() }, "without": func() string { return "" }} {
		t.Run(name, func(t *testing.T) {
			ranks := startProcesses(t, roleFails, path())
			for _, rank := range []int{0, 1} {
				ranks[rank].out.Scan()
				// One of the two may learn it from the other.
				if text := ranks[rank].out.Text(); !strings.Contains(text, "gave up: ") || !strings.Contains(text, "no more data") {
					t.Errorf("rank %d says %q", rank, text)
				}
			}
		})
	}
}

// TestDeadlineNamesAStoppedRank stops one of three processes. The others' deadline names
// it with its last call, which they read on the board: it answers no message.
func TestDeadlineNamesAStoppedRank(t *testing.T) {
	for name, path := range map[string]func() string{"with an agent": func() string { return openAgent(t).Path() }, "without": func() string { return "" }} {
		t.Run(name, func(t *testing.T) {
			ranks := startProcesses(t, roleStopped, path())
			var said []string
			for _, rank := range []int{0, 1} {
				ranks[rank].out.Scan()
				said = append(said, ranks[rank].out.Text())
			}
			// One of the two may learn of the other's deadline before its own.
			text := strings.Join(said, "\n")
			if !strings.Contains(text, "rank 2 has not arrived, it has left all-reduce #200 (sum of float32 x 3) at worker/process_test.go:") {
				t.Errorf("the other ranks say:\n%s", text)
			}
		})
	}
}
