package drive

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// newSearchingMachine returns the machine of a node that no agent answers.
func newSearchingMachine(join time.Duration) *Machine {
	self := rendezvous.Node{ID: "a", RunID: "run", Protocol: rendezvous.Protocol, Workers: 1, NodeRank: -1, Endpoint: -1, Min: 2, Max: 2}
	return &Machine{Machine: rendezvous.New(rendezvous.Config{Self: self, Endpoints: 1, Timeouts: rendezvous.Timeouts{Join: join, Rejoin: time.Second}}, time.Now())}
}

// recorder writes down what is asked of streams and fence.
type recorder struct {
	mu    sync.Mutex
	lines []string
	seals []context.Context // of all Seals that have begun
}

func (p *recorder) add(f string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf(f, args...))
}

// takeCommands returns the lines since the last call.
func (p *recorder) takeCommands() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := strings.Join(p.lines, ", ")
	p.lines = nil
	return out
}

func (p *recorder) Dial(_ context.Context, addr string)               { p.add("dial %s", addr) }
func (p *recorder) Send(c rendezvous.Conn, msg rendezvous.Message)    { p.add("send %d %s", c, msg.Type) }
func (p *recorder) Handled(c rendezvous.Conn)                         { p.add("handled %d", c) }
func (p *recorder) Close(c rendezvous.Conn)                           { p.add("close %d", c) }
func (p *recorder) Lead()                                             { p.add("lead") }
func (p *recorder) Vacate(round int)                                  { p.add("vacate %d", round) }
func (p *recorder) Run(context.Context, func(rendezvous.Event)) error { return nil }

// Unseal writes down how many Seals have not been given up.
func (p *recorder) Unseal(job string, round int) {
	p.add("unseal %s %d, %d go on", job, round, p.goOn())
}

// Seal goes on until it is given up.
func (p *recorder) Seal(ctx context.Context, c rendezvous.Seal) rendezvous.Sealed {
	p.add("seal %d, %d go on", c.Serial, p.goOn())
	p.mu.Lock()
	p.seals = append(p.seals, ctx)
	p.mu.Unlock()
	<-ctx.Done()
	return rendezvous.Sealed{Serial: c.Serial}
}

func (p *recorder) goOn() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ctx := range p.seals {
		if ctx.Err() == nil {
			n++
		}
	}
	return n
}

// TestStep checks that the owner sees a command, then it is executed, then comes the
// next. A message counts as handled when all is done.
func TestStep(t *testing.T) {
	hello := rendezvous.Received{Conn: 5, Msg: rendezvous.Message{Type: rendezvous.MsgHello}}
	tests := []struct {
		name  string
		event rendezvous.Event
		leave int // at this command, from 0
		want  string
	}{
		{"a message", hello, -1, "sees Send, send 5 redirect, sees Close, close 5, handled 5"},
		{"a message without an answer", rendezvous.Received{Conn: 6, Msg: rendezvous.Message{Type: rendezvous.MsgAck}}, -1, "handled 6"},
		{"the owner leaves at once", hello, 0, "sees Send"},
		{"the owner leaves in between", hello, 1, "sees Send, send 5 redirect, sees Close"},
		{"no message", rendezvous.Peers{All: []rendezvous.Peer{{ID: "b", Control: "b:1", Endpoint: 0}}}, -1, "sees Dial, dial b:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, p := newSearchingMachine(time.Hour), &recorder{}
			m.Streams = p
			for range m.Step(t.Context(), rendezvous.Tick{}) { // what it says of itself at first
			}
			p.takeCommands()
			i := 0
			for c := range m.Step(t.Context(), tt.event) {
				p.add("sees %s", strings.TrimPrefix(fmt.Sprintf("%T", c), "rendezvous."))
				if i == tt.leave {
					break
				}
				i++
			}
			if got := p.takeCommands(); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestFence checks that a Seal goes on beside the machine until it is given up, or
// something takes its place. It has ended before what follows begins.
func TestFence(t *testing.T) {
	seal := func(serial int) rendezvous.Seal { return rendezvous.Seal{Serial: serial} }
	tests := []struct {
		name     string
		commands []rendezvous.Command
		want     string
		answered []int // Seals, by serial
	}{
		{"a Seal goes on", []rendezvous.Command{rendezvous.Lead{}, seal(1), rendezvous.Vacate{Round: 3}}, "lead, seal 1, 0 go on, vacate 3", nil},
		{"it is given up", []rendezvous.Command{seal(1), rendezvous.GiveUp{}}, "seal 1, 0 go on", []int{1}},
		{"it is replaced", []rendezvous.Command{seal(1), seal(2), seal(3)}, "seal 1, 0 go on, seal 2, 0 go on, seal 3, 0 go on", []int{1, 2}},
		{"the job is over", []rendezvous.Command{seal(1), rendezvous.Unseal{Job: "j", Round: 2}}, "seal 1, 0 go on, unseal j 2, 0 go on", []int{1}},
		{"none goes on", []rendezvous.Command{rendezvous.GiveUp{}, rendezvous.GiveUp{}, rendezvous.Unseal{Job: "j"}}, "unseal j 0, 0 go on", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wg sync.WaitGroup
				p, q := &recorder{}, NewQueue[rendezvous.Event]()
				m := newSearchingMachine(time.Hour)
				m.Fence, m.Post, m.Wait = p, q.Put, &wg
				ctx, cancel := context.WithCancel(t.Context())
				for _, c := range tt.commands {
					m.execute(ctx, c)
					synctest.Wait()
				}
				if got := p.takeCommands(); got != tt.want {
					t.Errorf("%s\nwant %s", got, tt.want)
				}
				var answered []int
				for _, e := range q.TakeAll() {
					answered = append(answered, e.(rendezvous.Sealed).Serial)
				}
				if !slices.Equal(answered, tt.answered) {
					t.Errorf("answered: %v, want %v", answered, tt.answered)
				}
				cancel() // the owner ends, and awaits the rest
				wg.Wait()
				if n := p.goOn(); n != 0 {
					t.Errorf("%d Seals go on", n)
				}
			})
		})
	}
}
