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

// findNone sets up a node that is alone: it needs only a store for its workers.
func (s *Session) findNone(ctx context.Context) (way, error) {
	n := &s.opts.Network
	w := way{node: s.opts.Node, endpoints: 1, where: "this node"}
	w.node.Addr, w.node.Endpoint = "127.0.0.1", 0
	bind := w.node.Addr
	if n.LocalAddr != "" {
		ips, err := wait(ctx, s, "looking up "+n.LocalAddr, func(ctx context.Context) ([]netip.Addr, error) {
			return lookupLocal(ctx, n.LocalAddr)
		})
		if err != nil {
			return w, err
		}
		w.node.Addr, bind = n.LocalAddr, ips[0].String()
	}
	master := w.node.Addr
	if n.MasterAddr != "" {
		found, err := wait(ctx, s, "looking up "+n.MasterAddr, func(ctx context.Context) (ownMaster, error) {
			return findMaster(ctx, n.MasterAddr), nil
		})
		switch {
		case err != nil:
			return w, err
		case found.why != "":
			s.opts.Note("", fmt.Sprintf("%s %s is ignored, since the job has one node and %s; MASTER_ADDR is %s", n.MeetBy[0], n.MasterAddr, found.why, master))
		default:
			master, bind = n.MasterAddr, found.ip
		}
	}
	open := func() (net.Listener, error) { return listen(bind, n.Ports) }
	if n.MasterPort > 0 {
		open = func() (net.Listener, error) { return listenAt(bind, n.MasterPort) }
	}
	w.known = []rendezvous.Peer{{ID: w.node.ID, Endpoint: 0}}
	var err error
	w.store, err = s.newStore(master, open)
	return w, err
}

// ownMaster says where the store of a job of one node can be.
type ownMaster struct {
	ip  string // the address of the name that this machine has
	why string // why there is none
}

// findMaster looks up the address that the user gave. torchrun passes the address
// to the workers unchanged; an unknown address, or an address of another machine,
// would make them hang. Such an address is no error, because schedulers set the
// variable for every job.
func findMaster(ctx context.Context, host string) ownMaster {
	ips, err := lookup(ctx, host)
	if err != nil {
		return ownMaster{why: fmt.Sprintf("the name cannot be looked up (%v)", err)}
	}
	if i := slices.IndexFunc(ips, isLocal); i >= 0 {
		return ownMaster{ip: ips[i].String()}
	}
	return ownMaster{why: "this machine does not have that address"}
}

// findStatic uses the one port of node 0, which serves the rendezvous and the
// store.
func (s *Session) findStatic(ctx context.Context) (way, error) {
	n := &s.opts.Network
	master := n.Endpoints[0].String()
	w := way{node: s.opts.Node, endpoints: 1, where: master}
	at, err := s.findAddress(ctx, n)
	if err != nil {
		return w, err
	}
	w.node.Addr = at.own
	if w.node.NodeRank != 0 {
		w.store = &Store{} // node 0 has the store
		w.known = []rendezvous.Peer{{ID: "master", Name: master, Control: master, Endpoint: 0}}
		return w, nil
	}
	bind := at.bind
	if at.serves < 0 { // the name stands for another address (NAT); the port is still on this node
		bind = ""
	}
	l, err := listenAt(bind, n.MasterPort)
	if err != nil {
		return w, fmt.Errorf("%w%s", err, s.suggestPort(n.Endpoints[0]))
	}
	share := portshare.New(s.opts.Pool.Listen(l))
	w.control, w.parts = share.GRPC(), []part{share.Serve}
	w.node.Control, w.node.Endpoint = master, 0 // the address that the others use
	w.known = []rendezvous.Peer{{ID: w.node.ID, Name: w.node.Name(), Control: w.node.Control, Endpoint: 0}}
	w.store, err = s.newStore(at.own, func() (net.Listener, error) { return share.Others(), nil })
	return w, err
}

// findGossip finds the other nodes with memberlist.
func (s *Session) findGossip(ctx context.Context) (way, error) {
	n, local := s.opts.Network, s.opts.Local
	w := way{takeover: true}
	if local.Addr != "" {
		n.Endpoints = []spec.Endpoint{{Host: local.Addr}}
	}
	if local.Endpoint != nil {
		at, err := wait(ctx, s, "waiting for the first node of this machine to say where to meet", local.Endpoint)
		if err != nil {
			return w, err
		}
		if n.Endpoints, err = spec.ParseEndpoints(at, spec.DefaultPort); err != nil {
			return w, err
		}
	}
	at, err := s.bindControl(ctx, &n, &w)
	if err != nil {
		return w, err
	}
	endpoints := texts(n.Endpoints, "")
	var key []byte // nil: nothing is encrypted
	if s.opts.Secret.Given() {
		k := s.opts.Secret.Key("gossip")
		key = k[:]
	}
	g, err := gossip.Open(gossip.Config{
		ID: w.node.ID, Name: w.node.Name(), RunID: w.node.RunID, Control: w.node.Control, Bind: at.bind,
		Advertise: at.own, Endpoints: endpoints, Serves: at.serves, Ports: func() []int { return ports(n.Ports) },
		Key: key, Pool: s.opts.Pool, MaxAgents: max(1024, 4*w.node.Max),
		OtherKey: func(host string) { s.reportOther(host, false) },
		Refused:  func(r rendezvous.Refused) { s.opts.Post(r) },
	})
	if err != nil {
		w.close()
		return w, err
	}
	w.node.Endpoint = g.Serves()
	if local.Announce != nil {
		local.Announce(net.JoinHostPort(at.own, strconv.Itoa(g.Port())))
	}
	w.endpoints, w.where = len(endpoints), strings.Join(endpoints, ", ")
	w.parts = []part{func(ctx context.Context) error {
		return g.Run(ctx, func(p rendezvous.Peers) { s.opts.Post(p) })
	}}
	return w, nil
}

// findEtcd finds the other nodes in etcd, which also makes worlds unique.
func (s *Session) findEtcd(ctx context.Context) (way, error) {
	n := s.opts.Network
	w := way{takeover: true, where: "etcd at " + strings.Join(texts(n.Endpoints, ""), ", ")}
	if _, err := s.bindControl(ctx, &n, &w); err != nil {
		return w, err
	}
	scheme, e := "", &n.Etcd
	if e.TLS {
		scheme = "https://"
	}
	backend, err := etcd.New(etcd.Config{
		ID: w.node.ID, Name: w.node.Name(), RunID: w.node.RunID, Control: w.node.Control,
		Endpoints: texts(n.Endpoints, scheme), Prefix: e.Prefix, User: e.User, Password: e.Password,
		TLS: etcd.TLS{CA: e.CACert, Cert: e.Cert, Key: e.Key, From: etcd.Files(e.From), ServerName: e.ServerName},
		TTL: e.TTL, LostTimeout: e.LostTimeout, Grace: s.opts.Grace,
		Lost: func(err error) { s.fail(&apart{err}) },
	})
	if err != nil {
		w.close()
		return w, &spec.UsageError{Err: err}
	}
	w.fence = backend
	w.parts = []part{func(ctx context.Context) error {
		if err := backend.Run(ctx, s.opts.Post); err != nil {
			return &apart{fmt.Errorf("cannot meet in etcd: %w", err)}
		}
		return nil
	}}
	return w, nil
}

// bindControl finds this node's address and binds its control port and first store.
func (s *Session) bindControl(ctx context.Context, n *spec.Network, w *way) (address, error) {
	if s.opts.Local.Addr != "" {
		n.LocalAddr = s.opts.Local.Addr
	}
	at, err := s.findAddress(ctx, n)
	if err != nil {
		return at, err
	}
	w.node = s.opts.Node
	w.node.Addr = at.own
	if w.control, err = listen(at.bind, n.Ports); err != nil {
		return at, err
	}
	w.node.Control = net.JoinHostPort(at.own, portOf(w.control))
	if w.store, err = s.newStore(at.own, func() (net.Listener, error) { return listen(at.bind, n.Ports) }); err != nil {
		w.control.Close()
	}
	return at, err
}

// close frees the ports of a way that failed.
func (w *way) close() {
	w.control.Close()
	w.store.end()
}

// texts lists the endpoints for a backend.
func texts(list []spec.Endpoint, scheme string) (out []string) {
	for _, e := range list {
		out = append(out, scheme+e.String())
	}
	return out
}
