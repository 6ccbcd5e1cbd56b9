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

// errDeaf ends a connection that does not read its messages.
var errDeaf = errors.New("does not read what it has asked for")

// session is one connection as the store sees it. The store's lock guards all
// fields but hasMail and wake.
type session struct {
	wake func() // interrupts the connection's read; called without the lock

	missing  int // keys that the pending wait still lacks; 0: no wait
	awaits   []await
	waitCost int64
	watched  []string
	mail     []byte // messages to be written before the next reply
	deaf     bool   // mail went over maxMail
	hasMail  atomic.Bool
}

// await is a session's place in the queue for a key.
type await struct {
	key     string
	by      *session
	elem    *list.Element
	arrived bool
}

// apply runs f under the lock for self and then wakes the sessions whose waits
// f ended. It returns the messages for self, which go out before the reply to
// f.
func (s *store) apply(self *session, f func() error) (mail []byte, err error) {
	s.mu.Lock()
	err = f()
	mail, deaf := s.collect(self)
	posted := s.posted
	s.posted = nil
	s.mu.Unlock()
	for _, w := range posted {
		if w != self {
			w.wake()
		}
	}
	if err == nil && deaf {
		err = errDeaf
	}
	return mail, err
}

// collect empties self's mailbox.
func (s *store) collect(self *session) (mail []byte, deaf bool) {
	mail, self.mail = self.mail, nil
	s.budget.give(int64(len(mail)))
	self.hasMail.Store(false)
	return mail, self.deaf
}

// drain returns the messages for self.
func (s *store) drain(self *session) ([]byte, error) {
	return s.apply(self, func() error { return nil })
}

// post leaves a message for to. If there is no room for it, to's connection
// ends.
func (s *store) post(to *session, msg ...byte) {
	if len(to.mail) == 0 {
		s.posted = append(s.posted, to)
	}
	to.hasMail.Store(true)
	if len(to.mail)+len(msg) > maxMail || s.budget.take(int64(len(msg))) != nil {
		to.deaf = true
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
	if err := s.budget.take(cost); err != nil {
		return false, err
	}
	self.waitCost, self.missing = cost, len(lacking)
	self.awaits = make([]await, len(lacking))
	for i, key := range lacking {
		l := s.waits[key]
		if l == nil {
			l = list.New()
			s.waits[key] = l
		}
		a := &self.awaits[i]
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
	for _, a := range self.awaits {
		l := s.waits[a.key]
		if l == nil {
			continue
		}
		l.Remove(a.elem) // has no effect if it has left the list
		if l.Len() == 0 {
			delete(s.waits, a.key)
		}
	}
	s.finish(self)
}

func (s *store) finish(w *session) {
	s.budget.give(w.waitCost)
	w.awaits, w.waitCost, w.missing = nil, 0, 0
	s.waiting--
}

// arrived notes for every session that waits for key that key has been set.
func (s *store) arrived(key string) {
	l := s.waits[key]
	if l == nil {
		return
	}
	delete(s.waits, key)
	for l.Len() > 0 {
		s.hit(l.Remove(l.Front()).(*await))
	}
}

// arrivedOne ends the oldest wait that lacks only key, because a queued value
// is for one session.
func (s *store) arrivedOne(key string) {
	l := s.waits[key]
	if l == nil {
		return
	}
	for l.Len() > 0 && !s.hit(l.Remove(l.Front()).(*await)) {
	}
	if l.Len() == 0 {
		delete(s.waits, key)
	}
}

// hit notes that a's key has been set, and reports whether it was the last key
// of the wait.
func (s *store) hit(a *await) bool {
	w := a.by
	a.arrived = true
	if w.missing--; w.missing > 0 {
		return false
	}
	s.finish(w)
	s.post(w, waitStop)
	return true
}

// watch makes self receive every change of key.
func (s *store) watch(self *session, key string) error {
	if err := s.budget.take(int64(len(key)) + entryOverhead); err != nil {
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
		s.budget.give(int64(len(key)) + entryOverhead)
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
