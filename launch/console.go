package launch

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/term"
)

// console is what the agent itself says: one live line on a terminal, a line
// now and then elsewhere.
type console struct {
	w       io.Writer
	live    bool // rewrite one line
	width   int
	prefix  string
	quiet   bool // status and progress are another agent's to tell
	drawn   bool // a live line stands on the terminal
	born    time.Time
	lastOut time.Time
}

const (
	firstStatus = 2 * time.Second // a job that forms faster needs no words
	statusEvery = 5 * time.Second
)

func newConsole(f *os.File, prefix string, quiet bool) *console {
	c := &console{w: f, prefix: prefix, quiet: quiet, born: time.Now()}
	if term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		c.live = true
		c.width = 100
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			c.width = w
		}
	}
	return c
}

// say prints one line.
func (c *console) say(format string, args ...any) {
	c.clear()
	fmt.Fprintf(c.w, "%s: %s\n", c.prefix, fmt.Sprintf(format, args...))
}

func (c *console) clear() {
	if c.drawn {
		fmt.Fprint(c.w, "\r\033[K")
		c.drawn = false
	}
}

// status tells what the job waits for; nil: it waits no more.
func (c *console) status(s *rendezvous.Status) {
	if s == nil {
		c.clear()
		return
	}
	if c.quiet || s.Phase == "forming" && len(s.Here) >= s.Max && s.Note == "" {
		return // nothing to wait for
	}
	now := time.Now()
	if c.live {
		line := c.prefix + ": " + describe(s)
		if len(line) >= c.width {
			line = line[:c.width-1]
		}
		fmt.Fprintf(c.w, "\r\033[K%s", line)
		c.drawn = true
		return
	}
	if now.Sub(c.born) < firstStatus || now.Sub(c.lastOut) < statusEvery {
		return
	}
	c.lastOut = now
	c.say("%s", describe(s))
}

// describe puts a status into words.
func describe(s *rendezvous.Status) string {
	var b strings.Builder
	left := ""
	if s.Left > 0 {
		left = fmt.Sprintf(", %v left", s.Left.Round(time.Second))
	}
	switch s.Phase {
	case "seeking":
		fmt.Fprintf(&b, "looking for the other nodes%s", left)
	case "recovering":
		fmt.Fprintf(&b, "the coordinator was lost, asking the survivors%s", left)
	case "forming":
		missing := max(0, s.Min-len(s.Here))
		if s.Min == s.Max {
			fmt.Fprintf(&b, "have %d of %d nodes (%s)", len(s.Here), s.Max, strings.Join(s.Here, ", "))
		} else {
			fmt.Fprintf(&b, "have %d of %d to %d nodes (%s)", len(s.Here), s.Min, s.Max, strings.Join(s.Here, ", "))
		}
		if missing > 0 {
			fmt.Fprintf(&b, ", %d missing", missing)
		}
		b.WriteString(left)
	case "accepting":
		fmt.Fprintf(&b, "all %d nodes are here, not ready yet: %s%s", len(s.Here), strings.Join(s.Waiting, ", "), left)
	case "stopping":
		fmt.Fprintf(&b, "waiting until the workers have stopped on %s", strings.Join(s.Waiting, ", "))
	case "running":
		fmt.Fprintf(&b, "the job runs on %s; this node gets a place when its workers are started again", strings.Join(s.Here, ", "))
	default:
		b.WriteString(s.Phase)
	}
	if s.Note != "" {
		fmt.Fprintf(&b, " (%s)", s.Note)
	}
	return b.String()
}
