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

// limiter prevents lines that other programs can cause from filling the terminal. It
// lets one line a second of each kind pass, holds up to limiterHeld back and counts the
// others.
type limiter struct {
	print func(line string) // prints a line that was held back

	mu    sync.Mutex
	kinds map[string]*lines
	ended bool
}

// lines has the lines of one kind.
type lines struct {
	printed time.Time // when the last line was printed
	held    []string
	more    int         // number of lines that were only counted
	timer   *time.Timer // prints the next line; nil: no line is held back
}

func newLimiter(print func(string)) limiter {
	return limiter{print: print, kinds: map[string]*lines{}}
}

// admit reports whether the caller prints the line now. If not, admit holds the line
// back or counts it. Lines without a kind always pass.
func (s *limiter) admit(kind, line string) bool {
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
	wait := limiterEvery - time.Since(l.printed)
	switch {
	case len(l.held) == 0 && wait <= 0:
		l.printed = time.Now()
		return true
	case len(l.held) < limiterHeld:
		l.held = append(l.held, line)
	default:
		l.more++
	}
	if l.timer == nil && !s.ended {
		l.timer = time.AfterFunc(wait, func() { s.printNext(l) })
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

// printNext prints one line that was held back, and sets the timer for the next one.
func (s *limiter) printNext(l *lines) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(l.held) == 0 {
		return
	}
	l.printed, l.timer = time.Now(), nil
	s.print(l.next())
	if len(l.held) > 0 {
		l.timer = time.AfterFunc(limiterEvery, func() { s.printNext(l) })
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
