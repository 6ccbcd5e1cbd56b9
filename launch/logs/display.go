package logs

import (
	"bytes"
	"slices"
)

// maxLine is the longest line that lineDisplay writes in one piece, in bytes. It
// splits longer lines, so that a worker that never ends a line cannot fill the memory.
const maxLine = 64 << 10

// display shows one stream on the console. It ignores errors, because the job goes on
// after the reader of the console has ended (`gorun ... | head`).
type display interface {
	show(p []byte)
	finish() // the stream has ended
}

// rawDisplay shows bytes unchanged and at once.
type rawDisplay struct {
	sink   *sink
	giveUp <-chan struct{}
}

func (r rawDisplay) show(p []byte) { _ = r.sink.write(p, r.giveUp) }
func (r rawDisplay) finish()       {}

// lineDisplay writes whole lines, each after a prefix. Lines that arrive together
// are one write, so that no line is split by another worker's. A line
// ends with \n, \r\n or \r. With \r the steps of progress bars are lines, as under
// torchrun, which reads its log files with universal newlines.
type lineDisplay struct {
	write  func([]byte)
	prefix string
	texts  []string // only lines with one of them are written; nil: all are

	part    []byte // a line that has not ended, at most maxLine
	afterCR bool   // the last line ended with \r; a \n that follows belongs to it
	block   []byte // lines to show, reused
}

func (w *lineDisplay) show(p []byte) {
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
		w.write(w.block)
	}
}

// add appends text without a line end to the line, and ends the line at maxLine.
func (w *lineDisplay) add(text []byte) {
	for len(w.part)+len(text) > maxLine {
		room := maxLine - len(w.part)
		w.part = append(w.part, text[:room]...)
		text = text[room:]
		w.endLine()
	}
	w.part = append(w.part, text...)
}

func (w *lineDisplay) endLine() {
	if w.texts == nil || slices.ContainsFunc(w.texts, func(text string) bool { return bytes.Contains(w.part, []byte(text)) }) {
		w.block = append(w.block, w.prefix...)
		w.block = append(w.block, w.part...)
		w.block = append(w.block, '\n')
	}
	w.part = w.part[:0]
}

func (w *lineDisplay) finish() {
	if len(w.part) > 0 {
		w.block = w.block[:0]
		if w.endLine(); len(w.block) > 0 {
			w.write(w.block)
		}
	}
}
