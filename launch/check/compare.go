package check

import (
	"context"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Compare judges a world and posts the verdict. Rules over ten thousand nodes
// take a second, so the agent's loop does not wait for them.
func (x *Checker) Compare(ctx context.Context, c rendezvous.Compare) {
	x.opts.Wait.Go(func() {
		v := Judge(&x.opts.Spec, c)
		v.date(time.Now())
		for _, note := range v.Notes {
			if x.first(note) {
				x.opts.Say("%s", note)
			}
		}
		if v.Warnings != "" && x.first(v.Warnings) {
			x.opts.Show(v.Warnings)
		}
		if v.Env != nil {
			x.opts.Found(v.Findings)
		}
		x.opts.Post(v.Compared)
	})
}

// date says when the world was refused.
func (v *Verdict) date(now time.Time) {
	if v.Outcome == nil || v.Outcome.Cause == nil {
		return
	}
	v.Outcome.Cause.Time = now
	for i := range v.Outcome.Failures {
		v.Outcome.Failures[i].Time = now
	}
}

// first reports whether a table or a note was not shown before: once is enough, not again
// after each restart.
func (x *Checker) first(table string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := x.warned[table]
	x.warned[table] = true
	return !seen
}
