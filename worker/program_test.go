package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleProgram and three numbers make the test program a rank that makes random calls: the
// seed, the rank that is killed, -1 for none, and the step in which that happens.
const roleProgram = "program "

// playProgram is a rank of TestRandomPrograms.
func playProgram(ctx context.Context, c *Comm, role string) error {
	var seed uint64
	var victim, at int
	if _, err := fmt.Sscan(role, &seed, &victim, &at); err != nil {
		return err
	}
	p := program{comms: []*Comm{c}}
	rng := rand.New(rand.NewPCG(seed, 8)) // all ranks draw the same
	for p.step = range programSteps {
		count, which, what, root := 1+rng.IntN(60), rng.IntN(3), rng.IntN(11), rng.IntN(9)
		if rng.IntN(5) == 0 {
			count = 1 + rng.IntN(60_000)
		}
		if p.step == at && c.Rank() == victim {
			time.AfterFunc(time.Duration(rng.IntN(1500))*time.Microsecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
		if err := p.call(ctx, p.comms[which%len(p.comms)], what, count, root); err != nil {
			return err
		}
	}
	if c.Rank() == victim {
		select {} // it dies after its last call
	}
	return nil
}

const programSteps = 60

// program is a rank's part of a random program.
type program struct {
	comms []*Comm
	step  int
}

// value is element i of what a rank of a communicator gives in a step.
func (p *program) value(rank, i int) int64 { return int64((rank+1)*(p.step+3) + i%7) }

func (p *program) given(rank, count int) []int64 {
	b := make([]int64, count)
	for i := range b {
		b[i] = p.value(rank, i)
	}
	return b
}

// sum is element i of the sum over a communicator's ranks.
func (p *program) sum(size, i int) int64 {
	s := int64(0)
	for r := range size {
		s += p.value(r, i)
	}
	return s
}

// call makes one call on c and compares its result with the plain one.
func (p *program) call(ctx context.Context, c *Comm, what, count, root int) error {
	n, me := c.Size(), c.Rank()
	root %= n
	mine, want := p.given(me, count), make([]int64, count)
	for i := range want {
		want[i] = p.sum(n, i)
	}
	got := mine
	var err error
	switch what {
	case 0:
		if len(p.comms) == 3 {
			return Barrier(ctx, c)
		}
		sub, err := c.Split(ctx, me%(1+root%3), -me)
		p.comms = append(p.comms, sub)
		return err
	case 1:
		err = Broadcast(ctx, c, mine, root)
		want = p.given(root, count)
	case 2:
		got = make([]int64, n*count)
		err = AllGather(ctx, c, got, mine)
		want = nil
		for r := range n {
			want = append(want, p.given(r, count)...)
		}
	case 3:
		got = make([]int64, count)
		err = ReduceScatter(ctx, c, got, p.given(me, n*count), Sum)
		for i := range want {
			want[i] = p.sum(n, me*count+i)
		}
	case 4:
		got = make([]int64, n*count)
		err = AllToAll(ctx, c, got, p.given(me, n*count))
		want = nil
		for r := range n {
			want = append(want, p.given(r, n*count)[me*count:][:count]...)
		}
	case 5:
		got = make([]int64, count)
		err = Reduce(ctx, c, got, mine, Sum, root)
		if me != root {
			return err
		}
	case 6: // several under way
		got = p.given(me, 5)
		first, second := IAllReduce(c, mine, Sum), IAllReduce(c, got, Sum)
		if err := WaitAll(ctx, second, first); err != nil {
			return err
		}
		want = want[:min(5, count)]
		if !slices.Equal(mine[:len(want)], want) {
			return fmt.Errorf("WRONG: the first of two all-reduces of %d ranks", n)
		}
		got = got[:len(want)]
	case 7, 8: // messages round a ring, on a world of one too
		next, last := (me+1)%n, (me+n-1)%n
		got = make([]int64, count)
		err = SendRecv(ctx, c, mine, next, got, last, root)
		want = p.given(last, count)
	case 9: // messages of all to all
		return p.everyPair(ctx, c, count)
	default:
		err = AllReduce(ctx, c, mine, Sum)
	}
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("WRONG: call %d of kind %d of rank %d of %d", p.step, what, me, n)
	}
	return err
}

func (p *program) everyPair(ctx context.Context, c *Comm, count int) error {
	var all []*Request
	got := map[int][]int64{}
	for r := range c.Size() {
		if r != c.Rank() {
			got[r] = make([]int64, count)
			all = append(all, Irecv(c, got[r], r, p.step), Isend(c, p.given(c.Rank(), count), r, p.step))
		}
	}
	if err := WaitAll(ctx, all...); err != nil {
		return err
	}
	for r, b := range got {
		if !slices.Equal(b, p.given(r, count)) {
			return fmt.Errorf("WRONG: message of rank %d of %d", r, c.Size())
		}
	}
	return nil
}

// TestRandomPrograms lets processes on nodes with so many ranks make the same random calls:
// collectives, asynchronous ones, splits and messages. In some one rank is killed at a
// random step. The others end with an error that names it, and none has a wrong result.
func TestRandomPrograms(t *testing.T) {
	for seed, perNode := range [][]int{{1}, {2}, {2, 1}, {4}, {1, 1, 3}, {3, 3}, {4, 2, 1}, {5, 3}, {9}} {
		size := 0
		for _, n := range perNode {
			size += n
		}
		for _, kill := range []bool{false, true} {
			if kill && size == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%v, kill %v", perNode, kill), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), 6))
				victim, at := -1, 0
				if kill {
					victim, at = rng.IntN(size), 2+rng.IntN(programSteps-2)
				}
				role := fmt.Sprint(roleProgram, seed, " ", victim, " ", at)
				said := playProcesses(t, role, perNode)
				for rank, text := range said {
					switch {
					case rank == victim:
					case strings.Contains(text, "WRONG") || !kill && text != "":
						t.Errorf("rank %d says %q", rank, text)
					case kill && !strings.Contains(text, fmt.Sprintf("rank %d ", victim)):
						t.Errorf("rank %d does not name rank %d, which was killed in step %d; the ranks say:\n%s", rank, victim, at, strings.Join(said, "\n"))
					}
				}
			})
		}
	}
}

// playProcesses runs ranks on nodes without an agent, and returns what each has said at its
// end.
func playProcesses(t *testing.T, role string, perNode []int) []string {
	t.Helper()
	host, port, _ := strings.Cut(serveStore(t), ":")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	size := 0
	for _, n := range perNode {
		size += n
	}
	var outs []io.Reader
	var cmds []*exec.Cmd
	for node, n := range perNode {
		for local := range n {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(
				os.Environ(), envRole+"="+role, "RANK="+strconv.Itoa(len(cmds)), "LOCAL_RANK="+strconv.Itoa(local),
				"WORLD_SIZE="+strconv.Itoa(size), "LOCAL_WORLD_SIZE="+strconv.Itoa(n), "GROUP_RANK="+strconv.Itoa(node),
				"MASTER_ADDR="+host, "MASTER_PORT="+port, "GORUN_WORKER_SOCKET=",
			)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			cmds, outs = append(cmds, cmd), append(outs, out)
		}
	}
	said := make([]string, size)
	for rank, out := range outs {
		if lines := bufio.NewScanner(out); lines.Scan() {
			said[rank] = lines.Text()
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmds[rank].Wait()
	}
	if ctx.Err() != nil {
		t.Fatal("a rank hangs")
	}
	return said
}
