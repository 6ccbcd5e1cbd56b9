package logs

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

const (
	// TailLines is how many lines of standard error a report shows.
	TailLines = 20
	// maxTailLine is where a line of the tail is cut, in bytes. 20 lines stay
	// below 100 KiB.
	maxTailLine = 4 << 10
	// fileTail is how much of a file's end is searched for its last lines, in
	// bytes. A progress bar may be far longer than its visible part.
	fileTail = 1 << 20
)

// tail keeps the last lines of its input, as a terminal would show them. Of a line
// that \r overwrites it keeps the text after the last \r.
type tail struct {
	mu      sync.Mutex
	lines   [TailLines]string
	count   int    // lines seen
	current []byte // the line that has not ended
	cut     bool   // current is longer than what is kept
	afterCR bool   // a \r ends the current text, unless \n follows
	crash   crash
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := lastLinesStart(p); i > 0 && !t.crash.inside && !bytes.Contains(p, []byte(crashHead)) {
		// The last lines of p replace all earlier ones.
		t.clear()
		p = p[i:]
	}
	for len(p) > 0 {
		if t.afterCR && p[0] != '\n' {
			t.clear()
		}
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			t.add(p)
			return
		}
		t.add(p[:end])
		if p[end] == '\n' {
			if line := t.text(); !t.crash.isDetail(line) {
				t.lines[t.count%TailLines] = line
				t.count++
			}
			t.clear()
		} else {
			t.afterCR = true
		}
		p = p[end+1:]
	}
}

// lastLinesStart returns where the last TailLines complete lines of p begin, 0 if p
// has fewer.
func lastLinesStart(p []byte) int {
	end := len(p)
	for range TailLines + 1 {
		end = bytes.LastIndexByte(p[:end], '\n')
		if end < 0 {
			return 0
		}
	}
	return end + 1
}

func (t *tail) add(text []byte) {
	if room := maxTailLine - len(t.current); len(text) > room {
		text, t.cut = text[:room], true
	}
	t.current = append(t.current, text...)
}

func (t *tail) clear() { t.current, t.cut, t.afterCR = t.current[:0], false, false }

func (t *tail) text() string {
	if t.cut {
		return string(t.current) + "…"
	}
	return string(t.current)
}

// lastLines returns the last lines, the oldest first. A last line without \n counts.
func (t *tail) lastLines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for i := max(0, t.count-TailLines); i < t.count; i++ {
		lines = append(lines, t.lines[i%TailLines])
	}
	if len(t.current) > 0 {
		lines = append(lines, t.text())
	}
	return lines[max(0, len(lines)-TailLines):]
}

// crash follows what Python's faulthandler prints when a process crashes: the stacks of all
// threads, and the names of all modules. The lines before it say why the process crashed,
// and it must not push them out of the tail.
type crash struct {
	inside  bool // of the faulthandler's lines
	current bool // of the stack of the thread that crashed
	frames  int  // of this stack
}

const (
	crashHead = "Fatal Python error: "
	// maxCrashFrames is how many frames of the thread that crashed the tail keeps.
	maxCrashFrames = 8
)

// isDetail reads the next line and reports whether the tail can do without it.
func (c *crash) isDetail(line string) bool {
	switch {
	case strings.HasPrefix(line, crashHead):
		*c = crash{inside: true}
		return false
	case !c.inside:
		return false
	case strings.HasPrefix(line, "Current thread 0x"):
		c.current, c.frames = true, 0
		return false
	case strings.HasPrefix(line, "Thread 0x"):
		c.current = false
		return true
	case strings.HasPrefix(line, `  File "`), strings.HasPrefix(line, "  ..."):
		c.frames++
		return !c.current || c.frames > maxCrashFrames
	case line == "", strings.HasPrefix(line, "Extension modules: "):
		return true
	}
	*c = crash{}
	return false
}

// tailOfFile returns the last lines of a file. It returns nil if the file
// cannot be read, because a report without a tail is better than no report.
func tailOfFile(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	start := max(0, info.Size()-fileTail)
	// The file may still grow, so the size of now bounds the read.
	text, err := io.ReadAll(io.NewSectionReader(f, start, info.Size()-start))
	if err != nil {
		return nil
	}
	if start > 0 {
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:] // the first line is not whole
		}
	}
	var t tail
	t.write(text)
	return t.lastLines()
}
