package logs

import "bytes"

// maxLine is the longest line shown in one piece, in bytes. Longer lines are
// cut, so that a worker that never ends a line cannot fill the memory.
const maxLine = 64 << 10

// display shows one stream on the console.
type display interface {
	show(p []byte)
	finish() // the stream has ended
}

// raw shows bytes as they come.
type raw struct {
	sink   *sink
	giveUp <-chan struct{}
}

func (r raw) show(p []byte) { r.sink.write(p, r.giveUp) }
func (r raw) finish()       {}

// prefixed shows whole lines, each after a prefix. Lines that arrive together
// are one write to the sink, so that lines of several workers never tear each
// other. A line ends with \n, \r\n or \r. The last makes
// progress bars visible, as torchrun does (it reads its log files with universal
// newlines).
type prefixed struct {
	sink   *sink
	giveUp <-chan struct{}
	prefix string

	part    []byte // a line that has not ended, at most maxLine
	afterCR bool   // the last line ended with \r; a \n that follows belongs to it
	block   []byte // lines to show, reused
}

func (w *prefixed) show(p []byte) {
	w.block = w.block[:0]
	for len(p) > 0 {
		if w.afterCR {
			w.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			w.add(p)
			break
		}
		w.add(p[:end])
		if p[end] == '\n' {
			w.endLine()
		} else if len(w.part) > 0 { // bars begin with \r, which makes no empty line
			w.endLine()
			w.afterCR = true
		}
		p = p[end+1:]
	}
	if len(w.block) > 0 {
		w.sink.write(w.block, w.giveUp)
	}
}

// add appends text without a line end to the line, and cuts the line where it
// gets too long.
func (w *prefixed) add(text []byte) {
	for len(w.part)+len(text) > maxLine {
		room := maxLine - len(w.part)
		w.part = append(w.part, text[:room]...)
		text = text[room:]
		w.endLine()
	}
	w.part = append(w.part, text...)
}

func (w *prefixed) endLine() {
	w.block = append(w.block, w.prefix...)
	w.block = append(w.block, w.part...)
	w.block = append(w.block, '\n')
	w.part = w.part[:0]
}

func (w *prefixed) finish() {
	if len(w.part) > 0 {
		w.block = w.block[:0]
		w.endLine()
		w.sink.write(w.block, w.giveUp)
	}
}
