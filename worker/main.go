package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs f as a rank and returns the exit code for the process:
//
//	func main() { os.Exit(worker.Main(run)) }
//
// It makes the World, ends f's context at an abort and at SIGTERM or SIGINT, reports f's
// error to the agent so that every node knows it at once, and closes the World. It writes
// an error to stderr. The exit code is 0, 1 after an error, or 128 and the signal's number
// if f ended because of a signal.
func Main(f func(ctx context.Context, w *World) error, opts ...Option) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	w, err := Init(ctx, opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case sig := <-stop:
			signal.Stop(stop) // a second one kills
			w.awaitCause()
			cancel(&signalError{sig})
		case <-done:
		}
	}()
	err = w.run(f)
	close(done)
	<-watched
	if err == nil {
		err = w.Close()
	} else {
		w.Close()
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	if s, ok := errors.AsType[*signalError](err); ok {
		if n, ok := s.Signal.(syscall.Signal); ok {
			return 128 + int(n)
		}
	}
	return 1
}

// run calls f and reports its error or panic.
func (w *World) run(f func(ctx context.Context, w *World) error) error {
	defer func() {
		if p := recover(); p != nil {
			w.Fail(fmt.Errorf("panic: %v", p))
			panic(p)
		}
	}()
	err := f(w.ctx, w)
	if err == nil {
		return nil
	}
	if _, stopped := errors.AsType[*signalError](err); !stopped {
		if reported := w.Fail(err); reported != nil {
			fmt.Fprintln(os.Stderr, reported)
		}
	}
	return err
}

// awaitCause gives the agent, which stops its workers by a signal, a moment to say why.
func (w *World) awaitCause() {
	if w.agent == nil {
		return
	}
	select {
	case <-w.ctx.Done():
	case <-time.After(causeTime):
	}
}

// signalError says that a signal ended the program.
type signalError struct{ os.Signal }

func (e *signalError) Error() string { return "gorun: stopped by signal: " + e.Signal.String() }
