package launch

import (
	"context"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
)

// connect opens this agent's ports and starts looking for the others.
func (a *agent) connect(ctx context.Context, identity *rendezvous.Identity) error {
	sp := &a.opts.Spec
	o := meet.Options{
		Network: sp.Network, Node: a.node, Identity: identity, Secret: a.secret, Pool: a.pool, Grace: sp.ShutdownTimeout,
		Quiet: a.opts.quiet(), Post: a.events.post, Elsewhere: a.elsewhere,
		Wait: func(ctx context.Context, what string, f func(context.Context) error) error {
			_, err := await(ctx, a, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
			return err
		},
		Failed: func(kind rendezvous.Kind, text string) { a.events.Put(failedEvent{kind, text}) },
		Note:   a.console.announceRarely,
	}
	if local := a.opts.Local; local != nil {
		o.Local.Addr = local.Addr
		if local.Index > 0 {
			o.Local.Endpoint = local.Endpoint
		} else {
			o.Local.Announce = local.Announce
		}
	}
	s, err := meet.Open(ctx, o)
	if err != nil {
		return err
	}
	a.wg.Go(func() { s.Run(ctx) })
	a.session, a.node = s, s.Node
	c := s.Config
	c.MaxRestarts, c.Check, c.Grow, c.Token = sp.MaxRestarts, a.check != nil, !sp.JoinWaits, newToken
	a.machine = &drive.Machine{Machine: rendezvous.New(c, time.Now()), Streams: s.Streams, Fence: s.Fence, Post: a.events.post, Wait: &a.wg}
	return nil
}

// elsewhere is the user's own command with another value of a flag, "" if there is none.
func (a *agent) elsewhere(flag, value string) string {
	if a.opts.Elsewhere == nil {
		return ""
	}
	command := a.opts.Elsewhere(flag, value)
	if command == nil {
		return ""
	}
	return term.Command(ncclenv.ShownWords(command)...)
}
