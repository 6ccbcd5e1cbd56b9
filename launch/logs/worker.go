package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// closeGrace is how long the end of a worker's output may take to be written
// after Wait stops waiting for the output's end.
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
	// Stdout and Stderr are for the child. They may be gorun's own: do not
	// close them.
	Stdout, Stderr *os.File
	// ErrorFile is the path for TORCHELASTIC_ERROR_FILE; "": none.
	ErrorFile string

	ends       []*os.File // the child's ends, which CloseChildEnds closes
	files      []string   // paths of the log files
	stderrFile string     // the file of stderr that the child writes itself; "": stderr is a stream
	streams    []*stream
	stderr     *stream  // nil: the child writes stderrFile
	hidden     bool     // standard output does not pass through gorun
	pty        *os.File // gorun's end of the pseudo-terminal; nil: none
	terminal   *os.File // the terminal whose window size the pty has

	begin   sync.Once
	waiting context.Context // done when nothing waits for the console any more
	giveUp  context.CancelFunc
}

// CloseChildEnds closes what only the child needs and begins to copy. Call it
// after the child was started, or could not be.
func (w *Worker) CloseChildEnds() {
	w.begin.Do(func() {
		for _, f := range w.ends {
			f.Close()
		}
		for _, s := range w.streams {
			go s.copy()
		}
	})
}

// Drain waits until all that was written before the call has been kept and
// shown. It does not wait for descendants of an ended child that still have the
// output open. Only a console that does not read makes it wait for ctx.
func (w *Worker) Drain(ctx context.Context) error {
	for _, s := range w.streams {
		if err := s.drain(ctx); err != nil {
			return fmt.Errorf("cannot take the end of a worker's output, the console does not read: %w", err)
		}
	}
	return nil
}

// Tail returns the last lines of standard error, at most TailLines, each of at
// most 4 KiB, oldest first.
func (w *Worker) Tail() []string {
	if w.stderr != nil {
		return w.stderr.tail.get()
	}
	return tailOfFile(w.stderrFile)
}

// Files returns the paths of the files that get the output.
func (w *Worker) Files() []string { return w.files }

// LastOutput returns when the worker last printed something; zero: never. It
// does not see a standard output that the worker inherited (Hidden).
func (w *Worker) LastOutput() time.Time {
	var last time.Time
	for _, s := range w.streams {
		if ns := s.last.Load(); ns != 0 {
			if t := time.Unix(0, ns); t.After(last) {
				last = t
			}
		}
	}
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
// process has it open any more. Then Wait takes what is there and releases
// everything. A process that still writes gets SIGPIPE. The error says what
// output was lost.
func (w *Worker) Wait(ctx context.Context) error {
	w.CloseChildEnds() // else the output never ends
	await(w.streams, ctx.Done())
	for _, s := range w.streams {
		s.end()
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	if !await(w.streams, grace.C) {
		// The console does not read. What is not yet shown is dropped.
		w.giveUp()
		grace.Reset(closeGrace / 4)
		await(w.streams, grace.C)
	}
	var errs []error
	for _, s := range w.streams {
		select {
		case <-s.done:
			errs = append(errs, s.err)
		default:
			// Nothing interrupts a write to a stopped terminal. The copying
			// ends with that write, or with gorun.
			errs = append(errs, errors.New("cannot show the end of a worker's output: the console does not read"))
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

// await reports whether all streams ended before limit fired.
func await[T any](streams []*stream, limit <-chan T) bool {
	for _, s := range streams {
		select {
		case <-s.done:
		case <-limit:
			return false
		}
	}
	return true
}
