package term

import (
	"fmt"
	"sync"
	"time"
)

const (
	limiterEvery = time.Second // time between two lines of one kind
	limiterHeld  = 16          // lines of one kind that are held back
)

// limiter prevents lines that strangers can cause from filling the terminal. It lets one
// line a second of each kind pass, holds up to limiterHeld back and counts the others.
type limiter struct {
	say func(line string) // prints a line that was held back

	mu    sync.Mutex
	kinds map[string]*lines
	ended bool
}

// lines has the lines of one kind.
type lines struct {
	said  time.Time // when the last line was printed
	held  []string
	more  int         // number of lines that were only counted
	timer *time.Timer // prints the next line; nil: no line is held back
}

func newLimiter(say func(string)) limiter {
	return limiter{say: say, kinds: map[string]*lines{}}
}

// take reports whether the caller prints the line now. If not, take holds the line back
// or counts it. Lines without a kind always pass.
func (s *limiter) take(kind, line string) bool {
	if kind == "" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.kinds[kind]
	if l == nil {
		l = &lines{}
		s.kinds[kind] = l
	}
	wait := limiterEvery - time.Since(l.said)
	switch {
	case len(l.held) == 0 && wait <= 0:
		l.said = time.Now()
		return true
	case len(l.held) < limiterHeld:
		l.held = append(l.held, line)
	default:
		l.more++
	}
	if l.timer == nil && !s.ended {
		l.timer = time.AfterFunc(wait, func() { s.release(l) })
	}
	return false
}

// next removes and returns the line that was held longest. The last held line also says
// how many lines were only counted.
func (l *lines) next() string {
	text := l.held[0]
	l.held = l.held[1:]
	if len(l.held) == 0 && l.more > 0 {
		text = fmt.Sprintf("%s (and %d more like that)", text, l.more)
		l.more = 0
	}
	return text
}

// release prints one line that was held back, and sets the timer for the next one.
func (s *limiter) release(l *lines) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(l.held) == 0 {
		return
	}
	l.said, l.timer = time.Now(), nil
	s.say(l.next())
	if len(l.held) > 0 {
		l.timer = time.AfterFunc(limiterEvery, func() { s.release(l) })
	}
}

// end returns the lines that are held back. The limiter prints none of them later.
func (s *limiter) end() (rest []string) {
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
