package diagnose

import (
	"bytes"
	"encoding/json"
)

// maxPods bounds the prefixes of stern that a Scanner learns.
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

// removeCRI removes the stream and the tag that containerd and CRI-O write between
// a line's time and its text.
func removeCRI(p []byte) []byte {
	for _, stream := range []string{"stdout ", "stderr "} {
		if rest, ok := bytes.CutPrefix(p, []byte(stream)); ok && len(rest) > 1 && (rest[0] == 'F' || rest[0] == 'P') && rest[1] == ' ' {
			return rest[2:]
		}
	}
	return p
}

// sternPrefix returns the length of stern's `pod container ` at the front of p, 0 if
// p has none. Any two words may look like it. So a pair counts only after it stood
// before the beginning of a worker's line.
func (s *Scanner) sternPrefix(p []byte) int {
	pod, rest, _ := bytes.Cut(p[:min(len(p), 400)], []byte{' '})
	container, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || len(container) == 0 || len(pod) < 3 || !isName(pod) || !isName(container) ||
		bytes.IndexByte(pod, '-') < 1 || !bytes.ContainsAny(pod, "0123456789") {
		return 0
	}
	n := len(pod) + len(container) + 2
	if s.pods[string(p[:n])] {
		return n
	}
	begins := bytes.HasPrefix(rest, []byte("[rank")) || bytes.HasPrefix(rest, []byte("[default")) || bytes.HasPrefix(rest, traceStart) || bytes.HasPrefix(rest, []byte("Fatal Python error"))
	if !begins || len(s.pods) >= maxPods {
		return 0
	}
	s.pods[string(p[:n])] = true
	return n
}
