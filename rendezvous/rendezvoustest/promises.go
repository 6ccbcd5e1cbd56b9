package rendezvoustest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// client is an agent without a machine: only its backend, which a case calls.
type client struct {
	r     *Rig
	node  rendezvous.Node
	fence rendezvous.Fence
	stop  context.CancelFunc
	ended chan struct{}

	mu     sync.Mutex
	events []rendezvous.Event
}

// clients starts n agents of a run, of which the marked one comes first and leads.
func (r *Rig) clients(j Job, n int) []*client {
	var cs []*client
	for i := range n {
		r.seq++
		l, err := net.Listen("tcp", j.host(r)(i)+":0") // in place of the control plane, so that others can see that this agent lives
		if err != nil {
			r.Fatal(err)
		}
		c := &client{r: r, ended: make(chan struct{}), node: rendezvous.Node{
			ID: rendezvous.NodeID(fmt.Sprintf("%s%03d", r.name, r.seq)), RunID: j.Run, Protocol: rendezvous.Protocol, Host: fmt.Sprintf("n%d", i),
			Addr: j.host(r)(i), Control: l.Addr().String(), Workers: 1, NodeRank: -1, Endpoint: -1,
		}}
		b, err := r.Fleet.Open(Seat{Node: &c.node, Index: i, Endpoints: 1, Host: j.host(r)})
		if err != nil {
			r.Fatal(err)
		}
		c.fence = b.(rendezvous.Fence)
		ctx, cancel := context.WithCancel(r.ctx)
		c.stop = cancel
		go func() {
			defer close(c.ended)
			defer l.Close()
			if err := c.fence.Run(ctx, c.post); err != nil {
				r.Errorf("%s: %v", c.node.Host, err)
			}
		}()
		r.Cleanup(func() {
			cancel()
			<-c.ended
		})
		r.Await("a membership", func() bool { return slices.Contains(c.sees(), c.node.ID) })
		cs = append(cs, c)
	}
	r.Await("one of them is marked", func() bool { return cs[0].marked() != "" })
	i := slices.IndexFunc(cs, func(c *client) bool { return c.node.ID == cs[0].marked() })
	cs[0], cs[i] = cs[i], cs[0]
	cs[0].fence.Lead()
	r.Await("the leading agent sees all agents", func() bool { return len(cs[0].sees()) == n })
	return cs
}

func (c *client) post(e rendezvous.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// latest returns the last event of a kind, if there was one.
func latest[E rendezvous.Event](c *client) (e E, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range slices.Backward(c.events) {
		if e, ok = o.(E); ok {
			return e, true
		}
	}
	return e, false
}

func (c *client) sees() (ids []rendezvous.NodeID) {
	p, _ := latest[rendezvous.Peers](c)
	for _, o := range p.All {
		ids = append(ids, o.ID)
	}
	return ids
}

// marked returns the agent that may form the first world, as this agent sees it.
func (c *client) marked() (id rendezvous.NodeID) {
	p, _ := latest[rendezvous.Peers](c)
	for _, o := range p.All {
		if o.Endpoint == 0 {
			id += o.ID
		}
	}
	return id
}

func world(job string, term, round int, by *client, members ...*client) rendezvous.World {
	w := rendezvous.World{
		RunID: by.node.RunID, Job: job, Term: term, Round: round, Coordinator: by.node.ID, Size: len(members),
		Roles: map[string]int{"": len(members)},
	}
	for i, m := range members {
		w.Members = append(w.Members, rendezvous.Member{
			ID: m.node.ID, Host: m.node.Host, Addr: m.node.Addr, Control: m.node.Control, Workers: 1, FirstRank: i, RoleRank: i,
		})
	}
	return w
}

// seal asks for a Seal and waits for at most limit.
func (c *client) seal(limit time.Duration, s rendezvous.Seal) rendezvous.Sealed {
	s.Later = s.World.Round > 0
	ctx, cancel := context.WithTimeout(c.r.ctx, limit)
	defer cancel()
	return c.fence.Seal(ctx, s)
}

// mustSeal seals a world that the fence has no reason to refuse.
func (c *client) mustSeal(s rendezvous.Seal) {
	c.r.Helper()
	if got := c.seal(c.r.Timing.Limit, s); !got.OK {
		c.r.Fatalf("round %d was not sealed: %+v", s.World.Round, got)
	}
}

func ids(cs ...*client) (out []rendezvous.NodeID) {
	for _, c := range cs {
		out = append(out, c.node.ID)
	}
	return out
}

// fencePromises returns the cases of a Fence without machines.
func fencePromises() []testCase {
	// releases makes a case in which a world that leaves out a node of the last one
	// waits until that node releases it.
	releases := func(name string, cuts bool, release func(*Rig, *client)) testCase {
		return testCase{name: "a seal waits for a node that " + name, fences: true, cuts: cuts, play: func(r *Rig) {
			cs := r.clients(r.Job(1, 1), 3)
			cs[0].mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 1, 0, cs[0], cs...)})
			next := rendezvous.Seal{Serial: 2, World: world("a", 1, 1, cs[0], cs[:2]...)}
			ctx, cancel := context.WithCancel(r.ctx)
			answer := make(chan rendezvous.Sealed, 1)
			next.Later = true
			go func() { answer <- cs[0].fence.Seal(ctx, next) }()
			r.Within(5*time.Second, "the seal says what it waits for", func() bool {
				w, ok := latest[rendezvous.Waiting](cs[0])
				return ok && w.Serial == 2 && w.Text != ""
			})
			cancel()
			if got := <-answer; got.OK || got.Refused || got.Serial != 2 {
				r.Fatalf("without the third node's word: %+v", got)
			}
			release(r, cs[2])
			next.Serial = 3
			cs[0].mustSeal(next)
			if l, ok := latest[rendezvous.Unconfirmed](cs[2]); cuts && (!ok || !l.On) {
				r.Error("the node that was cut off did not learn it before the others")
			}
		}}
	}
	return []testCase{
		{name: "one of many first worlds is sealed", fences: true, play: func(r *Rig) {
			j := r.Job(1, 1)
			cs := r.clients(j, 5)
			got := make([]rendezvous.Sealed, len(cs))
			var wg sync.WaitGroup
			for i, c := range cs {
				wg.Go(func() {
					got[i] = c.seal(r.Traits.TTL, rendezvous.Seal{Serial: i + 1, World: world(fmt.Sprint("job", i), 1, 0, c, c)})
				})
			}
			wg.Wait()
			ok := 0
			for i, s := range got {
				if s.Serial != i+1 || s.OK && s.Refused {
					r.Errorf("answer to %d: %+v", i+1, s)
				}
				if s.OK {
					ok++
				}
			}
			if ok != 1 {
				r.Errorf("%d worlds were sealed at once: %+v", ok, got)
			}
		}},
		{name: "a stale coordinator cannot seal", fences: true, play: func(r *Rig) {
			cs := r.clients(r.Job(1, 1), 2)
			old, successor := cs[0], cs[1]
			old.mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 1, 0, old, cs...)})
			successor.fence.Lead()
			successor.mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 2, 1, successor, successor), Lost: ids(old)})
			if got := old.seal(r.Timing.Limit, rendezvous.Seal{Serial: 2, World: world("a", 1, 1, old, cs...)}); got.OK || !got.Refused || got.Text == "" {
				r.Errorf("the old coordinator's next world: %+v", got)
			}
			r.Await("the old one learns which agent leads", func() bool {
				e, ok := latest[rendezvous.Elsewhere](old)
				return ok && e.Control == successor.node.Control && e.Term == 2 && e.Round == 1 && e.Job == "a" && slices.Equal(e.Members, ids(successor))
			})
		}},
		{name: "a seal that goes on is refused when another is done", fences: true, play: func(r *Rig) {
			cs := r.clients(r.Job(1, 1), 3)
			cs[0].mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 1, 0, cs[0], cs...)})
			answer := make(chan rendezvous.Sealed, 1)
			go func() {
				answer <- cs[0].seal(r.Timing.Limit, rendezvous.Seal{Serial: 2, World: world("a", 1, 1, cs[0], cs[0])})
			}()
			r.Await("the first one waits", func() bool { w, ok := latest[rendezvous.Waiting](cs[0]); return ok && w.Serial == 2 })
			cs[1].mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 2, 1, cs[1], cs[1:]...), Here: ids(cs[0])})
			if got := <-answer; !got.Refused || got.OK || got.Serial != 2 {
				r.Errorf("the first one got %+v", got)
			}
		}},
		{name: "one agent is marked", fences: true, play: func(r *Rig) {
			cs := r.clients(r.Job(1, 1), 3)
			first := cs[0].marked()
			if len(first) != len(cs[0].node.ID) {
				r.Fatalf("%q is marked", first)
			}
			r.Await("all see the same one", func() bool {
				return !slices.ContainsFunc(cs, func(c *client) bool { return c.marked() != first })
			})
			i := slices.IndexFunc(cs, func(c *client) bool { return c.node.ID == first })
			cs[i].stop()
			<-cs[i].ended
			rest := slices.Delete(slices.Clone(cs), i, i+1)
			r.Await("another one is marked after it left", func() bool {
				m := rest[0].marked()
				return m != first && m != "" && m == rest[1].marked()
			})
		}},
		{name: "a world can be sealed at once with the nodes that answer", fences: true, play: func(r *Rig) {
			cs := r.clients(r.Job(1, 1), 4)
			cs[0].mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 1, 0, cs[0], cs...)})
			s := rendezvous.Seal{Serial: 2, World: world("a", 1, 1, cs[0], cs[:2]...), Here: ids(cs[2]), Lost: ids(cs[3])}
			if got := cs[0].seal(r.Traits.TTL/2, s); !got.OK {
				r.Errorf("%+v", got)
			}
		}},
		{name: "a job that is over makes room", fences: true, play: func(r *Rig) {
			j := r.Job(1, 1)
			cs := r.clients(j, 2)
			cs[0].mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 1, 0, cs[0], cs[0])})
			cs[0].fence.Unseal("a", 0)
			r.Await("the other agent may form a world", func() bool {
				return cs[1].seal(r.Traits.TTL, rendezvous.Seal{Serial: 1, World: world("b", 1, 0, cs[1], cs[1])}).OK
			})
			cs[0].fence.Unseal("a", 0) // says nothing of the other job
			if got := cs[0].seal(r.Traits.TTL/2, rendezvous.Seal{Serial: 2, World: world("c", 1, 0, cs[0], cs[0])}); got.OK {
				r.Error("the second job's world was taken away by the end of the first")
			}
			cs[1].fence.Unseal("b", 0)
			for _, c := range cs {
				c.stop()
				<-c.ended
			}
			r.AwaitClean(j)
		}},
		{name: "a job that is over is not run again", fences: true, play: func(r *Rig) {
			cs := r.clients(r.Job(1, 1), 2)
			cs[0].mustSeal(rendezvous.Seal{Serial: 1, World: world("a", 1, 0, cs[0], cs...)})
			cs[0].fence.Unseal("a", 0)
			r.Await("the other agent hears that", func() bool {
				s := cs[1].seal(r.Traits.TTL, rendezvous.Seal{Serial: 1, World: world("a", 2, 1, cs[1], cs[1]), Here: ids(cs[0])})
				if s.OK {
					r.Fatal("it was sealed")
				}
				return s.Refused && s.Ended
			})
		}},
		{name: "a seal waits for another job, whatever its nodes answered before", fences: true, play: func(r *Rig) {
			cs := r.clients(r.Job(1, 1), 2)
			cs[1].mustSeal(rendezvous.Seal{Serial: 1, World: world("b", 1, 0, cs[1], cs[1]), Here: ids(cs[0])})
			cs[1].fence.Vacate(0) // between two rounds
			for i, s := range []rendezvous.Seal{
				{World: world("a", 1, 0, cs[0], cs[0]), Here: ids(cs[1])},
				{World: world("a", 1, 0, cs[0], cs...)},
			} {
				s.Serial = i + 1
				if got := cs[0].seal(r.Traits.TTL/2, s); got.OK {
					r.Errorf("seal %d was done while the other job went on", s.Serial)
				}
			}
			cs[1].fence.Unseal("b", 0)
			r.Await("the first agent may form a world after that job", func() bool {
				return cs[0].seal(r.Traits.TTL, rendezvous.Seal{Serial: 3, World: world("a", 1, 0, cs[0], cs...)}).OK
			})
		}},
		releases("vacates", false, func(_ *Rig, c *client) { c.fence.Vacate(0) }),
		releases("leaves", false, func(_ *Rig, c *client) {
			c.stop()
			<-c.ended
		}),
		releases("is cut off", true, func(r *Rig, c *client) { r.Fleet.Cut(c.node.ID, true) }),
	}
}
