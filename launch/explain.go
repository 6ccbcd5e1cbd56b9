package launch

import (
	"context"
	"strings"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

// explain says what the last words of all workers that failed mean together:
// the first to fail, or the loudest, is not always the one to blame.
func explain(o rendezvous.Outcome) []diagnose.Finding {
	if o.Cause == nil {
		return nil
	}
	failures := o.Failures
	if len(failures) == 0 {
		failures = []rendezvous.Cause{*o.Cause}
	}
	s := diagnose.NewScanner()
	for i := range failures {
		c := &failures[i]
		if c.Rank < 0 {
			continue
		}
		lines := strings.Join(c.Tail, "\n")
		if len(c.Tail) == 0 {
			lines = c.Traceback
		}
		// Neither the reader nor this context fails.
		_ = s.Read(context.Background(), lastWords(c), strings.NewReader(lines+"\n"))
		switch {
		case c.Signal != 0:
			s.Ended(c.PID, -int(c.Signal))
		case c.Kind == rendezvous.KindExit:
			s.Ended(c.PID, c.ExitCode)
		}
	}
	return s.Findings()
}
