package launch

import (
	"context"
	"crypto/rand"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// watch turns signals and the keeper's death into events.
func (a *agent) watch(ctx context.Context) {
	a.wg.Go(func() {
		keeper := a.opts.Keeper
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-a.opts.Signals:
				a.events.Put(signalEvent{s.(syscall.Signal)})
			case <-keeper:
				keeper = nil
				a.events.Put(keeperEvent{})
			}
		}
	})
}

// keeperGone is the cause of an agent whose keeper was killed. Nobody would clean up
// after it, so it ends.
func (a *agent) keeperGone() rendezvous.Cause {
	return a.self(rendezvous.KindLost, "gorun's own first process, the keeper, was killed")
}

// abandon ends this agent without a word to the others, for whom its node is lost,
// as if all of it had been killed: that may happen the next moment (docker kill).
// Its workers are killed before its connections end.
func (a *agent) abandon() *rendezvous.Outcome {
	c := a.keeperGone()
	if !a.opts.quiet() {
		a.console.say("%s; killing the workers of this node", c.Line())
	}
	if a.current != nil {
		a.current.workers.SkipDeviceWait() // Run kills them
	}
	return &rendezvous.Outcome{Code: c.Code(), Cause: &c, Failures: []rendezvous.Cause{c}}
}

// told: this agent received a signal that ends the job.
func (a *agent) told(sig syscall.Signal) rendezvous.Cause {
	c := a.self(rendezvous.KindStopped, "")
	c.Signal = sig
	return c
}

// newToken draws what the workers of one world have in common.
func newToken() string { return rand.Text() }

// signalled: the first signal ends the job, a second one at once; USR1 and USR2
// are the workers'.
func (a *agent) signalled(sig syscall.Signal) rendezvous.Event {
	switch sig {
	case unix.SIGWINCH:
		if a.current != nil {
			a.current.workers.Resize()
		}
		return nil
	case unix.SIGUSR1, unix.SIGUSR2:
		if a.current != nil {
			a.current.workers.Signal(sig)
		}
		return nil
	}
	a.signals++
	return rendezvous.StopJob{Cause: a.told(sig), Kill: a.signals > 1}
}

// self is a cause that concerns this node as a whole.
func (a *agent) self(k rendezvous.Kind, text string) rendezvous.Cause {
	c := rendezvous.Cause{
		Kind: k, Node: a.node.ID, Host: a.node.Host, Addr: a.node.Addr, GroupRank: -1, Rank: -1, LocalRank: -1,
		Message: text, Time: time.Now(),
	}
	if a.machine != nil && a.machine.World() != nil {
		c.GroupRank = a.machine.World().Index(a.node.ID)
	}
	return c
}
