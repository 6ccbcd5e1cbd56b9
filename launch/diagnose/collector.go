package diagnose

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxPods bounds the prefixes of pods that a Scanner learns.
const maxPods = 256

var jsonStart = []byte(`{"log":`)

// unwrapDockerJSON returns the text and the time of a line of docker's json-file
// driver. ok reports whether p is such a line.
func unwrapDockerJSON(p []byte) (inner []byte, when stamp, ok bool) {
	if !bytes.HasPrefix(p, jsonStart) {
		return nil, stamp{}, false
	}
	var entry struct {
		Log  *string `json:"log"`
		Time string  `json:"time"`
	}
	if json.Unmarshal(p, &entry) != nil || entry.Log == nil {
		return nil, stamp{}, false
	}
	when, _ = readTime([]byte(entry.Time))
	return []byte(*entry.Log), when, true
}

// podPrefix returns the length of the name of a pod or a host at the front of p, 0 if p
// has none: stern's `pod container `, or `[pod] ` or `pod ` of other collectors. Any
// words may look like it. So they count only after they stood before the beginning of a
// worker's line.
func (s *Scanner) podPrefix(p []byte) int {
	front := p[:min(len(p), 400)]
	first := bytes.IndexByte(front, ' ') + 1
	if first < 4 {
		return 0
	}
	name := innerName(front[:first])
	isNew := isName(name) && bytes.IndexByte(name, '-') > 0 && bytes.ContainsAny(name, "0123456789")
	for n, words := first, 1; words < 4 && (isNew || len(s.pods) > 0); words++ {
		if s.pods[string(front[:n])] || isNew && words < 3 && s.learnPod(p, n) {
			return n
		}
		next := bytes.IndexByte(front[n:], ' ') + 1
		isNew = isNew && front[0] != '[' && isName(bytes.TrimSuffix(front[n:n+next], []byte{' '}))
		if n += next; next == 0 {
			break
		}
	}
	return 0
}

// innerName returns the name in `[pod] `, `[kubeflow][pod] `, `pod: ` or `pod `.
func innerName(prefix []byte) []byte {
	name := bytes.Trim(prefix, "[](): ")
	name, _, _ = bytes.Cut(name[bytes.LastIndexByte(name, '[')+1:], []byte{'/'})
	return name
}

// learnPair learns the prefixes of two writers whose tracebacks are mixed, if they differ
// in their numbers alone. It reports whether they do.
func (s *Scanner) learnPair(a, b string) bool {
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	shape := func(p string) string { return strings.Join(strings.FieldsFunc(p, isDigit), "0") }
	if a == b || len(a) > 80 || shape(a) != shape(b) || strings.Contains(shape(a), "0:0") || strings.Count(a, " ") > 2 || !strings.HasSuffix(a, " ") || len(s.pods)+2 > maxPods {
		return false
	}
	s.pods[a], s.pods[b] = true, true
	return true
}

// learnPod learns the n bytes at the front of p as a prefix, if a worker's line begins
// after them. It reports whether it does.
func (s *Scanner) learnPod(p []byte, n int) bool {
	rest := p[n:]
	begins := bytes.HasPrefix(rest, []byte("[rank")) || bytes.HasPrefix(rest, []byte("[default")) || bytes.HasPrefix(rest, traceStart) || bytes.HasPrefix(rest, []byte("Fatal Python error"))
	if begins && len(s.pods) < maxPods {
		s.pods[string(p[:n])] = true
	}
	return begins && len(s.pods) < maxPods
}

// readPod returns the name of a pod in p, behind a time or not, and the text after it.
// It returns p if there is none.
func (s *Scanner) readPod(p []byte) (pod, text []byte) {
	if n := s.podPrefix(p); n > 0 {
		return p[:n], p[n:]
	}
	if len(p) > 2 {
		rest, _ := new(head).removeTime(p)
		if n := s.podPrefix(rest); n > 0 {
			return rest[:n], rest[n:]
		}
	}
	return nil, p
}
