package launch

import (
	"fmt"
	"sync"
	"time"
)

const (
	seldomEvery = time.Second // between two lines of one kind
	seldomHeld  = 16          // lines of one kind that wait
)

// seldom keeps lines that strangers can cause from filling the terminal: of each
// kind one a second is said, and of those for which there is no room the number.
type seldom struct {
	flush func(line string) // says a line that had to wait

	mu    sync.Mutex
	kinds map[string]*lines
	ended bool
}

// lines are those of one kind.
type lines struct {
	said  time.Time
	held  []string
	more  int         // for which there was no room
	timer *time.Timer // says the next one; nil: none is held
}

func newSeldom(flush func(string)) *seldom {
	return &seldom{flush: flush, kinds: map[string]*lines{}}
}

// take gives the line to say now, or keeps it for later. Lines without a kind are
// never kept.
func (s *seldom) take(kind, text string) (line string, now bool) {
	if kind == "" {
		return text, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.kinds[kind]
	if l == nil {
		l = &lines{}
		s.kinds[kind] = l
	}
	wait := seldomEvery - time.Since(l.said)
	switch {
	case len(l.held) == 0 && wait <= 0:
		l.said = time.Now()
		return text, true
	case len(l.held) < seldomHeld:
		l.held = append(l.held, text)
	default:
		l.more++
	}
	if l.timer == nil && !s.ended {
		l.timer = time.AfterFunc(wait, func() { s.release(l) })
	}
	return "", false
}

// next is the line that waited longest. The last one tells how many there were no
// room for.
func (l *lines) next() string {
	text := l.held[0]
	l.held = l.held[1:]
	if len(l.held) == 0 && l.more > 0 {
		text = fmt.Sprintf("%s (and %d more like that)", text, l.more)
		l.more = 0
	}
	return text
}

// release says a line that was kept.
func (s *seldom) release(l *lines) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(l.held) == 0 {
		return
	}
	l.said, l.timer = time.Now(), nil
	s.flush(l.next())
	if len(l.held) > 0 {
		l.timer = time.AfterFunc(seldomEvery, func() { s.release(l) })
	}
}

// end gives what is left to say; nothing is said later.
func (s *seldom) end() (rest []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, l := range s.kinds {
		if l.timer != nil {
			l.timer.Stop()
		}
		for len(l.held) > 0 {
			rest = append(rest, l.next())
		}
	}
	return rest
}

// sayRest says the lines that had to wait, before the report.
func (a *agent) sayRest() {
	for _, line := range a.seldom.end() {
		if !a.opts.quiet() {
			a.console.say("%s", line)
		}
	}
}
