package prefix

import (
	"bytes"
	"strings"
)

// maxPods bounds the prefixes that Pods learn.
const maxPods = 256

// Pods holds the names of pods and hosts that collectors put before the lines of a log:
// stern's `pod container `, or `[pod] ` or `pod ` of others. Any words may look like
// one. So a name counts only after it stood before the beginning of a worker's line.
type Pods map[string]bool

// length returns the length of the name at the front of p, 0 if p has none.
func (known Pods) length(p []byte) int {
	front := p[:min(len(p), 400)]
	first := bytes.IndexByte(front, ' ') + 1
	if first < 4 {
		return 0
	}
	name := innerName(front[:first])
	isNew := isName(name) && bytes.IndexByte(name, '-') > 0 && bytes.ContainsAny(name, "0123456789")
	for n, words := first, 1; words < 4 && (isNew || len(known) > 0); words++ {
		if known[string(front[:n])] || isNew && words < 3 && known.learn(p, n) {
			return n
		}
		next := bytes.IndexByte(front[n:], ' ') + 1
		isNew = isNew && front[0] != '[' && isName(bytes.Trim(front[n:n+next], "[] "))
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

// LearnPair learns the prefixes of two writers whose tracebacks are mixed, if they differ
// in their numbers alone. It reports whether they do.
func (known Pods) LearnPair(a, b string) bool {
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	shape := func(p string) string { return strings.Join(strings.FieldsFunc(p, isDigit), "0") }
	if a == b || len(a) > 80 || shape(a) != shape(b) || strings.Contains(shape(a), "0:0") || strings.Count(a, " ") > 2 || !strings.HasSuffix(a, " ") || len(known)+2 > maxPods {
		return false
	}
	known[a], known[b] = true, true
	return true
}

// learn learns the n bytes at the front of p as a name, if a worker's line begins after
// them. It reports whether it does.
func (known Pods) learn(p []byte, n int) bool {
	rest := p[n:]
	begins := bytes.HasPrefix(rest, []byte("[rank")) || bytes.HasPrefix(rest, []byte("[default")) || bytes.HasPrefix(rest, []byte("Traceback (most recent call last)")) || bytes.HasPrefix(rest, []byte("Fatal Python error"))
	if begins && len(known) < maxPods {
		known[string(p[:n])] = true
	}
	return begins && len(known) < maxPods
}

// Read returns the name in p, behind a time or not, and the text after it. It returns p if
// there is none.
func (known Pods) Read(p []byte) (pod, text []byte) {
	if n := known.length(p); n > 0 {
		return p[:n], p[n:]
	}
	if len(p) > 2 {
		rest, _ := new(Head).removeTime(p)
		if n := known.length(rest); n > 0 {
			return rest[:n], rest[n:]
		}
	}
	return nil, p
}

// SetPod makes pod, which Pods.Read returned, a part of the stream's name, and reads
// the host from it.
func (h *Head) SetPod(pod []byte) {
	h.AddLabel(pod)
	h.removePrefix(pod)
	if name := innerName(pod[:bytes.IndexByte(pod, ' ')]); h.Host == "" && isName(name) && bytes.ContainsAny(name, "0123456789") {
		h.Host = string(name)
	}
}
