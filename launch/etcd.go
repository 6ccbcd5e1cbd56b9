package launch

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd"
)

// apart is an error for which the nodes cannot come, or stay, together.
type apart struct{ error }

// connectEtcd finds the others in etcd, which also makes worlds unique.
func (a *agent) connectEtcd(ctx context.Context) error {
	sp := a.opts.Spec
	if local := a.opts.Local; local != nil {
		sp.LocalAddr, sp.NodeRank = local.Addr, local.Index
		a.node.NodeRank = local.Index
	}
	place, err := a.findPlace(ctx, sp)
	if err != nil {
		return err
	}
	var endpoints []string
	for _, e := range sp.Endpoints {
		at := e.String()
		if sp.Etcd.TLS {
			at = "https://" + at
		}
		endpoints = append(endpoints, at)
	}
	where := "etcd at " + strings.ReplaceAll(strings.Join(endpoints, ", "), "https://", "")
	a.node.Addr = place.addr
	l, err := listen(place.bind, sp.Ports)
	if err != nil {
		return err
	}
	a.node.Control = net.JoinHostPort(place.addr, portOf(l))
	lost := func(err error) { a.events.trouble(&apart{err}) }
	backend, err := etcd.New(etcd.Config{
		ID: a.node.ID, Name: a.node.Name(), RunID: sp.RunID, Control: a.node.Control,
		Endpoints: endpoints, Prefix: sp.Etcd.Prefix, User: sp.Etcd.User, Password: sp.Etcd.Password,
		TLS: etcd.TLS{CA: sp.Etcd.CACert, Cert: sp.Etcd.Cert, Key: sp.Etcd.Key, From: etcd.Files(sp.Etcd.From), ServerName: sp.Etcd.ServerName},
		TTL: sp.Etcd.TTL, LostTimeout: sp.Etcd.LostTimeout, Grace: sp.ShutdownTimeout, Lost: lost,
	})
	if err != nil {
		l.Close()
		return &UsageError{err}
	}
	if err := a.offerStore(ctx, func() (net.Listener, error) { return listen(place.bind, sp.Ports) }); err != nil {
		l.Close()
		return err
	}
	a.fence = backend
	a.newMachine(0, where, true)
	a.startPlane(ctx, l)
	a.wg.Go(func() {
		if err := backend.Run(ctx, func(e rendezvous.Event) { a.events.post(e) }); err != nil {
			lost(fmt.Errorf("cannot meet in etcd: %w", err))
		}
	})
	return nil
}

// reachable is the address by which others reach a node whose etcd has only a
// loopback address: a member of etcd on every node is a common way to run it.
func reachable(sp spec.Spec, p place) place {
	if sp.Backend != spec.EtcdV3 || sp.LocalAddr != "" || !strings.HasPrefix(p.addr, "127.") {
		return p
	}
	if s := sourceTo(""); s != "" {
		p.addr, p.bind = s, s
	}
	return p
}
