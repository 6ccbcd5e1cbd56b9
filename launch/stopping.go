package launch

import (
	"context"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous"
)

// stop ends the workers and posts Over when nothing of them is left.
func (w *workers) stop(sig syscall.Signal, kill bool, store func() (string, error)) {
	w.mu.Lock()
	again := !w.stopped.IsZero()
	if !again {
		w.stopped = time.Now()
		close(w.halt)
	}
	procs := w.procs()
	words := w.words()
	w.mu.Unlock()
	grace := w.cfg.grace
	if kill {
		w.rush()
		grace = 0
	}
	_, err := w.cfg.table.Stop(context.Background(), process.StopOptions{Signal: sig, Grace: grace}, procs...)
	if again {
		return // the first stop reports
	}
	w.await(err)
	w.close()
	w.freed()
	next, storeErr := store()
	over := rendezvous.Over{Round: w.world.Round, Ends: w.ends(), Store: next}
	w.mu.Lock()
	for _, wk := range w.list {
		if wk.cause != nil {
			over.Failures = append(over.Failures, *wk.cause)
		}
	}
	w.mu.Unlock()
	over.Failures = append(over.Failures, w.witnesses(words)...)
	for _, err := range []error{err, storeErr} {
		if err != nil {
			c := w.cause(rendezvous.KindAgent, nil)
			c.Message = err.Error()
			over.Failures = append(over.Failures, c)
		}
	}
	w.cfg.post(over)
}

// procs must be called with mu held.
func (w *workers) procs() []*process.Process {
	out := make([]*process.Process, 0, len(w.list))
	for _, wk := range w.list {
		out = append(out, wk.proc)
	}
	return out
}

// signal passes a signal on to every worker's group.
func (w *workers) signal(sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wk := range w.list {
		_ = wk.proc.Signal(sig)
	}
}

func (w *workers) resize() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wk := range w.list {
		wk.out.Resize()
	}
}

// sweep kills what workers that succeeded left behind.
func (w *workers) sweep() {
	w.mu.Lock()
	procs := w.procs()
	w.mu.Unlock()
	_, err := w.cfg.table.Stop(context.Background(), process.StopOptions{}, procs...)
	w.await(err)
	w.close()
}

// await waits until every worker's end has been looked at; after a stop that
// failed only for a moment: what is stuck in the kernel may never end.
func (w *workers) await(stop error) {
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	var limit <-chan time.Time
	if stop != nil {
		limit = time.After(outputTimeout)
	}
	select {
	case <-done:
	case <-limit:
	}
}

// close takes the last output.
func (w *workers) close() {
	ctx, cancel := context.WithTimeout(context.Background(), outputTimeout)
	defer cancel()
	w.mu.Lock()
	list := w.list
	w.mu.Unlock()
	for _, wk := range list {
		_ = wk.out.Wait(ctx)
	}
}

// ends lists how the workers that have ended did so.
func (w *workers) ends() []rendezvous.End {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []rendezvous.End
	for _, wk := range w.list {
		select {
		case <-wk.proc.Done():
		default:
			continue
		}
		e := wk.proc.Exit()
		out = append(out, rendezvous.End{
			Rank: wk.rank, LocalRank: wk.local, PID: wk.proc.Pid(), ExitCode: max(0, e.Code), Signal: e.Signal,
			Started: wk.started, Ended: e.At,
		})
	}
	return out
}
