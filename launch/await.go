package launch

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// stopped is the error of an agent that was told to end before it had joined
// the others.
type stopped struct{ cause rendezvous.Cause }

func (s *stopped) Error() string { return s.cause.Line() }

// abandonAfter bounds the wait for what does not heed its context: a look-up in
// a C library, a child that is stuck in a driver.
const abandonAfter = time.Second

// await is for what may take long before the loop runs. It calls f, says now and
// then what it waits for ("looking up the endpoint"), and breaks off with a
// *stopped when a signal ends the job. What f shares with its caller is not
// touched after an error: f may still be at work.
func await[T any](ctx context.Context, a *agent, what string, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		v, err := f(ctx)
		done <- result{v, err}
	}()
	began := time.Now()
	tick, pace := time.NewTicker(looks), term.NewPace(began)
	defer tick.Stop()
	var cause rendezvous.Cause
	for cause.Kind == "" {
		select {
		case r := <-done:
			return r.value, r.err
		case <-tick.C:
			if a.opts.quiet() || !pace.Due(time.Now()) {
				continue // or the first node of the machine has told it
			}
			a.console.say("still %s (%v)", what, time.Since(began).Round(time.Second))
		case s := <-a.opts.Signals:
			if sig := s.(syscall.Signal); ends(sig) {
				cause = a.told(sig)
			}
		case <-a.opts.Keeper:
			cause = a.keeperGone()
		case <-ctx.Done():
			cause = a.told(unix.SIGTERM)
		}
	}
	cancel()
	select {
	case <-done:
	case <-time.After(abandonAfter):
	}
	var none T
	return none, fmt.Errorf("%s: %w", what, &stopped{cause})
}

// ends reports whether a signal ends the job; the others are the workers'.
func ends(sig syscall.Signal) bool {
	return sig != unix.SIGWINCH && sig != unix.SIGUSR1 && sig != unix.SIGUSR2
}
