package tcpstore

import (
	"container/list"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
)

// maxMail bounds the messages that wait for a connection, in bytes. Only a
// legacy watcher that reads too slowly reaches it.
const maxMail = 16 << 20

// errNotReading ends a connection that does not read its replies or messages.
var errNotReading = errors.New("does not read the replies to its requests")

// session is one connection as the store sees it. The store's lock guards all
// fields but hasMail and wake.
type session struct {
	wake func() // interrupts the connection's read; called without the lock

	missing  int // keys that the pending wait still lacks; 0: no wait
	pending  []pendingKey
	waitCost int64
	watched  []string
	mail     []byte // messages to be written before the next reply
	overflow bool   // mail was dropped, because it exceeds maxMail or the budget
	hasMail  atomic.Bool
}

// pendingKey is a session's place in the queue for a key.
type pendingKey struct {
	key   string
	by    *session
	elem  *list.Element
	isSet bool
}

// apply runs f under the lock for self and then wakes the sessions whose waits
// f ended. It returns the messages for self, which go out before the reply to
// f.
func (s *store) apply(self *session, f func() error) (mail []byte, err error) {
	s.mu.Lock()
	err = f()
	mail, overflow := s.collect(self)
	posted := s.posted
	s.posted = nil
	s.mu.Unlock()
	for _, w := range posted {
		if w != self {
			w.wake()
		}
	}
	if err == nil && overflow {
		err = errNotReading
	}
	return mail, err
}

// collect empties self's mailbox.
func (s *store) collect(self *session) (mail []byte, overflow bool) {
	mail, self.mail = self.mail, nil
	s.budget.release(int64(len(mail)))
	self.hasMail.Store(false)
	return mail, self.overflow
}

// drain returns the messages for self.
func (s *store) drain(self *session) ([]byte, error) {
	return s.apply(self, func() error { return nil })
}

// post leaves a message for a session. If there is no room for it, the
// session's connection ends.
func (s *store) post(to *session, msg ...byte) {
	if len(to.mail) == 0 {
		s.posted = append(s.posted, to)
	}
	to.hasMail.Store(true)
	if len(to.mail)+len(msg) > maxMail || s.budget.charge(int64(len(msg))) != nil {
		to.overflow = true
		return
	}
	to.mail = append(to.mail, msg...)
}

// wait reports whether all keys exist. If not, self gets a message once they
// do. A key counts as soon as it has been set, even if it is deleted before the
// others are there. An earlier wait of self is cancelled.
func (s *store) wait(self *session, keys []string) (ready bool, err error) {
	s.cancel(self)
	var cost int64
	var lacking []string
	for _, key := range keys {
		if !s.exists(key) {
			lacking = append(lacking, key)
			cost += int64(len(key)) + entryOverhead
		}
	}
	if len(lacking) == 0 {
		return true, nil
	}
	if err := s.budget.charge(cost); err != nil {
		return false, err
	}
	self.waitCost, self.missing = cost, len(lacking)
	self.pending = make([]pendingKey, len(lacking))
	for i, key := range lacking {
		l := s.waits[key]
		if l == nil {
			l = list.New()
			s.waits[key] = l
		}
		a := &self.pending[i]
		a.key, a.by, a.elem = key, self, l.PushBack(a)
	}
	s.waiting++
	return false, nil
}

// cancel forgets self's pending wait.
func (s *store) cancel(self *session) {
	if self.missing == 0 {
		return
	}
	for _, a := range self.pending {
		l := s.waits[a.key]
		if l == nil {
			continue
		}
		l.Remove(a.elem) // has no effect if the list does not contain it
		if l.Len() == 0 {
			delete(s.waits, a.key)
		}
	}
	s.finish(self)
}

func (s *store) finish(w *session) {
	s.budget.release(w.waitCost)
	w.pending, w.waitCost, w.missing = nil, 0, 0
	s.waiting--
}

// wakeWaiters notes for every session that waits for key that key has been set.
func (s *store) wakeWaiters(key string) {
	l := s.waits[key]
	if l == nil {
		return
	}
	delete(s.waits, key)
	for l.Len() > 0 {
		s.noteSet(l.Remove(l.Front()).(*pendingKey))
	}
}

// wakeOldestWaiter ends the oldest wait that lacks only key, because a queued value
// is for one session.
func (s *store) wakeOldestWaiter(key string) {
	l := s.waits[key]
	if l == nil {
		return
	}
	for l.Len() > 0 && !s.noteSet(l.Remove(l.Front()).(*pendingKey)) {
	}
	if l.Len() == 0 {
		delete(s.waits, key)
	}
}

// noteSet notes that the key of a wait has been set, and reports whether that ended
// the wait.
func (s *store) noteSet(a *pendingKey) bool {
	w := a.by
	a.isSet = true
	if w.missing--; w.missing > 0 {
		return false
	}
	s.finish(w)
	s.post(w, waitStop)
	return true
}

// watch makes self receive every change of key.
func (s *store) watch(self *session, key string) error {
	if err := s.budget.charge(int64(len(key)) + entryOverhead); err != nil {
		return err
	}
	s.watches[key] = append(s.watches[key], self)
	self.watched = append(self.watched, key)
	return nil
}

// notify sends the change of key to its watchers.
func (s *store) notify(kind byte, key string, old, value []byte) {
	watchers := s.watches[key]
	if len(watchers) == 0 {
		return
	}
	msg := []byte{kind}
	for _, part := range [][]byte{[]byte(key), old, value} {
		msg = binary.LittleEndian.AppendUint64(msg, uint64(len(part)))
		msg = append(msg, part...)
	}
	for _, w := range watchers {
		s.post(w, msg...)
	}
}

// leave removes a session whose connection has ended.
func (s *store) leave(self *session) {
	s.cancel(self)
	for _, key := range self.watched {
		s.budget.release(int64(len(key)) + entryOverhead)
		rest := slices.DeleteFunc(s.watches[key], func(w *session) bool { return w == self })
		if len(rest) == 0 {
			delete(s.watches, key)
		} else {
			s.watches[key] = rest
		}
	}
	self.watched = nil
	s.collect(self)
}
