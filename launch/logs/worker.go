package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// closeGrace bounds the time to show the last output after Wait has stopped to wait
// for its end.
const closeGrace = 200 * time.Millisecond

// Worker handles the output of one worker, from before its start until after its
// end:
//
//	w, err := Open(...)
//	// start the child with w.Stdout and w.Stderr
//	w.CloseChildEnds() // whether it started or not
//	// the child ends
//	w.Drain(ctx)
//	w.Tail()
//	w.Wait(ctx)
type Worker struct {
	// Stdout and Stderr are for the child. Do not close them, because they may be
	// gorun's own.
	Stdout, Stderr *os.File
	// ErrorFile is the path for TORCHELASTIC_ERROR_FILE; "": none.
	ErrorFile string

	childEnds  []*os.File // the child's ends, which CloseChildEnds closes
	files      []string   // paths of the log files
	stderrFile string     // the file of stderr that the child writes itself; "": stderr is a stream
	streams    []*stream
	stderr     *stream  // nil: the child writes stderrFile
	hidden     bool     // standard output does not pass through gorun
	pty        *os.File // gorun's end of the pseudo-terminal; nil: none
	terminal   *os.File // the terminal whose window size the pty has

	startCopies sync.Once
	consoleCtx  context.Context // its end drops the output that the console has not taken
	giveUp      context.CancelFunc
}

// CloseChildEnds closes the child's ends and begins to copy. Call it after the start
// of the child, also if the start failed.
func (w *Worker) CloseChildEnds() {
	w.startCopies.Do(func() {
		for _, f := range w.childEnds {
			f.Close()
		}
		for _, s := range w.streams {
			go s.copy()
		}
	})
}

// Drain waits until all output from before the call is kept and shown. It does not
// wait for descendants of an ended child that still have the output open. It waits
// until ctx is done only if the console blocks.
func (w *Worker) Drain(ctx context.Context) error {
	for _, s := range w.streams {
		if err := s.drain(ctx); err != nil {
			return fmt.Errorf("cannot show the end of a worker's output, because the console is blocked: %w", err)
		}
	}
	return nil
}

// Ended is closed when no process has standard error open any more; nil: the worker writes
// it to a file itself.
func (w *Worker) Ended() <-chan struct{} {
	if w.stderr == nil {
		return nil
	}
	return w.stderr.done
}

// Tail returns the last lines of standard error, at most TailLines, each of at
// most 4 KiB, oldest first.
func (w *Worker) Tail() []string {
	if w.stderr != nil {
		return w.stderr.tail.lastLines()
	}
	return tailOfFile(w.stderrFile)
}

// Files returns the paths of the files that get the output.
func (w *Worker) Files() []string { return w.files }

// LastRead returns the time of the worker's last output that passed through gorun; zero:
// none. It reads no file.
func (w *Worker) LastRead() time.Time {
	var last time.Time
	for _, s := range w.streams {
		if ns := s.lastRead.Load(); ns != 0 {
			if t := time.Unix(0, ns); t.After(last) {
				last = t
			}
		}
	}
	return last
}

// LastOutput returns the time of the worker's last output; zero: none. It does not
// see a standard output that gorun does not copy (Hidden).
func (w *Worker) LastOutput() time.Time {
	last := w.LastRead()
	for _, path := range w.files {
		// An empty file has the time at which it was made.
		if info, err := os.Stat(path); err == nil && info.Size() > 0 && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// Hidden reports whether LastOutput does not see the standard output.
func (w *Worker) Hidden() bool { return w.hidden }

// Resize gives the worker's terminal, if it has one, the window size of
// gorun's. Call it on SIGWINCH.
func (w *Worker) Resize() {
	if w.pty != nil {
		// An error does not matter: the worker has ended, or the terminal has
		// no size.
		_ = copySize(w.terminal, w.pty)
	}
}

// Wait waits until the output has ended or ctx is done. The output ends when no
// process has it open any more. Then Wait consumes the available output and closes
// everything. A process that still writes gets SIGPIPE. The error says which output
// was lost.
func (w *Worker) Wait(ctx context.Context) error {
	w.CloseChildEnds() // else the output never ends
	waitForStreams(w.streams, ctx.Done())
	for _, s := range w.streams {
		s.end()
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	if !waitForStreams(w.streams, grace.C) {
		// The console is blocked. Output that it has not shown is dropped.
		w.giveUp()
		grace.Reset(closeGrace / 4)
		waitForStreams(w.streams, grace.C)
	}
	var errs []error
	for _, s := range w.streams {
		select {
		case <-s.done:
			errs = append(errs, s.err)
		default:
			// Nothing interrupts a write to a stopped terminal. The copying
			// ends with that write, or with gorun.
			errs = append(errs, errors.New("cannot show the end of a worker's output, because the console is blocked"))
		}
	}
	return errors.Join(errs...)
}

// Close ends the output as Wait does, without waiting.
func (w *Worker) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return w.Wait(ctx)
}

// waitForStreams reports whether all streams ended before limit fired.
func waitForStreams[T any](streams []*stream, limit <-chan T) bool {
	for _, s := range streams {
		select {
		case <-s.done:
		case <-limit:
			return false
		}
	}
	return true
}
