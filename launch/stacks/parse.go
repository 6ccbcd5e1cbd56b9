package stacks

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of a text that is parsed.
const (
	maxInput   = 1 << 20 // bytes
	maxThreads = 4096
)

// thread is one stack of a text.
type thread struct {
	name   string // what the text calls it
	frames []Frame
}

// lines calls f for each line of a text, at most maxInput bytes of it.
func lines(text string, f func(line string)) {
	for line := range strings.Lines(text[:min(len(text), maxInput)]) {
		f(strings.TrimRight(line, "\r\n"))
	}
}

// collector gathers threads and their frames within the bounds.
type collector struct{ threads []thread }

func (c *collector) begin(name string) {
	if len(c.threads) < maxThreads {
		c.threads = append(c.threads, thread{name: name})
	}
}

// last returns the frames of the present thread, nil if none has begun.
func (c *collector) last() *[]Frame {
	if len(c.threads) == 0 {
		return nil
	}
	return &c.threads[len(c.threads)-1].frames
}

func (c *collector) add(f Frame) {
	if at := c.last(); at != nil && len(*at) < maxFrames {
		*at = append(*at, f)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

var (
	pySpyThread = regexp.MustCompile(`^Thread (?:0x)?[0-9A-Fa-f]+ \([^)]*\)(?:: "([^"]*)")?`)
	pySpyFrame  = regexp.MustCompile(`^\s+(\S.*) \((.*?)(?::(\d+))?\)$`)
)

// parsePySpy returns the main thread in what "py-spy dump" prints, nil if it has none.
func parsePySpy(text string) []Frame {
	var c collector
	lines(text, func(line string) {
		if m := pySpyThread.FindStringSubmatch(line); m != nil {
			c.begin(m[1])
		} else if m := pySpyFrame.FindStringSubmatch(line); m != nil {
			c.add(Frame{Func: m[1], File: m[2], Line: number(m[3]), Own: ownPython(m[2])})
		}
	})
	for _, t := range c.threads {
		if t.name == "MainThread" {
			return t.frames
		}
	}
	return c.firstFrames()
}

// firstFrames returns the frames of the first thread that has some.
func (c *collector) firstFrames() []Frame {
	for _, t := range c.threads {
		if len(t.frames) > 0 {
			return t.frames
		}
	}
	return nil
}

var (
	faultThread = regexp.MustCompile(`^(Current thread|Thread) 0x[0-9A-Fa-f]+(?: \[[^\]]*\])? \(most recent call first\):`)
	faultFrame  = regexp.MustCompile(`^\s+File "(.*)", line (\d+|\?\?\?) in (.*)$`)
)

// ParseFaulthandler returns the stack that Python's faulthandler printed of the thread that
// got a signal, nil if there is none. The main thread gets it, unless it blocks it.
func ParseFaulthandler(text string) []Frame {
	var c collector
	lines(text, func(line string) {
		if m := faultThread.FindStringSubmatch(line); m != nil {
			c.begin(m[1])
		} else if m := faultFrame.FindStringSubmatch(line); m != nil {
			c.add(Frame{Func: m[3], File: m[1], Line: number(m[2]), Own: ownPython(m[1])})
		}
	})
	for _, t := range c.threads {
		if t.name == "Current thread" {
			return t.frames
		}
	}
	return c.firstFrames()
}

var (
	goroutineHead = regexp.MustCompile(`^goroutine (\d+)(?: gp=\S+ m=\S+(?: mp=\S+)?)? \[([^\]]*)\]:$`)
	goFile        = regexp.MustCompile(`^\t(.*):(\d+)(?: \+0x[0-9a-f]+)?$`)
)

// ParseGo returns the goroutine of a trace that says most about the program: one that is in
// a collective, else one that is in a function of the program, the first of these.
func ParseGo(text string) []Frame {
	var c collector
	function, created := "", false
	lines(text, func(line string) {
		switch m := goroutineHead.FindStringSubmatch(line); {
		case m != nil:
			c.begin(m[1])
			function, created = "", false
		case strings.HasPrefix(line, "created by "):
			created = true
		case strings.HasPrefix(line, "\t"):
			if m := goFile.FindStringSubmatch(line); m != nil && function != "" && !created {
				c.add(Frame{Func: function, File: m[1], Line: number(m[2]), Own: ownGo(function, m[1])})
			}
			function = ""
		default:
			function = line
			if i := strings.LastIndexByte(line, '('); i > 0 && strings.HasSuffix(line, ")") {
				function = line[:i]
			}
		}
	})
	best, most := []Frame(nil), -1
	for _, t := range c.threads {
		s := Stack{Frames: t.frames}
		value := 0
		if own := s.innermostOwn(); own >= 0 {
			value = 1
			if callIn(t.frames[:own]) != "" {
				value = 2
			}
			if isOnlyMain(t.frames) {
				value = 0 // main waits for the others
			}
		}
		if value > most && len(t.frames) > 0 {
			best, most = t.frames, value
		}
	}
	return best
}

// isOnlyMain reports whether a goroutine's only frame of the program is main.main.
func isOnlyMain(frames []Frame) bool {
	n, main := 0, false
	for _, f := range frames {
		if f.Own {
			n++
			main = f.Func == "main.main"
		}
	}
	return n == 1 && main
}

var (
	gdbThread = regexp.MustCompile(`^Thread (\d+) `)
	gdbFrame  = regexp.MustCompile(`^#\d+\s+(?:0x[0-9a-f]+ in )?(\S+)(?: .*)?$`)
	gdbPlace  = regexp.MustCompile(` at (.+):(\d+)$`)
)

// parseGDB returns the main thread in what gdb's "thread apply all bt" prints.
func parseGDB(text string) []Frame {
	var c collector
	lines(text, func(line string) {
		if m := gdbThread.FindStringSubmatch(line); m != nil {
			c.begin(m[1])
		} else if m := gdbFrame.FindStringSubmatch(line); m != nil {
			f := Frame{Func: m[1]}
			if at := gdbPlace.FindStringSubmatch(line); at != nil {
				f.File, f.Line = at[1], number(at[2])
				f.Own = ownNative(f.File)
			}
			c.add(f)
		}
	})
	for _, t := range c.threads {
		if t.name == "1" {
			return t.frames
		}
	}
	return c.firstFrames()
}

var (
	euFrame = regexp.MustCompile(`^#\d+\s+0x[0-9a-f]+(?:\s+- 1)?\s+(\S+)`)
	euPlace = regexp.MustCompile(`^\s+(\S.*?):(\d+)(?::\d+)?$`)
)

// parseEuStack returns the first thread in what eu-stack prints: the main thread.
func parseEuStack(text string) []Frame {
	var c collector
	lines(text, func(line string) {
		if strings.HasPrefix(line, "TID ") {
			c.begin(line)
		} else if m := euFrame.FindStringSubmatch(line); m != nil {
			name, _, _ := strings.Cut(m[1], "@")
			c.add(Frame{Func: name})
		} else if m := euPlace.FindStringSubmatch(line); m != nil {
			if at := c.last(); at != nil && len(*at) > 0 {
				f := &(*at)[len(*at)-1]
				f.File, f.Line = path.Clean(m[1]), number(m[2])
				f.Own = ownNative(f.File)
			}
		}
	})
	return c.firstFrames()
}

var kernelFrame = regexp.MustCompile(`^\[<[0-9a-f]*>\] ([A-Za-z_][\w.]*)`)

// parseKernelStack returns the functions in /proc/PID/stack, the innermost first.
func parseKernelStack(text string) []string {
	var all []string
	lines(text, func(line string) {
		if m := kernelFrame.FindStringSubmatch(line); m != nil && len(all) < maxKernelFrames {
			all = append(all, m[1])
		}
	})
	return all
}
