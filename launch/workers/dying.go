package workers

import (
	"time"

	"github.com/gorun/gorun/launch/process"
)

// A worker whose connection or standard error has ended is looked at until dyingTime
// later, first at once, then after firstLook, then after twice that, and so on.
const (
	firstLook = time.Millisecond
	dyingTime = time.Second
)

// LookAt finds out whether a worker is dying, because its connection to the agent has
// ended without a word. A dying worker has failed, although the kernel may need much
// longer to end its process. LookAt does not wait, and a look that is under way does for
// the next, so that a program that connects again and again costs one.
func (r *Round) LookAt(rank int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.find(rank)
	if w == nil || w.looked || r.wasStopped() { // a Stop waits for the followers
		return
	}
	w.looked = true
	r.followers.Go(func() {
		r.lookAt(w)
		r.mu.Lock()
		w.looked = false
		r.mu.Unlock()
	})
}

// lookAt looks at a worker again and again: the end of its connection may be known a
// little earlier than its death.
func (r *Round) lookAt(w *worker) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	limit := time.Now().Add(dyingTime)
	for wait := firstLook; time.Now().Before(limit); wait *= 2 {
		select {
		case <-timer.C:
		case <-w.proc.Done(): // workerEnded handles it
			return
		case <-r.stopping:
			return
		}
		if exit, dying := w.proc.Dying(); dying {
			r.workerDying(w, exit)
			return
		}
		timer.Reset(wait)
	}
}

// workerDying counts a worker that will have failed, and finds out why.
func (r *Round) workerDying(w *worker, exit process.Exit) {
	r.mu.Lock()
	counted := r.countDying(w, exit)
	r.mu.Unlock()
	if counted {
		r.fail(r.findCause(w, exit))
	}
}

// countDying counts a worker that will have failed, unless it has been counted or is being
// stopped. Its process is left to Stop. The lock is held.
func (r *Round) countDying(w *worker, exit process.Exit) bool {
	if r.wasStopped() || w.exit() != nil {
		return false
	}
	w.dying = &exit
	r.running--
	_ = r.applyEvent(eventFailure)
	return true
}

// LookAtAll counts the workers that are dying as failed. Called before the workers are
// aborted and stopped, it keeps a Stop from taking them for workers that it ended: what
// they had may hide their deaths, for example children that have standard error open.
func (r *Round) LookAtAll() {
	for _, w := range r.started() {
		exit, dying := w.proc.Dying()
		if !dying {
			continue
		}
		r.mu.Lock()
		if r.countDying(w, exit) {
			r.followers.Go(func() { r.fail(r.findCause(w, exit)) })
		}
		r.mu.Unlock()
	}
}
