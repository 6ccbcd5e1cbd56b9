package diagnose

import (
	"bytes"
	"encoding/json"
)

// maxPods is how many prefixes of stern are learnt from a log.
const maxPods = 256

var jsonStart = []byte(`{"log":`)

// unwrap returns the text of a line of docker's json-file driver, with the time
// that it tells. ok: p is one.
func unwrap(p []byte) (inner []byte, when stamp, ok bool) {
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

// cri takes what containerd and CRI-O write between a line's time and its text.
func cri(p []byte) []byte {
	for _, stream := range []string{"stdout ", "stderr "} {
		if rest, ok := bytes.CutPrefix(p, []byte(stream)); ok && len(rest) > 1 && (rest[0] == 'F' || rest[0] == 'P') && rest[1] == ' ' {
			return rest[2:]
		}
	}
	return p
}

// stern returns how long stern's `pod container ` at the front of p is, 0 if it
// is not there. They are words like any: a pair counts once it stood before what
// begins a line of a worker.
func (s *Scanner) stern(p []byte) int {
	pod, rest, _ := bytes.Cut(p[:min(len(p), 400)], []byte{' '})
	container, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || len(container) == 0 || len(pod) < 3 || !word(pod) || !word(container) ||
		bytes.IndexByte(pod, '-') < 1 || !bytes.ContainsAny(pod, "0123456789") {
		return 0
	}
	n := len(pod) + len(container) + 2
	if s.pods[string(p[:n])] {
		return n
	}
	begins := bytes.HasPrefix(rest, []byte("[rank")) || bytes.HasPrefix(rest, []byte("[default")) || bytes.HasPrefix(rest, traceStart)
	if !begins || len(s.pods) >= maxPods {
		return 0
	}
	s.pods[string(p[:n])] = true
	return n
}

// binary reports whether p, the front of a log, is no text: more than one byte of
// ten is a control character. A log that was cut while it was written begins with
// zeros.
func binary(p []byte) bool {
	p = bytes.TrimLeft(p[:min(len(p), blockSize)], "\x00")
	p = p[:min(len(p), 4<<10)]
	odd := 0
	for _, c := range p {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != '\b' && c != 0x1b {
			odd++
		}
	}
	return odd > len(p)/10
}
