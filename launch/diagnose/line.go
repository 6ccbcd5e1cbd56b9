package diagnose

import "bytes"

// readLine reads one line. Docker may have wrapped it in JSON.
func (s *Scanner) readLine(p []byte) {
	inner, when, ok := unwrapDockerJSON(bytes.TrimRight(p, "\r\n"))
	if !ok {
		s.readText(p, stamp{})
		return
	}
	for part := range bytes.FieldsFuncSeq(inner, func(r rune) bool { return r == '\n' || r == '\r' }) {
		s.readText(part, when)
	}
}

// readText reads one line without its JSON. when is the time in the JSON.
func (s *Scanner) readText(p []byte, when stamp) {
	p = bytes.TrimRight(p, "\r\n")
	if front := p[:min(len(p), maxMatched)]; bytes.IndexByte(front, 0x1b) >= 0 {
		p = colours().ReplaceAll(front, nil)
	}
	var words entries
	hasWord, first := false, 0 // first: where the first word ends
	s.matcher.finder.all(p, func(e, end int) {
		if !hasWord {
			hasWord, first = true, end
		}
		words.add(e)
	})
	if !hasWord && !s.needsEveryLine() {
		return
	}
	l := line{number: s.number, words: words}
	pod := s.sternPrefix(p)
	l.head, l.raw = readHead(p[pod:])
	if pod > 0 {
		l.addLabel(p[:pod])
		if l.host == "" {
			l.host, _, _ = cut(p, ' ')
		}
	}
	if when.isKnown() {
		l.when = when
	}
	l.stream = streamKey{len(s.logs) - 1, l.label}
	if len(p)-len(l.raw) < first && len(l.raw) > maxMatched {
		from := max(0, first-(len(p)-len(l.raw))-maxMatched/4)
		l.raw = l.raw[from:]
	}
	l.raw = l.raw[:min(len(l.raw), maxMatched)]
	s.hasText = s.hasText || len(bytes.TrimSpace(l.raw)) > 0
	log := &s.logs[l.stream.log]
	if log.isTail && len(bytes.TrimSpace(p)) > 0 {
		s.lastLine = plainText(p) // with its prefixes, because log.Fatal begins with the time
	}
	switch {
	case log.isTail:
		l.when = stamp{}
	case l.when.isKnown():
		s.now = l.when
	default:
		l.when = s.now
	}
	if l.rank < 0 {
		l.rank = log.Rank
	}
	if l.local < 0 {
		l.local = log.Local
	}
	if l.host == "" {
		l.host = log.Host
	}
	if s.isTooOld(&l) {
		return
	}
	s.classify(&l, hasWord)
}

// classify gives a line to the reports, the job, the rows and the tracebacks. hasWord
// reports whether the finder found a word in it.
func (s *Scanner) classify(l *line, hasWord bool) {
	if s.report.isExplanation(l) {
		return
	}
	s.report.readLine(s, l)
	s.job.recordWriter(l)
	s.continueText(l)
	isKnown := false
	if hasWord {
		for i, f := range s.matcher.jobLines {
			if l.words.has(len(s.matcher.rows) + i) {
				f.read(s, l)
			}
		}
		words := l.words
		if t := s.tracebacks[l.stream]; t != nil && t.isOpen() { // its class and frames say more
			words = words.without(s.matcher.general)
		}
		if row, at := s.matcher.match(&words, l.raw); row != nil {
			s.recordMatch(row, at, l)
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
