package launch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/term"
)

// waiting is an agent before its loop.
func waiting(signals chan os.Signal) (*agent, *bytes.Buffer) {
	var out bytes.Buffer
	a := &agent{opts: Options{Signals: signals}}
	a.console = &console{Console: term.NewConsole(&out, "gorun", nil)}
	go a.console.Run()
	return a, &out
}

// TestAwaitSpeaks: it says after five seconds what it waits for, then ever less often.
func TestAwaitSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lines, takes := range []time.Duration{4 * time.Second, 6 * time.Second, 16 * time.Second, 36 * time.Second} {
			a, out := waiting(nil)
			got, err := await(t.Context(), a, "asking the driver", func(context.Context) (int, error) {
				time.Sleep(takes)
				return 7, nil
			})
			a.console.Close()
			if n := strings.Count(out.String(), "still asking the driver"); got != 7 || err != nil || n != lines {
				t.Errorf("%d, %v, after %v: %s", got, err, takes, out)
			}
		}
	})
}

// TestAwaitHeedsSignals also where what is waited for does not.
func TestAwaitHeedsSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 4)
		a, _ := waiting(signals)
		defer a.console.Close()
		stuck := make(chan struct{})
		defer close(stuck)
		go func() {
			time.Sleep(time.Second)
			signals <- unix.SIGUSR1 // for workers, which are not there yet
			time.Sleep(time.Second)
			signals <- unix.SIGINT
		}()
		began := time.Now()
		_, err := await(t.Context(), a, "asking", func(context.Context) (int, error) { <-stuck; return 0, nil })
		stop, ok := errors.AsType[*stopped](err)
		if !ok || stop.cause.Code() != 130 || time.Since(began) > 3*time.Second+abandonAfter {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
