package tcpstore

import (
	"bytes"
	"container/list"
	"errors"
	"strconv"
	"sync"
	"time"
)

// errNotNumber answers an ADD to a key that holds something else.
var errNotNumber = errors.New("added to a key whose value is not a 64-bit decimal number")

// store holds the data of a round and the sessions that wait for it. It does no
// I/O. All methods but apply and drain are called with mu held, most through
// apply.
type store struct {
	mu      sync.Mutex
	budget  budget
	values  map[string][]byte
	queues  map[string][][]byte
	waits   map[string]*list.List // of *pendingKey, oldest first
	watches map[string][]*session // legacy WATCH_KEY
	waiting int                   // sessions with a pending wait
	posted  []*session            // sessions that got mail since mu was locked

	requests int64 // since the start

	expected  int              // number of workers; 0: not known
	processes map[process]bool // that have sent a request; at most as many as are expected
	changed   time.Time        // time of the last change of a value, a queue or processes
}

func newStore(maxBytes int64) *store {
	return &store{
		budget:    budget{max: maxBytes},
		values:    make(map[string][]byte),
		queues:    make(map[string][][]byte),
		waits:     make(map[string]*list.List),
		watches:   make(map[string][]*session),
		processes: make(map[process]bool),
	}
}

// exists reports whether a WAIT or CHECK of key is satisfied, by a value or by
// a queue that is not empty.
func (s *store) exists(key string) bool {
	if _, ok := s.values[key]; ok {
		return true
	}
	return len(s.queues[key]) > 0
}

func (s *store) check(keys []string) bool {
	for _, key := range keys {
		if !s.exists(key) {
			return false
		}
	}
	return true
}

// set stores value, which belongs to the store from now on.
func (s *store) set(key string, value []byte) error {
	old, existed := s.values[key]
	cost := int64(len(value) - len(old))
	if !existed {
		cost += int64(len(key)) + entryOverhead
	}
	if err := s.budget.charge(cost); err != nil {
		return err
	}
	s.values[key] = value
	s.changed = time.Now()
	s.wakeWaiters(key)
	if existed {
		s.notify(watchUpdated, key, old, value)
	} else {
		s.notify(watchCreated, key, nil, value)
	}
	return nil
}

// compareSet stores value if key holds expected, or if key is missing and
// expected is empty. It returns what key holds afterwards. For a missing key it
// returns expected, because the protocol cannot say "missing".
func (s *store) compareSet(key string, expected, value []byte) ([]byte, error) {
	old, existed := s.values[key]
	if !existed && len(expected) > 0 {
		return expected, nil
	}
	if existed && !bytes.Equal(old, expected) {
		return old, nil
	}
	return value, s.set(key, value)
}

// add adds delta to the decimal number in key (0 if missing).
func (s *store) add(key string, delta int64) (int64, error) {
	if old, ok := s.values[key]; ok {
		n, err := leadingInt(old)
		if err != nil {
			return 0, err
		}
		delta += n
	}
	return delta, s.set(key, strconv.AppendInt(nil, delta, 10))
}

// leadingInt reads a number as C++'s std::stoll does, which the original server
// uses: white space, a sign, digits, and anything after them.
func leadingInt(p []byte) (int64, error) {
	p = bytes.TrimLeft(p, " \t\n\v\f\r")
	end := 0
	if len(p) > 0 && (p[0] == '-' || p[0] == '+') {
		end = 1
	}
	for end < len(p) && p[end] >= '0' && p[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(string(p[:end]), 10, 64)
	if err != nil {
		return 0, errNotNumber
	}
	return n, nil
}

func (s *store) append(key string, data []byte) error {
	old, existed := s.values[key]
	if !existed {
		return s.set(key, data)
	}
	if err := s.budget.charge(int64(len(data))); err != nil {
		return err
	}
	// Replies in progress read old's length only, and only this store appends
	// to it.
	s.values[key] = append(old, data...)
	s.changed = time.Now()
	s.notify(watchAppended, key, nil, data)
	return nil
}

// delete removes a value; a queue of that name stays.
func (s *store) delete(key string) int64 {
	old, existed := s.values[key]
	if !existed {
		return 0
	}
	s.budget.release(int64(len(key)+len(old)) + entryOverhead)
	delete(s.values, key)
	s.changed = time.Now()
	s.notify(watchDeleted, key, old, nil)
	return 1
}

func (s *store) push(key string, value []byte) error {
	if err := s.budget.charge(int64(len(key)+len(value)) + entryOverhead); err != nil {
		return err
	}
	s.queues[key] = append(s.queues[key], value)
	s.changed = time.Now()
	s.wakeOldestWaiter(key)
	return nil
}

// pop removes the oldest value of a queue; length counts it.
func (s *store) pop(key string) (value []byte, length int64) {
	q := s.queues[key]
	if len(q) == 0 {
		return nil, 0
	}
	value, q[0] = q[0], nil
	s.changed = time.Now()
	s.budget.release(int64(len(key)+len(value)) + entryOverhead)
	if len(q) == 1 {
		delete(s.queues, key)
	} else {
		s.queues[key] = q[1:]
	}
	return value, int64(len(q))
}
