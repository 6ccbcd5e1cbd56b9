package diagnose

import "bytes"

// line reads one line, which docker may have wrapped in JSON.
func (s *Scanner) line(p []byte) {
	inner, when, ok := unwrap(bytes.TrimRight(p, "\r\n"))
	if !ok {
		s.plain(p, stamp{})
		return
	}
	s.wrapped = true
	for part := range bytes.FieldsFuncSeq(inner, func(r rune) bool { return r == '\n' || r == '\r' }) {
		s.plain(part, when)
	}
}

// plain reads one line. when is the time in its wrapping.
func (s *Scanner) plain(p []byte, when stamp) {
	p = bytes.TrimRight(p, "\r\n")
	var may entries
	any, first := false, 0
	s.m.finder.all(p, func(e, end int) {
		if !any {
			any, first = true, end
		}
		may.add(e)
	})
	if !any && !s.busy() {
		return
	}
	if bytes.IndexByte(p[:min(len(p), 64)], 0x1b) >= 0 {
		p = colours().ReplaceAll(p[:min(len(p), maxJudged)], nil)
		first = 0
	}
	l := line{number: s.number, may: may}
	pod := s.stern(p)
	l.head, l.raw = readHead(p[pod:])
	if pod > 0 {
		l.name(p[:pod])
		if l.host == "" {
			l.host, _, _ = cut(p, ' ')
		}
	}
	if when.known() {
		l.when = when
	}
	l.stream = streamKey{len(s.logs) - 1, l.label}
	if len(p)-len(l.raw) < first && len(l.raw) > maxJudged {
		from := max(0, first-(len(p)-len(l.raw))-maxJudged/4)
		l.raw = l.raw[from:]
	}
	l.raw = l.raw[:min(len(l.raw), maxJudged)]
	s.wrote = s.wrote || len(bytes.TrimSpace(l.raw)) > 0
	log := &s.logs[l.stream.log]
	if log.Tail && len(bytes.TrimSpace(p)) > 0 {
		s.said = text(p) // with its head, because log.Fatal begins with the time
	}
	switch {
	case log.Tail:
		l.when = stamp{}
	case l.when.known():
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
	s.judge(&l, any)
}

// judge gives a line to the reports, the facts, the rows and the tracebacks.
func (s *Scanner) judge(l *line, any bool) {
	if s.inside.own(l) {
		return
	}
	s.inside.line(s, l)
	s.job.seen(l)
	s.wentOn(l)
	if any {
		for i, f := range s.m.facts {
			if l.may.has(len(s.m.rows) + i) {
				f.note(s, l)
			}
		}
		if row, at := s.m.match(&l.may, l.raw); row != nil {
			s.matched(row, at, l)
		}
	}
	s.trace(l)
	if l.number%1024 == 0 {
		s.giveUp(l)
	}
}
