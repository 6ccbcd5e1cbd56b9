// Package console prints an agent's messages to its user: lines, tables, and what
// the job waits for.
//
// Invariants: of several agents with one terminal only the first prints what concerns
// all of them. Any goroutine may call the methods, and no method waits for the
// terminal.
package console

import (
	"sync"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
)

// Console prints an agent's messages. Say prints what concerns this agent.
type Console struct {
	*term.Console
	// OtherPrints means that another agent prints what concerns all agents.
	OtherPrints bool
	// Alone means that this is the machine's only agent. Then it prints itself that it
	// does not find the others, because no other agent knows.
	Alone bool
}

const (
	spareInterval = time.Minute // between two lines of a spare, which may wait for days
	checkInterval = time.Second // between two checks of a wait
)

// Announce prints what concerns all agents.
func (c *Console) Announce(format string, args ...any) {
	if !c.OtherPrints {
		c.Say(format, args...)
	}
}

// AnnounceRarely is Announce for lines that strangers can cause.
func (c *Console) AnnounceRarely(kind, line string) {
	if !c.OtherPrints {
		c.SayRarely(kind, line)
	}
}

// Table prints a table that concerns all agents.
func (c *Console) Table(lines string) {
	if !c.OtherPrints {
		c.Console.Table(lines)
	}
}

// While announces now and then what the agent still does ("looking up n1"), until
// stop is called.
func (c *Console) While(what string) (stop func()) {
	began, done := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick, pace := time.NewTicker(checkInterval), term.NewPace(began)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				if pace.Due(now) {
					c.Announce("still %s (%v)", what, now.Sub(began).Round(time.Second))
				}
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// Status shows what the job waits for; nil: it waits for nothing.
func (c *Console) Status(s *rendezvous.Status) {
	if s == nil {
		c.Clear()
		return
	}
	complete := s.Phase == "forming" && arrived(s) >= s.Max || s.Phase == "seeking" && s.Max == 1
	if c.OtherPrints && !(c.Alone && s.Phase == "seeking") || complete && s.Note == "" {
		return // there is nothing to wait for
	}
	w := term.Wait{Line: describe(s), State: stateOf(*s), Shared: workersWrite(s.Phase)}
	if s.Phase == "running" {
		w.AtLeast = spareInterval
	}
	c.Wait(w)
}
