package meet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd"
	"github.com/gorun/gorun/rendezvous/gossip"
	"github.com/gorun/gorun/rendezvous/portshare"
)

// openAlone opens what a single node needs: a store for its workers.
func (s *Session) openAlone(ctx context.Context) (backend, error) {
	n := &s.opts.Network
	b := backend{node: s.opts.Node, endpointCount: 1, endpointNames: "this node"}
	b.node.Addr, b.node.Endpoint = "127.0.0.1", 0
	bind := b.node.Addr
	if n.LocalAddr != "" {
		ips, err := waitFor(ctx, s, "looking up "+n.LocalAddr, func(ctx context.Context) ([]netip.Addr, error) {
			return lookupLocal(ctx, n.LocalAddr)
		})
		if err != nil {
			return b, err
		}
		b.node.Addr, bind = n.LocalAddr, ips[0].String()
	}
	master := b.node.Addr
	if n.MasterAddr != "" {
		found, err := waitFor(ctx, s, "looking up "+n.MasterAddr, func(ctx context.Context) (masterAddress, error) {
			return lookupMaster(ctx, n.MasterAddr), nil
		})
		switch {
		case err != nil:
			return b, err
		case found.why != "":
			s.opts.Note("", fmt.Sprintf("%s %s is ignored, because the job has one node and %s; MASTER_ADDR is %s", n.MasterFrom[0], n.MasterAddr, found.why, master))
		default:
			master, bind = n.MasterAddr, found.ip
		}
	}
	open := func() (net.Listener, error) { return listen(bind, n.Ports) }
	switch {
	case n.StoreOwner == spec.AgentNearPort && n.Ports == (spec.PortRange{}):
		open = func() (net.Listener, error) { return listenNear(bind, n.MasterPort) }
	case n.StoreOwner == spec.AgentAtPort && n.MasterPort > 0:
		open = func() (net.Listener, error) { return listenAt(bind, n.MasterPort) }
	}
	b.peers = []rendezvous.Peer{{ID: b.node.ID, Endpoint: 0}}
	var err error
	b.store, err = s.newStore(master, open)
	return b, err
}

// masterAddress says whether a name that the user gave is an address of this machine.
type masterAddress struct {
	ip  string // the address of this machine that the name has
	why string // why the name has none
}

// lookupMaster looks up the address that the user gave. torchrun passes the address
// to the workers unchanged. An unknown address, or an address of another machine,
// would make them hang. It is not an error, because schedulers set the variable for
// every job.
func lookupMaster(ctx context.Context, host string) masterAddress {
	ips, err := lookupSoon(ctx, host)
	if err != nil {
		return masterAddress{why: fmt.Sprintf("gorun cannot look up the name (%v)", err)}
	}
	if i := slices.IndexFunc(ips, isLocal); i >= 0 {
		return masterAddress{ip: ips[i].String()}
	}
	return masterAddress{why: "this machine does not have that address"}
}

// openStatic opens the one port of node 0 for the rendezvous and the store. Other
// nodes open none.
func (s *Session) openStatic(ctx context.Context) (backend, error) {
	n := &s.opts.Network
	master := n.Endpoints[0].String()
	b := backend{node: s.opts.Node, endpointCount: 1, endpointNames: master}
	at, err := s.findAddress(ctx, n)
	if err != nil {
		return b, err
	}
	b.node.Addr = at.ip
	if b.node.NodeRank != 0 {
		if err := s.findSecret(ctx, n.Endpoints, -1); err != nil {
			return b, err
		}
		b.store = &Store{} // node 0 has the store
		b.peers = []rendezvous.Peer{{ID: "master", Name: master, Control: master, Endpoint: 0}}
		return b, nil
	}
	bind := at.bind
	if at.endpoint < 0 { // the name stands for another address (NAT); the port is still on this node
		bind = ""
	}
	l, err := listenAt(bind, n.MasterPort)
	if err != nil {
		return b, fmt.Errorf("%w%s", err, s.suggestPort(n.Endpoints[0]))
	}
	if err := s.findSecret(ctx, n.Endpoints, 0); err != nil {
		l.Close()
		return b, err
	}
	share := portshare.New(s.opts.Pool.Listen(l))
	b.control, b.parts = share.GRPC(), append([]part{share.Serve}, s.handOut(share)...)
	b.node.Control, b.node.Endpoint = master, 0 // the address that the others use
	b.peers = []rendezvous.Peer{{ID: b.node.ID, Name: b.node.Name(), Control: b.node.Control, Endpoint: 0}}
	b.store, err = s.newStore(at.ip, func() (net.Listener, error) { return share.Others(), nil })
	return b, err
}

// openGossip opens memberlist, which finds the other nodes.
func (s *Session) openGossip(ctx context.Context) (backend, error) {
	n, local := s.opts.Network, s.opts.Local
	b := backend{takeover: true}
	if local.Addr != "" {
		n.Endpoints = []spec.Endpoint{{Host: local.Addr}}
	}
	if local.Endpoint != nil {
		at, err := waitFor(ctx, s, "waiting for the endpoint of this machine's first node", local.Endpoint)
		if err != nil {
			return b, err
		}
		if n.Endpoints, err = spec.ParseEndpoints(at, spec.DefaultPort); err != nil {
			return b, err
		}
	}
	at, err := s.bindPorts(ctx, &n, &b)
	if err != nil {
		return b, err
	}
	endpoints := endpointTexts(n.Endpoints, "")
	key := func() []byte { // nil: nothing is encrypted
		if !s.Secret.Given() {
			return nil
		}
		k := s.Secret.Key("gossip")
		return k[:]
	}
	opening := true // later this node has the secret, and no part can be added
	listen := func(l net.Listener) net.Listener {
		l = s.opts.Pool.Listen(l)
		if s.opts.Handout == nil || !opening {
			return l
		}
		share := portshare.New(l)
		share.GRPC().Close()
		b.parts = append([]part{share.Serve}, s.handOut(share)...)
		return sharedPort{share.Others(), l}
	}
	g, err := gossip.Open(gossip.Config{
		ID: b.node.ID, Name: b.node.Name(), RunID: b.node.RunID, Control: b.node.Control, Bind: at.bind,
		Advertise: at.ip, Ports: func() []int { return ports(n.Ports) },
		Endpoints: gossip.Endpoints{
			List: endpoints, Serves: at.endpoint, Nodes: b.node.Max, Growth: n.Conf.JoinTimeout,
			Lookup: newNames(&n, at.ip, b.node.Min < b.node.Max).find,
		},
		Key: func(serves int) ([]byte, error) {
			err := s.findSecret(ctx, n.Endpoints, serves)
			return key(), err
		},
		Listen: listen, MaxAgents: max(1024, 4*b.node.Max),
		OtherKey: func(host string) { s.reportOtherSecret(host, false) },
		Refused:  func(r rendezvous.Refused) { s.opts.Post(r) },
	})
	opening = false
	if err != nil {
		b.closePorts()
		return b, err
	}
	b.node.Endpoint = g.Serves()
	if local.Announce != nil {
		local.Announce(net.JoinHostPort(at.ip, strconv.Itoa(g.Port())))
	}
	b.endpointCount, b.endpointNames = len(endpoints), strings.Join(endpoints, ", ")
	b.parts = append(b.parts, func(ctx context.Context) error {
		return g.Run(ctx, func(p rendezvous.Peers) { s.opts.Post(p) })
	})
	return b, nil
}

// openEtcd opens etcd, which finds the other nodes and makes worlds unique.
func (s *Session) openEtcd(ctx context.Context) (backend, error) {
	n := s.opts.Network
	b := backend{takeover: true, endpointNames: "etcd at " + strings.Join(endpointTexts(n.Endpoints, ""), ", ")}
	if _, err := s.bindPorts(ctx, &n, &b); err != nil {
		return b, err
	}
	scheme, e := "", &n.Etcd
	if e.TLS {
		scheme = "https://"
	}
	fence, err := etcd.New(etcd.Config{
		ID: b.node.ID, Name: b.node.Name(), RunID: b.node.RunID, Control: b.node.Control,
		Endpoints: endpointTexts(n.Endpoints, scheme), Prefix: e.Prefix, User: e.User, Password: e.Password,
		TLS: etcd.TLS{CA: e.CACert, Cert: e.Cert, Key: e.Key, From: etcd.Files(e.From), ServerName: e.ServerName},
		TTL: e.TTL, LostTimeout: e.LostTimeout, Grace: s.opts.Grace,
		Lost: func(err error) { s.reportFailure(&backendError{err}) },
	})
	if err != nil {
		b.closePorts()
		return b, &spec.UsageError{Err: err}
	}
	if e.TLS && !s.opts.Secret.Given() {
		if err := s.readSecret(ctx, fence, b.endpointNames); err != nil {
			b.closePorts()
			return b, err
		}
	}
	b.fence = fence
	b.parts = []part{func(ctx context.Context) error {
		if err := fence.Run(ctx, s.opts.Post); err != nil {
			return &backendError{fmt.Errorf("cannot find the other nodes in etcd: %w", err)}
		}
		return nil
	}}
	return b, nil
}

// bindPorts finds this node's address and binds its control port and its first store.
func (s *Session) bindPorts(ctx context.Context, n *spec.Network, b *backend) (address, error) {
	if s.opts.Local.Addr != "" {
		n.LocalAddr = s.opts.Local.Addr
	}
	at, err := s.findAddress(ctx, n)
	if err != nil {
		return at, err
	}
	b.node = s.opts.Node
	b.node.Addr = at.ip
	if b.control, err = listen(at.bind, n.Ports); err != nil {
		return at, err
	}
	b.node.Control = net.JoinHostPort(at.ip, portOf(b.control))
	if b.store, err = s.newStore(at.ip, func() (net.Listener, error) { return listen(at.bind, n.Ports) }); err != nil {
		b.control.Close()
	}
	return at, err
}

// closePorts closes the ports of a backend that failed.
func (b *backend) closePorts() {
	b.control.Close()
	b.store.close()
}

// endpointTexts returns the endpoints as scheme and host:port.
func endpointTexts(list []spec.Endpoint, scheme string) (out []string) {
	for _, e := range list {
		out = append(out, scheme+e.String())
	}
	return out
}
