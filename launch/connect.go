package launch

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/gossip"
	"github.com/gorun/gorun/rendezvous/portshare"
)

// retry is the pause between two attempts to reach a coordinator.
const retry = 50 * time.Millisecond

// connect opens this agent's ports and starts looking for the others.
func (a *agent) connect(ctx context.Context) error {
	sp := a.opts.Spec
	switch {
	case alone(&sp):
		return a.connectAlone(ctx)
	case sp.Backend == spec.Static:
		return a.connectStatic(ctx)
	case sp.Backend == spec.EtcdV3:
		return a.connectEtcd(ctx)
	default:
		return a.connectGossip(ctx)
	}
}

// alone reports whether this agent meets nobody.
func alone(sp *spec.Spec) bool {
	return sp.Backend == spec.Standalone || sp.Backend == spec.Static && sp.MaxNodes == 1
}

// offerStore binds the first store.
func (a *agent) offerStore(ctx context.Context, open func() (net.Listener, error)) error {
	return a.offerStoreAt(ctx, a.node.Addr, open)
}

// offerStoreAt is offerStore for workers that reach it by another address or name.
func (a *agent) offerStoreAt(ctx context.Context, addr string, open func() (net.Listener, error)) error {
	a.stores = &stores{open: open, addr: addr, pool: a.pool}
	a.stores.door.open, a.stores.door.turnedAway = a.opts.Spec.StoreOpen, a.turnedAway
	var err error
	a.node.Store, err = a.stores.renew(context.WithoutCancel(ctx))
	return err
}

// findPlace looks this node and the endpoints up.
func (a *agent) findPlace(ctx context.Context, sp spec.Spec) (place, error) {
	var names []string
	for _, e := range sp.Endpoints {
		names = append(names, e.Host)
	}
	what := "looking up " + strings.Join(names, ", ")
	p, err := await(ctx, a, what, func(ctx context.Context) (place, error) { return findPlace(ctx, sp) })
	return reachable(sp, p), err
}

func listenAt(addr string, port int) (net.Listener, error) {
	l, err := listenTCP(addr, port)
	if err != nil {
		return nil, fmt.Errorf("cannot open port %d on %s: %w; is another job running there? Give --master-port", port, addr, err)
	}
	return l, nil
}

// connectStatic: everyone knows the one port of node 0, which serves the
// rendezvous and the store.
func (a *agent) connectStatic(ctx context.Context) error {
	sp := a.opts.Spec
	place, err := a.findPlace(ctx, sp)
	if err != nil {
		return err
	}
	a.node.Addr = place.addr
	master := sp.Endpoints[0].String()
	if sp.NodeRank != 0 {
		a.stores = &stores{} // only node 0 can serve the store
		a.newMachine(1, master, false)
		a.startPlane(ctx, nil)
		a.events.post(rendezvous.Peers{All: []rendezvous.Peer{{ID: "master", Name: master, Control: master, Endpoint: 0}}})
		return nil
	}
	bind := place.bind
	if place.serves < 0 { // the name leads elsewhere (NAT): the port is still ours
		bind = ""
	}
	l, err := listenAt(bind, sp.MasterPort)
	if err != nil {
		return fmt.Errorf("%w%s", err, a.ownPort(sp.Endpoints[0]))
	}
	share := portshare.New(a.pool.Listen(l))
	a.wg.Go(func() {
		if err := share.Serve(ctx); err != nil {
			a.events.trouble(err)
		}
	})
	a.node.Control, a.node.Endpoint = master, 0 // as the others call it
	if err := a.offerStore(ctx, func() (net.Listener, error) { return share.Others(), nil }); err != nil {
		return err
	}
	a.newMachine(1, master, false)
	a.startPlane(ctx, share.GRPC())
	a.events.post(rendezvous.Peers{All: []rendezvous.Peer{{ID: a.node.ID, Name: a.node.Name(), Control: a.node.Control, Endpoint: 0}}})
	return nil
}

// connectGossip finds the others with memberlist.
func (a *agent) connectGossip(ctx context.Context) error {
	sp := a.opts.Spec
	var err error
	if local := a.opts.Local; local != nil {
		sp.LocalAddr, sp.NodeRank = local.Addr, local.Index
		a.node.NodeRank = local.Index
		sp.Endpoints = []spec.Endpoint{{Host: local.Addr}}
		if local.Index > 0 {
			at, err := await(ctx, a, "waiting for the first node of this machine to say where to meet", local.Endpoint)
			if err != nil {
				return err
			}
			if sp.Endpoints, err = spec.ParseEndpoints(at, spec.DefaultPort); err != nil {
				return err
			}
		}
	}
	place, err := a.findPlace(ctx, sp)
	if err != nil {
		return err
	}
	a.node.Addr = place.addr
	l, err := listen(place.bind, sp.Ports)
	if err != nil {
		return err
	}
	a.node.Control = net.JoinHostPort(place.addr, portOf(l))
	if err := a.offerStore(ctx, func() (net.Listener, error) { return listen(place.bind, sp.Ports) }); err != nil {
		l.Close()
		return err
	}
	var endpoints []string
	for _, e := range sp.Endpoints {
		endpoints = append(endpoints, e.String())
	}
	g, err := gossip.Open(gossip.Config{
		ID: a.node.ID, Name: a.node.Name(), RunID: sp.RunID, Control: a.node.Control, Bind: place.bind,
		Advertise: place.addr, Endpoints: endpoints, Serves: place.serves, Ports: func() []int { return ports(sp.Ports) },
		Key: a.gossipKey(), Pool: a.pool, Most: max(1024, 4*sp.MaxNodes), Other: func(host string) { a.events.Put(otherEvent{at: host}) },
		Turned: func(r rendezvous.Refused) { a.events.post(r) },
	})
	if err != nil {
		l.Close()
		return err
	}
	a.node.Endpoint = g.Serves()
	if local := a.opts.Local; local != nil && local.Index == 0 {
		local.Announce(net.JoinHostPort(place.addr, fmt.Sprint(g.Port())))
	}
	a.newMachine(len(endpoints), strings.Join(endpoints, ", "), true)
	a.startPlane(ctx, l)
	a.wg.Go(func() {
		if err := g.Run(ctx, func(p rendezvous.Peers) { a.events.post(p) }); err != nil {
			a.events.trouble(err)
		}
	})
	return nil
}

func (a *agent) newMachine(endpoints int, where string, takeover bool) {
	c := a.opts.Spec.Conf
	m := rendezvous.New(rendezvous.Config{
		Self: a.node, MaxRestarts: a.opts.Spec.MaxRestarts, Check: a.check != nil, Proofs: true, Endpoints: endpoints, Where: where, Flags: meetingFlags(a.opts.Spec), Takeover: takeover,
		Fenced: a.fence != nil, Grow: !a.opts.Spec.JoinWaits,
		Join: c.JoinTimeout, LastCall: c.LastCallTimeout, Rejoin: silence(c), Retry: retry, Token: newToken,
	}, time.Now())
	a.machine = &drive.Machine{Machine: m, Fence: a.fence, Post: a.events.post, Wait: &a.wg}
}

// meetingFlags are the flags that the nodes of a static job must share. Its run
// id has a default that fits all.
func meetingFlags(sp spec.Spec) string {
	if sp.Backend != spec.Static {
		return ""
	}
	return strings.Join(sp.MeetBy, " and ")
}

// silence is the time after which a node that says nothing counts as lost.
func silence(c spec.Conf) time.Duration {
	return time.Duration(c.KeepAliveMaxAttempt) * c.KeepAliveInterval
}

// startPlane serves the control plane; without a listener it only dials. A dial
// to a node that was cut off must fail well within the time that survivors of a
// lost coordinator have to find each other, which is that of the silence.
func (a *agent) startPlane(ctx context.Context, l net.Listener) {
	c := a.opts.Spec.Conf
	var hush time.Duration
	if a.fence != nil {
		// A node that is cut off is quiet for a third of the time after which its
		// membership lapses, and has been asked for a sign of life twice by then.
		ttl := a.opts.Spec.Etcd.TTL
		hush, c.KeepAliveInterval = ttl*3/10, min(c.KeepAliveInterval, ttl/8)
	}
	plane := control.New(control.Options{
		Interval: c.KeepAliveInterval, Silence: silence(a.opts.Spec.Conf), Hush: hush, Dial: min(3*time.Second, silence(a.opts.Spec.Conf)/3),
		Post: a.events.post, Failed: a.events.trouble,
		Identity: a.identity, TLS: a.tls, Other: func(ip string, dialed bool) { a.events.Put(otherEvent{ip, dialed}) },
		Stranger: a.stranger,
	})
	a.machine.Streams = plane
	if l != nil {
		l = a.pool.Listen(l)
	}
	a.wg.Go(func() { plane.Serve(ctx, l) })
}
