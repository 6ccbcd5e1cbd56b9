package launch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/gorun/gorun/rendezvous"
)

// connectAlone: one node needs nobody.
func (a *agent) connectAlone(ctx context.Context) error {
	sp := a.opts.Spec
	a.node.Addr, a.node.Endpoint = "127.0.0.1", 0
	bind := a.node.Addr
	if sp.LocalAddr != "" {
		ips, err := await(ctx, a, "looking up "+sp.LocalAddr, func(ctx context.Context) ([]netip.Addr, error) {
			return lookup(ctx, sp.LocalAddr)
		})
		if err != nil {
			return &UsageError{fmt.Errorf("cannot use --local-addr %s: %w", sp.LocalAddr, err)}
		}
		a.node.Addr, bind = sp.LocalAddr, ips[0].String()
	}
	master := a.node.Addr
	if sp.MasterAddr != "" {
		found, err := await(ctx, a, "looking up "+sp.MasterAddr, func(ctx context.Context) (ownMaster, error) {
			return findMaster(ctx, sp.MasterAddr), nil
		})
		switch {
		case err != nil:
			return err
		case found.why != "":
			a.console.say("%s %s is ignored, since the job has one node and %s; MASTER_ADDR is %s", sp.MeetBy[0], sp.MasterAddr, found.why, master)
		default:
			master, bind = sp.MasterAddr, found.ip
		}
	}
	open := func() (net.Listener, error) { return listen(bind, sp.Ports) }
	if sp.MasterPort > 0 {
		open = func() (net.Listener, error) { return listenAt(bind, sp.MasterPort) }
	}
	if err := a.offerStoreAt(ctx, master, open); err != nil {
		return err
	}
	a.newMachine(1, "this node", false)
	a.events.post(rendezvous.Peers{All: []rendezvous.Peer{{ID: a.node.ID, Endpoint: 0}}})
	return nil
}

// ownMaster is where the store of a job of one node can be.
type ownMaster struct {
	ip  string // that the name means and this machine has
	why string // there is none
}

// findMaster looks the address up that the user gave. torchrun tells it to the
// workers as it is; of another machine, or unknown, it would make them hang. It
// is no error: schedulers set such a variable for every job.
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
