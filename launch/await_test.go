package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/console"
)

// TestSignalEndsAwait checks that a signal ends await even if the function that it
// calls ignores its context.
func TestSignalEndsAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 4)
		b := &base{opts: Options{Signals: signals}, console: &console.Console{Console: term.NewConsole(io.Discard, "gorun", nil)}}
		go b.console.Run()
		defer b.console.Close()
		stuck := make(chan struct{})
		defer close(stuck)
		go func() {
			time.Sleep(time.Second)
			signals <- unix.SIGUSR1 // for workers, of which none runs yet
			time.Sleep(time.Second)
			signals <- unix.SIGINT
		}()
		began := time.Now()
		_, err := await(t.Context(), b, "askingDriver", func(context.Context) (int, error) { <-stuck; return 0, nil })
		stop, ok := errors.AsType[*stopped](err)
		if !ok || stop.cause.Code() != 130 || stop.cause.Host == "" || time.Since(began) > 3*time.Second+cancelTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
