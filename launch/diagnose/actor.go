package diagnose

import (
	"bytes"
	"strconv"
)

// removeActor removes the parentheses that Ray and vLLM put before the lines of a
// process: `(RayWorker pid=92, ip=10.0.0.7) `, `(VllmWorker rank=7 pid=410) `,
// `(raylet) `. A line of Ray without an address comes from the node of its driver.
func (h *head) removeActor(line []byte) (rest []byte, more bool) {
	end := bytes.IndexByte(line[:min(len(line), 200)], ')')
	if end < 2 || end+1 < len(line) && line[end+1] != ' ' {
		return line, false
	}
	in := line[1:end]
	if number, ok := bytes.CutPrefix(in, []byte("worker_")); ok && bytes.HasPrefix(line[end+1:], []byte(" : ")) {
		if n, after := digits(number); n >= 0 && len(after) == 0 {
			h.rank = n
			h.addLabel(in)
			return line[end+4:], true
		}
	}
	pid := bytes.Index(in, []byte("pid="))
	if pid < 0 && string(in) != "raylet" {
		return line, false
	}
	for field := range bytes.FieldsSeq(in) {
		key, value, _ := bytes.Cut(bytes.TrimRight(field, ","), []byte{'='})
		n, after := digits(value)
		switch {
		case bytes.HasPrefix(key, []byte("Worker_TP")):
			if n, after := digits(key[len("Worker_TP"):]); n >= 0 && len(after) == 0 {
				h.rank = n
			}
		case string(key) == "ip":
			h.host = plainText(value)
		case n < 0 || len(after) > 0:
		case string(key) == "pid":
			h.pid = n
		case string(key) == "rank":
			h.rank = n
		}
	}
	h.addLabel(in)
	return skipSpace(line[end+1:]), true
}

var loggerLevels = [][]byte{[]byte("ERROR "), []byte("WARNING "), []byte("INFO "), []byte("CRITICAL ")}

// removeLogger removes the head of vLLM's logger: `ERROR 07-23 19:34:51 [core.py:58] `.
func (h *head) removeLogger(line []byte) (rest []byte, more bool) {
	for _, level := range loggerLevels {
		if !bytes.HasPrefix(line, level) {
			continue
		}
		r := timeReader{p: line[len(level):]}
		month := r.number(2, 2)
		r.oneOf("-")
		day := r.number(2, 2)
		r.oneOf(" ")
		hour, minute, sec, nano := r.clock()
		end := bytes.Index(r.p[:min(len(r.p), 100)], []byte("] "))
		if r.failed || end < 0 {
			return line, false
		}
		h.setTime(makeStamp(month, day, hour, minute, sec, nano))
		return r.p[end+2:], true
	}
	return line, false
}

// rankFields are the fields in which loggers write the rank into brackets.
var rankFields = [][]byte{[]byte("[RANK:"), []byte("[rank="), []byte("[rank:"), []byte("[Rank:")}

// readRankField reads the rank from `[RANK:3]` near the front of a line, and removes
// the brackets of the logger up to it.
func (h *head) readRankField(line []byte) (rest []byte, more bool) {
	front := line[:min(len(line), 160)]
	for _, field := range rankFields {
		at := bytes.Index(front, field)
		if at < 0 || at > 0 && line[0] != '[' && !bytes.HasPrefix(line[:at], []byte("|")) {
			continue
		}
		n, after := digits(front[at+len(field):])
		if n < 0 || len(after) == 0 || after[0] != ']' {
			return line, false
		}
		h.rank = n
		h.addLabel([]byte(strconv.Itoa(n)))
		return skipSpace(line[len(front)-len(after)+1:]), true
	}
	return line, false
}
