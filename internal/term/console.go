package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	xterm "golang.org/x/term"
)

// Console prints one program's lines beside the output of others. Each line begins with
// the program's name. On a terminal it also keeps one live line that says what the
// program waits for. It is safe for concurrent use, and no call waits for the terminal.
type Console struct {
	prefix string
	width  func() int // width of the terminal on which the live line is rewritten; nil: there is no terminal
	out    *writer
	began  time.Time

	mu      sync.Mutex
	ended   bool   // true: Close was called and nothing is printed any more
	live    bool   // true: the terminal shows a live line
	state   string // State of the last Wait that was printed
	pace    Pace
	limiter limiter
}

// firstWait is the time before which Wait prints no line, because a job that forms
// faster needs none.
const firstWait = 2 * time.Second

// NewConsole makes a console that writes to w while Run runs. On terminal, nil for none,
// it rewrites one live line.
func NewConsole(w io.Writer, prefix string, terminal *os.File) *Console {
	c := &Console{prefix: prefix, out: newWriter(w), began: time.Now()}
	c.limiter = newLimiter(func(line string) { c.Say("%s", line) })
	if IsTerminal(terminal) && os.Getenv("TERM") != "dumb" {
		c.width = func() int {
			if w, _, err := xterm.GetSize(int(terminal.Fd())); err == nil && w > 20 {
				return w
			}
			return 80
		}
	}
	return c
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return f != nil && xterm.IsTerminal(int(f.Fd())) }

// Run writes the console's lines until Close.
func (c *Console) Run() { c.out.run() }

// Close prints the lines that SayRarely holds back and waits, two seconds at most, until
// all lines are written. Later lines are dropped.
func (c *Console) Close() {
	c.SayHeld()
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.out.close()
}

// Say prints a text behind the program's name. It indents all lines but the first,
// because only the program's own lines begin with its name.
func (c *Console) Say(format string, args ...any) {
	c.print(fmt.Sprintf("%s: %s\n", c.prefix, Within(Lines(fmt.Sprintf(format, args...)))))
}

// SayRarely prints at most one line a second of each kind. It holds 16 lines of a
// kind back and counts the others. Lines without a kind are always printed.
func (c *Console) SayRarely(kind, line string) {
	if c.limiter.admit(kind, line) {
		c.Say("%s", line)
	}
}

// SayHeld prints the lines that SayRarely holds back. SayRarely prints none of them
// later.
func (c *Console) SayHeld() {
	for _, line := range c.limiter.end() {
		c.Say("%s", line)
	}
}

// Table prints lines unchanged, behind one prefix.
func (c *Console) Table(lines string) {
	lines = strings.ReplaceAll(Lines(lines), "\n"+c.prefix, "\n  "+c.prefix) // a line of another node cannot look like this program's
	c.print(fmt.Sprintf("%s: %s\n", c.prefix, strings.TrimSuffix(lines, "\n")))
}

// Write prints a text that is already safe for a terminal. It always succeeds.
func (c *Console) Write(text []byte) (int, error) {
	c.print(string(text))
	return len(text), nil
}

func (c *Console) print(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write(text)
}

// write prints a text in place of the live line. The caller holds mu.
func (c *Console) write(text string) {
	if !c.ended {
		c.clear()
		c.out.Write([]byte(text))
	}
}

// Clear removes the live line.
func (c *Console) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

func (c *Console) clear() {
	if c.live && !c.ended {
		c.live = false
		c.out.Write([]byte("\r\033[K"))
		c.out.flush() // because workers that start now write to the terminal themselves
	}
}

// Wait describes what a program waits for.
type Wait struct {
	Line    string        // the text to print
	State   string        // Line without its times; a new State is printed at once
	Shared  bool          // true: others may write to the terminal, so there is no live line
	AtLeast time.Duration // time between two lines of the same State, if it is longer than usual
}

// Wait prints what the program waits for: as the live line, or as a line at each new
// State and then after 5, 10, 20 and every 30 seconds. The caller calls it about once a
// second.
func (c *Console) Wait(w Wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.width != nil && !w.Shared && !c.ended {
		line := []rune(Line(c.prefix + ": " + w.Line))
		line = line[:min(len(line), c.width()-1)]
		c.out.Write([]byte("\r\033[K" + string(line)))
		c.live = true
		return
	}
	now := time.Now()
	if now.Sub(c.began) < firstWait {
		return
	}
	if w.State != c.state {
		c.state = w.State
		c.pace = NewPace(now)
	} else if !c.pace.due(now, w.AtLeast) {
		return
	}
	c.write(fmt.Sprintf("%s: %s\n", c.prefix, Within(Lines(w.Line))))
}

// Pace says when a wait that goes on prints its next line: after 5, 10 and 20 seconds,
// then every 30. The caller calls Due about once a second.
type Pace struct {
	last  time.Time // time of the last line, or when the wait began
	lines int
}

// NewPace makes the pace of a wait that begins now.
func NewPace(now time.Time) Pace { return Pace{last: now} }

// Due reports whether a line is due, and counts it.
func (p *Pace) Due(now time.Time) bool { return p.due(now, 0) }

// pauses lie between two lines of the same wait.
var pauses = [...]time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}

// slack is half the time between two calls of Due. With it a line is due at the call that
// is nearest to the end of its pause.
const slack = time.Second / 2

func (p *Pace) due(now time.Time, atLeast time.Duration) bool {
	if now.Sub(p.last) < max(pauses[min(p.lines, len(pauses)-1)], atLeast)-slack {
		return false
	}
	p.last = now
	p.lines++
	return true
}
