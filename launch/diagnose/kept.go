package diagnose

import (
	"bytes"
	"iter"

	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// maxReread is how many lines linesBefore yields in all, besides two for each line of
// the log. Only a flood of ends, or of rows of a table, needs more.
const maxReread = 1 << 17

// keep keeps the end of what was read, however small the blocks are.
func (s *Scanner) keep(block []byte) {
	block = block[max(0, len(block)-keptBefore):]
	old := s.previous[max(0, len(s.previous)+len(block)-keptBefore):]
	s.previous = append(s.previous[:copy(s.previous, old)], block...)
}

// linesBefore returns up to n lines before the present one with their prefixes, the last
// one first, without empty lines. It sees the part of the log that is in memory.
func (s *Scanner) linesBefore(n int) iter.Seq2[prefix.Head, []byte] {
	return func(yield func(prefix.Head, []byte) bool) {
		text, earlier := s.before, s.previous
		for range n {
			if text = bytes.TrimRight(text, "\r\n"); len(text) == 0 {
				text, earlier = bytes.TrimRight(earlier, "\r\n"), nil
			}
			if s.job.reread++; len(text) == 0 || s.job.reread > maxReread+2*s.number {
				return
			}
			at := bytes.LastIndexByte(text, '\n') + 1
			p := text[at:][:min(len(text)-at, maxMatched)]
			text = text[:at]
			if _, _, isTitle := titleOf(p); isTitle {
				return
			}
			h, rest := s.headOf(p)
			if !isRule(rest) && !yield(h, rest) {
				return
			}
		}
	}
}

// linesAtEnd returns up to n lines at the end of the present log, the last one first,
// without empty lines.
func (s *Scanner) linesAtEnd(n int) iter.Seq[*line] {
	return func(yield func(*line) bool) {
		text, number := s.previous, s.number
		for range n {
			end := bytes.TrimRight(text, "\r\n\t ")
			if len(end) == 0 {
				return
			}
			number -= int64(bytes.Count(text[len(end):], []byte{'\n'}))
			at := bytes.LastIndexAny(end, "\r\n") + 1
			h, rest := s.headOf(end[at:][:min(len(end)-at, maxMatched)])
			text = end[:at]
			if !yield(&line{Head: h, raw: rest, number: number, stream: streamKey{len(s.logs) - 1, h.Label}}) {
				return
			}
		}
	}
}
