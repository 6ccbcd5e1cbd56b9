package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// sinceBoot goes on while the machine sleeps, as etcd's time does.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("etcd: the machine has no clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// trusted is how long a membership that etcd granted counts as certain: the
// rest of its time is for saying so.
func (e *Etcd) trusted() time.Duration { return e.cfg.TTL * 4 / 5 }

// emit posts an event, after Lapsed if it is time for that.
func (e *Etcd) emit(ev rendezvous.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.judge()
	e.post(ev)
}

// judge posts Lapsed if the membership is not certain any more; with mu held.
func (e *Etcd) judge() {
	if e.lease == 0 || e.lapsed {
		return
	}
	if since := e.cfg.Clock() - e.confirmed; since >= e.trusted() {
		e.lapse(fmt.Sprintf("etcd at %s has not confirmed this node for %v", e.at(), since.Round(100*time.Millisecond)))
	}
}

// lapse posts Lapsed, with mu held.
func (e *Etcd) lapse(why string) {
	if !e.lapsed {
		e.lapsed = true
		e.post(rendezvous.Lapsed{On: true, Text: why})
		e.renew.wake()
	}
}

// confirm takes note that etcd has granted what was asked at the time sent.
func (e *Etcd) confirm(id leaseID, sent time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease != id {
		return
	}
	e.judge() // the process may have been stopped until now
	e.confirmed = max(e.confirmed, sent)
	if e.lapsed && e.cfg.Clock()-e.confirmed < e.trusted() {
		e.lapsed = false
		e.post(rendezvous.Lapsed{})
		e.contest.wake()
	}
}

// certain returns the lease of a membership that is certain now, else 0.
func (e *Etcd) certain() leaseID {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.judge()
	if e.lapsed {
		return 0
	}
	return e.lease
}

// tick watches the clock.
func (e *Etcd) tick(ctx context.Context) error {
	for {
		e.mu.Lock()
		e.judge()
		wait := e.trusted() / 8
		if e.lease != 0 && !e.lapsed {
			wait = min(wait, e.confirmed+e.trusted()-e.cfg.Clock())
		}
		err := e.jobLost()
		e.mu.Unlock()
		if err != nil && e.cfg.Lost != nil {
			e.cfg.Lost(err)
		}
		if !pause(ctx, max(wait, 5*time.Millisecond)) {
			return nil
		}
	}
}

// pause reports whether d has passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
