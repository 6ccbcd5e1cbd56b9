package diagnose

import (
	"bytes"
	"regexp/syntax"
	"slices"
)

const (
	// floodAfter is how often the scanner reads lines of one shape before it only counts
	// them.
	floodAfter = 256
	// maxShapes is the number of shapes that the scanner remembers, a power of 2.
	maxShapes = 1 << 12
	// keptLines is how many lines at the end of a run of such lines are read in full,
	// because they may be the last words of a worker.
	keptLines = 64
)

// flood knows the shapes of lines that come again and again, such as the errors of a
// data loader that the program survives. The scanner skips long runs of them, but for
// their last lines. Numbers make no difference to the shape of a line. So shapes do
// not count of lines in which a number decides.
//
// A number that only one part of the scanner reads may get lost in a run: the ranks of
// the skipped lines, and their times.
type flood struct {
	shapes  []shape // by hash; nil while the log is short
	present shape   // of the line that is read
	inFull  int     // the lines that are read in full before the next run
	kept    int     // the lines after a run that are still to be read
}

// shape is what lines have in common that differ in their numbers only.
type shape struct {
	hash    uint64
	seen    int
	decides bool   // a number in such a line may decide what it means
	group   *group // the group of the last event that such a line made; nil: they make none
	stream  streamKey
	isMixed bool // several streams have such lines
}

// isFlood reports whether such lines came so often that they say nothing new.
func (h *shape) isFlood() bool { return h.seen >= floodAfter && !h.decides }

// cutLine returns the length of the first line of p and the hash of its shape. Each
// number, with the hexadecimal digits that follow it, counts as one zero.
func cutLine(p []byte) (end int, hash uint64) {
	hash = 14695981039346656037
	inNumber := false
	for end < len(p) && p[end] != '\n' && p[end] != '\r' {
		c := p[end]
		end++
		switch {
		case c-'0' < 10:
			if inNumber {
				continue
			}
			inNumber, c = true, '0'
		case inNumber && c|0x20-'a' < 6:
			continue
		default:
			inNumber = false
		}
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	return end, hash
}

// at returns the place of a shape. Two shapes may share it.
func (f *flood) at(hash uint64) *shape { return &f.shapes[(hash^hash>>32)%maxShapes] }

// begin prepares for the reading of a line with the hash of its shape.
func (f *flood) begin(hash uint64) {
	f.inFull = max(0, f.inFull-1)
	f.kept = max(0, f.kept-1)
	f.present = shape{hash: hash}
	if old := f.at(hash); old.hash == hash {
		f.present = *old
	}
}

// readFrom notes the stream of the line that is read.
func (f *flood) readFrom(stream streamKey) {
	f.present.isMixed = f.present.isMixed || f.present.seen > 0 && f.present.stream != stream
	f.present.stream = stream
}

// learn remembers the shape of the line that was read. Of two shapes at one place the
// one that comes more often stays.
func (f *flood) learn() {
	f.present.seen++
	old := f.at(f.present.hash)
	switch {
	case old.hash == f.present.hash:
		f.present.decides = f.present.decides || old.decides
		*old = f.present
	case old.seen > 0:
		old.seen--
	default:
		*old = f.present
	}
}

// isRepeated reports whether the line that is read is one of a flood.
func (f *flood) isRepeated() bool { return f.shapes != nil && f.present.isFlood() }

// isSilent reports whether the line that is read made no events before the run that was
// skipped. Its traceback may have begun in that run.
func (f *flood) isSilent() bool { return f.kept > 0 && f.isRepeated() && f.present.group == nil }

// skipFlood returns the length of the lines at the front of p that need no reading. It
// counts their events.
func (s *Scanner) skipFlood(p []byte) int {
	f := &s.flood
	if f.shapes == nil || f.inFull > 0 {
		return 0
	}
	type entry struct {
		start int
		of    *shape
	}
	var last [keptLines]entry
	run, size := 0, 0
	events, others := 0, map[streamKey]int{} // of the lines that are skipped
	for size < len(p) {
		end, hash := cutLine(p[size:])
		h := f.at(hash)
		if h.hash != hash || !h.isFlood() || run == 0 && !s.maySkip() {
			break
		}
		e := &last[run%keptLines]
		switch {
		case run < keptLines:
		case e.of.group != nil:
			e.of.group.count++
			events++
		case e.of.isMixed:
			others[mixedStreams]++
		default:
			others[e.of.stream]++
		}
		*e = entry{size, h}
		run++
		size += end
		size += lineEnd(p[size:])
	}
	f.inFull = min(run, keptLines) + 1
	if run <= keptLines {
		return 0
	}
	f.kept = f.inFull
	s.passFlood(events, others)
	return last[run%keptLines].start
}

// maySkip reports whether all that the scanner waits for is of floods, too: the ends of
// tracebacks, the lines that follow an error.
func (s *Scanner) maySkip() bool {
	if s.report.isOpen || s.unfinished.event != nil || len(s.excerpts) > 0 || s.since.IsKnown() {
		return false
	}
	for _, t := range s.tracebacks {
		if t.isOpen() && !t.repeated {
			return false
		}
	}
	return !slices.ContainsFunc(s.followed, func(e *event) bool { return !e.repeated })
}

// mixedStreams stands for all streams with a label.
var mixedStreams = streamKey{log: -1}

// passFlood closes what is open when lines with events, and others, are skipped.
func (s *Scanner) passFlood(events int, others map[streamKey]int) {
	s.endTracebacks(func(*tracebackReader) bool { return true })
	for _, e := range s.followed {
		n := others[e.stream]
		if e.stream.label != 0 {
			n += others[mixedStreams]
		}
		e.other += n
		e.later += n / hintLines
		if events >= maxWaiting {
			e.displace()
		}
	}
	if events >= maxWaiting {
		s.followed = s.followed[:0]
	}
}

// lineEnd returns the length of the end of line at the front of p.
func lineEnd(p []byte) int {
	switch {
	case bytes.HasPrefix(p, []byte("\r\n")):
		return 2
	case len(p) > 0:
		return 1
	}
	return 0
}

// mayRepeat reports whether lines of a row or of a job line may be of a flood: no number
// in them decides what they mean.
func (m *matcher) mayRepeat() entries {
	var all entries
	for i, row := range m.rows {
		if re, err := syntax.Parse(row.Pattern, syntax.Perl); err == nil && !needsDigit(re) {
			all.add(i)
		}
	}
	for i, l := range m.jobLines {
		if l.mayRepeat {
			all.add(len(m.rows) + i)
		}
	}
	return all
}

// needsDigit reports whether re tells one digit from another.
func needsDigit(re *syntax.Regexp) bool {
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	switch re.Op {
	case syntax.OpLiteral:
		return slices.ContainsFunc(re.Rune, isDigit)
	case syntax.OpCharClass:
		n := 0
		for i := 0; i < len(re.Rune); i += 2 {
			n += int(max(0, min(re.Rune[i+1], '9')-max(re.Rune[i], '0')+1))
		}
		return n > 0 && n < 10
	}
	return slices.ContainsFunc(re.Sub, needsDigit)
}
