package diagnose

import (
	"bytes"

	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/prefix"
)

// readLine reads one line. A collector may have wrapped it in JSON.
func (s *Scanner) readLine(p []byte) {
	inner, when, ok := prefix.UnwrapJSON(bytes.TrimRight(p, "\r\n"))
	if !ok {
		s.readText(p, prefix.Stamp{})
		return
	}
	for part := range bytes.FieldsFuncSeq(inner, func(r rune) bool { return r == '\n' || r == '\r' }) {
		s.readText(part, when)
	}
}

// readText reads one line without its JSON. when is the time in the JSON.
func (s *Scanner) readText(p []byte, when prefix.Stamp) {
	p = bytes.TrimRight(p, "\r\n")
	if front := p[:min(len(p), maxMatched)]; bytes.IndexByte(front, 0x1b) >= 0 {
		p = colours().ReplaceAll(front, nil)
	}
	var words entries
	hasWord, first := false, 0 // first: where the first word ends
	s.matcher.finder.All(p, func(e, end int) {
		if !hasWord {
			hasWord, first = true, end
		}
		words.add(e)
	})
	s.flood.present.decides = s.flood.present.decides || words.without(s.matcher.repeatable) != entries{}
	if !hasWord && !s.needsEveryLine() {
		return
	}
	if s.readSection(p) {
		return
	}
	l := line{number: s.number, words: words}
	l.Head, l.raw = s.readWriter(p, when)
	l.stream = streamKey{len(s.logs) - 1, l.Label}
	if l.Timed {
		s.recordStart, s.recordOf = l.number, l.stream
	}
	s.flood.readFrom(l.stream)
	if len(p)-len(l.raw) < first && len(l.raw) > maxMatched {
		from := max(0, first-(len(p)-len(l.raw))-maxMatched/4)
		l.raw = l.raw[from:]
	}
	l.raw = l.raw[:min(len(l.raw), maxMatched)]
	s.hasText = s.hasText || len(bytes.TrimSpace(l.raw)) > 0
	log := &s.logs[l.stream.log]
	if log.isTail && len(bytes.TrimSpace(p)) > 0 {
		s.lastLine = match.PlainText(p) // with its prefixes, because log.Fatal begins with the time
	}
	if s.isTooOld(&l) {
		return
	}
	s.classify(&l, hasWord)
}

// headOf returns what the prefixes of a line say, and its text. The line may have colours, be
// wrapped in JSON, or begin with the name of a pod.
func (s *Scanner) headOf(p []byte) (prefix.Head, []byte) {
	if bytes.IndexByte(p, 0x1b) >= 0 {
		p = colours().ReplaceAll(p, nil)
	}
	if inner, when, ok := prefix.UnwrapJSON(p); ok {
		h, raw := s.headOf(bytes.TrimRight(inner, "\r\n"))
		if when.IsKnown() {
			h.SetTime(when)
		}
		return h, raw
	}
	pod, text := s.pods.Read(p)
	h, raw := prefix.ReadHead(text)
	if len(pod) > 0 {
		h.SetPod(pod)
		if t, _ := prefix.ReadTime(p); t.IsKnown() {
			h.SetTime(t)
		}
	}
	if s.section != nil {
		h.AddLabel([]byte(s.section.Name))
	}
	return h, raw
}

// readWriter reads who wrote a line, and when: from its prefixes, else from the file of
// which tail prints it, else from the log. when is the time in docker's JSON. It returns
// the text of the line as well.
func (s *Scanner) readWriter(p []byte, when prefix.Stamp) (prefix.Head, []byte) {
	h, raw := s.headOf(p)
	log := &s.logs[len(s.logs)-1]
	if s.section != nil {
		s.section.nameWriter(&h)
	}
	log.nameWriter(&h)
	if when.IsKnown() {
		h.When = when
	}
	switch {
	case log.isTail:
		h.When = prefix.Stamp{}
	case h.When.IsKnown():
		s.now = h.When
	default:
		h.When = s.now
	}
	return h, raw
}

// classify gives a line to the reports, the job, the rows and the tracebacks. hasWord
// reports whether the finder found a word in it.
func (s *Scanner) classify(l *line, hasWord bool) {
	if s.report.isExplanation(l) {
		return
	}
	s.report.readLine(s, l)
	s.extendExcerpts(l)
	s.job.recordWriter(l)
	ofStack := s.continueText(l)
	s.nameRecord(l)
	s.readStackFrame(l)
	s.readNext(l)
	isKnown := false
	if hasWord {
		for i, f := range s.matcher.jobLines {
			if f.read != nil && l.words.has(len(s.matcher.rows)+i) {
				if found := match.FindFields(f.re(), l.raw); found != nil {
					f.read(s, l, found)
				}
			}
		}
		words := l.words
		if t := s.tracebacks[l.stream]; t != nil && t.isOpen() || s.flood.isSilent() || ofStack || l.Calm { // its class and frames say more
			words = words.without(s.matcher.general)
		}
		if t := s.tracebacks[l.stream]; t != nil && t.isSource(l.raw) {
			words = entries{}
		}
		if row, f := s.matcher.match(&words, l.raw); row != nil {
			s.recordMatch(row, f, l)
			isKnown = true
		}
	}
	if !isKnown { // another error does not show that the program went on
		s.countLaterLines(l)
	}
	s.readTraceback(l)
	if l.number%1024 == 0 {
		s.endTracebacks(func(t *tracebackReader) bool {
			return l.number-t.firstLine > maxFollowed || l.number < t.firstLine
		})
	}
}
