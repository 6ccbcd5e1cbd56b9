package launch

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// stopped is the error of an agent that ends before its loop runs.
type stopped struct{ cause rendezvous.Cause }

func (s *stopped) Error() string { return s.cause.Line() }

// cancelTimeout bounds the wait for a call that ignores its context: a look-up in a
// C library, a child process that hangs in a driver.
const cancelTimeout = time.Second

// await calls f, which may take long, before the loop runs. Now and then it prints
// what it waits for ("looking up the endpoint"). It returns a *stopped when a
// signal ends the job. After an error the caller must not touch what it shares with
// f, because f may still run.
func await[T any](ctx context.Context, b *base, what string, f func(context.Context) (T, error)) (T, error) {
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
	defer b.console.While(what)()
	var cause rendezvous.Cause
	for cause.Kind == "" {
		select {
		case r := <-done:
			return r.value, r.err
		case s := <-b.opts.Signals:
			if sig := s.(syscall.Signal); b.endsJob(sig) {
				cause = withSignal(b.nodeCause(rendezvous.KindStopped, ""), sig)
			}
		case <-b.opts.Keeper:
			cause = b.keeperCause()
		case <-ctx.Done():
			cause = withSignal(b.nodeCause(rendezvous.KindStopped, ""), unix.SIGTERM)
		}
	}
	cancel()
	select {
	case <-done:
	case <-time.After(cancelTimeout):
	}
	var none T
	return none, fmt.Errorf("%s: %w", what, &stopped{cause})
}
