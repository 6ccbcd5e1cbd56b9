package ssh

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/term"
)

// maxLine is the longest line that is passed on in one piece, in bytes.
const maxLine = 64 << 10

// output is a stream of this program that the streams of all hosts share. It writes
// whole lines.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) write(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.to.Write(b) // a closed terminal must not end the job
}

// stream passes the lines of one stream of a host on.
type stream struct {
	to     *output
	prefix string // of each line
	token  string // begins what is no output; "": all is
	marks  chan<- mark

	mu      sync.Mutex
	passing bool   // false: the job has not begun, and a start file of a shell may print
	last    string // the last line that is not empty
}

// pass begins to pass lines on.
func (s *stream) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passing = true
}

// lastLine returns the last line of the stream as safe text.
func (s *stream) lastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// copy reads the stream to its end.
func (s *stream) copy(from io.Reader) {
	chunk := make([]byte, maxLine/2)
	var pending, out []byte
	for {
		n, err := from.Read(chunk)
		pending = append(pending, chunk[:n]...)
		for {
			end := lineEnd(pending)
			switch {
			case end == 0 && (len(pending) >= maxLine || err != nil):
				end = len(pending)
			}
			if end == 0 {
				break
			}
			out = s.take(out, pending[:end])
			pending = pending[end:]
		}
		if len(out) > 0 {
			s.to.write(out)
			out = out[:0]
		}
		if err != nil {
			return
		}
	}
}

// lineEnd returns the length of the first line with its end, or 0. A carriage return
// ends a line, too: progress bars have no other end.
func lineEnd(b []byte) int {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0:
		return 0
	case b[i] == '\n':
		return i + 1
	case i+1 == len(b): // a line feed may follow
		return 0
	case b[i+1] == '\n':
		return i + 2
	}
	return i + 1
}

// take appends a line to what is written, if it is output of the job.
func (s *stream) take(out, line []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" {
		if at := bytes.Index(line, []byte(s.token+" ")); at >= 0 {
			if m, ok := parseMark(string(line[at:]), s.token); ok {
				select {
				case s.marks <- m:
				default: // more marks than a host has to say
				}
			}
			line = line[:at]
		}
	}
	if text := strings.TrimSpace(term.Plain(string(line))); text != "" {
		s.last = term.OneLine(text)
	}
	if !s.passing || len(line) == 0 {
		return out
	}
	out = append(append(out, s.prefix...), line...)
	if end := line[len(line)-1]; end != '\n' && end != '\r' {
		out = append(out, '\n')
	}
	return out
}
