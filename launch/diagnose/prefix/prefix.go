// Package prefix reads what launchers, collectors and loggers put before the lines of a
// process: who wrote a line, and when.
//
// A Head is what the prefixes of one line say. Its Label names the stream of the line:
// lines of one label are of one writer. Pods holds the prefixes that only a whole log can
// show to be such.
package prefix

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// prefixes returns what launchers, collectors and loggers put before the lines of a
// process, times aside. The first one that fits is removed, and then the next prefix is
// looked for. In braces is what a prefix names:
//
//   - {rank}, {local}, {task} and {pid} are numbers, {n} is any number;
//   - {host} is a name in small letters, {node} one with a digit, {Host} one in any
//     letters, {name} is any name in small letters, {tag} a name without the digits at its
//     end;
//   - {time} is a time, {date} one of vLLM (07-23 19:34:51), {any} is any text in one pair of brackets, {all} is any text;
//   - {:} and { } are characters that may be missing, {*} is any number of blanks;
//   - {launcher} says that a launcher itself writes the line;
//   - {text} is where the text of the line begins, if the prefix or its end belongs to it.
func prefixes() []string {
	return []string{
		// containerd and CRI-O
		`stdout{ }F `, `stdout{ }P `, `stderr{ }F `, `stderr{ }P `,
		// torch, mpirun, SageMaker, Horovod, prterun, kubectl
		`[rank{rank}]:{ }`, `{text}[rank{rank}]`, `[{n},{rank}]<{name}>:`, `[{n},mpirank:{rank},{any}]<{name}>:`, `[{rank}]<{name}>:`, `[prterun-{any}@{n},{rank}]<{name}>:{ }`, `[pod/{host}/{any}]{:}{ }`,
		// loggers
		`[RANK:{rank}]{ }`, `[rank={rank}]{ }`, `[rank:{rank}]{ }`, `[Rank:{rank}]{ }`, `[{all}[RANK:{rank}]{ }`, `[{all}[rank={rank}]{ }`, `[{all}[rank:{rank}]{ }`, `[{all}[Rank:{rank}]{ }`,
		// TPU pods, Julia, PETSc, Cray PMI
		`[task {task}]{:}{ }`, `[process {task}]{:}{ }`, `[proc {task}]{:}{ }`, `[worker {name}]{:}{ }`,
		`[{pid}]{ }{text}signal (`, `[{rank}]{text}PETSC ERROR: `, `[PE_{rank}]:`, `[{task}]{:} `,
		// torch's watchdogs, SGLang
		`{text}[Rank {rank}]`, `{text}[PG {any}Rank {rank}]`, `{text}[E {any}] [Rank {rank}]`, `{text}[W {any}] [Rank {rank}]`, `{text}[E {any}] [PG {any}Rank {rank}]`,
		`{text}[{time} {any}] [Rank {rank}]`, `{text}[{time} {any}] [PG {any}Rank {rank}]`, `[{time} {any}TP{rank}]{ }`, `[{time} {any}TP{rank} EP{n}]{ }`, `{text}[{time}`,
		// Hydra, MVAPICH, Open MPI, torchrun and gorun
		`{text}[{launcher}proxy:{any}@{Host}]`, `{text}[{launcher}mpiexec@{Host}]`, `{text}[{Host}:mpi_rank_{rank}]`, `{text}[{Host}:{n}]:`, `{text}[{Host}:{pid}]`, `{text}[{Host}:{pid}:`, `{text}[{Host}:{pid} `, `[{tag}{local}]:`,
		// Ray, vLLM
		`ERROR {date} {any}] `, `WARNING {date} {any}] `, `INFO {date} {any}] `, `CRITICAL {date} {any}] `, `({any}rank={rank} pid={pid}) `, `({any}rank={rank}, pid={pid}, ip={Host}) `, `({any}rank={rank}, pid={pid}) `, `(Worker_TP{rank} pid={pid}) `, `({any} TP{rank} pid={pid}) `, `({any}pid={pid}, ip={Host}) `, `({any}pid={pid}) `, `(raylet, ip={Host}) `, `(raylet) `, `(worker_{rank}) : `,
		// srun -l, Composer, docker compose, syslog, PSM, pdsh, NCCL
		`{task}: `, `rank{rank}[{pid}][{any}]: `, `rank{rank} {*}|{ }`, `{name}{*}||{ }`, `{host} {*}|{ }`, `{host} {text}kernel: `, `{node} {text}[  +`, `{text}{host}:pid{pid}`, `{text}{host}:rank{rank}`, `{text}slurmstepd-{host}:`, `{node}: `, `{text}{Host}:{pid}:{n} `,
	}
}

// Head holds what the prefixes of a line say about its writer and its time.
type Head struct {
	Label uint64 // hash of the prefixes that name the stream; 0: none
	Rank  int    // -1: unknown
	Local int    // -1: unknown
	Task  int    // of srun -l; -1: unknown
	Host  string
	PID   int
	When  Stamp
	Timed bool // the line itself has a time
	Calm  bool // a logger's level below an error stands before the text
}

// prefix is a compiled prefix.
type prefix []prefixPart

// prefixPart is a text, or a field: what the braces name.
type prefixPart struct {
	field, text string
	next        string // the text after the part
}

// compilePrefix splits a prefix into its parts.
func compilePrefix(pattern string) prefix {
	var p prefix
	for pattern != "" {
		text, after, _ := strings.Cut(pattern, "{")
		if text != "" {
			if len(p) > 0 {
				p[len(p)-1].next = text
			}
			p = append(p, prefixPart{text: text})
		}
		var field string
		if field, pattern, _ = strings.Cut(after, "}"); field != "" {
			p = append(p, prefixPart{field: field})
		}
	}
	return p
}

// prefixesByByte returns the compiled prefixes of lines that begin with each byte.
var prefixesByByte = sync.OnceValue(func() *[256][]prefix {
	var by [256][]prefix
	for _, pattern := range prefixes() {
		p := compilePrefix(pattern)
		first := p[0]
		if first.field == "text" {
			first = p[1]
		}
		for c := range by {
			if line := []byte{byte(c), '0', 'a'}; first.text == string(line[:1]) || first.text != "" && first.text[0] == byte(c) || first.text == "" && first.length(line) > 0 {
				by[c] = append(by[c], p)
			}
		}
	}
	return &by
})

const (
	maxName  = 64 // bytes of a name in a prefix
	maxParts = 16 // of a prefix
)

// nameLength returns the length of the name at the front of p, 0 if it has none. A name
// of small letters has two characters at least.
func nameLength(p []byte, isSmall bool) int {
	n := 0
	for n < len(p) && n < maxName {
		switch c := p[n]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', 'A' <= c && c <= 'Z' && !isSmall, n > 0 && (c == '-' || c == '.' || c == '_'):
			n++
			continue
		}
		break
	}
	return n
}

// length returns how many bytes at the front of line the part takes, -1 if it does not
// fit. A text that ends with a blank also fits a line that ends before the blank.
func (p *prefixPart) length(line []byte) int {
	switch p.field {
	case "":
		if len(line) >= len(p.text) && string(line[:len(p.text)]) == p.text {
			return len(p.text)
		}
		if string(line) == strings.TrimSuffix(p.text, " ") {
			return len(line)
		}
	case "rank", "local", "task", "pid", "n":
		if n, rest := digits(line); n >= 0 {
			return len(line) - len(rest)
		}
	case "host", "name":
		if n := nameLength(line, true); n > 1 || n == 1 && p.field == "name" {
			return n
		}
	case "node":
		if n := nameLength(line, true); n > 1 && bytes.ContainsAny(line[:n], "0123456789") && !isScript(line[:n]) && !isDuration(line[:n]) && !bytes.HasPrefix(line, []byte("mlx")) {
			return n
		}
	case "Host":
		if n := nameLength(line, false); n > 0 && len(bytes.Trim(line[:n], "0123456789")) > 0 {
			return n
		}
	case "tag":
		n := nameLength(line, false)
		if n = len(bytes.TrimRight(line[:n], "0123456789")); n > 0 {
			return n
		}
	case "any":
		n := bytes.Index(line[:min(len(line), 200)], []byte(p.next))
		if end := bytes.IndexAny(line[:max(n, 0)], "])"); n >= 0 && end < 0 {
			return n
		}
	case "all":
		return bytes.Index(line[:min(len(line), 200)], []byte(p.next))
	case "text", "launcher":
		return 0
	case "time", "date":
		_, rest := p.readTime(line)
		if len(rest) < len(line) {
			return len(line) - len(rest)
		}
	case "*":
		return len(line) - len(bytes.TrimLeft(line, " "))
	default: // a character that may be missing
		return min(1, len(line)-len(bytes.TrimPrefix(line, []byte(p.field))))
	}
	return -1
}

// readTime reads the time at the front of line, if the part is one.
func (p *prefixPart) readTime(line []byte) (t Stamp, rest []byte) {
	switch p.field {
	case "time":
		return ReadTime(line)
	case "date":
		r := timeReader{p: line}
		month := r.number(2, 2)
		r.oneOf("-")
		day := r.number(2, 2)
		r.oneOf(" ")
		hour, minute, sec, nano := r.clock()
		if t = MakeStamp(month, day, hour, minute, sec, nano); !r.failed && t.IsKnown() {
			return t, r.p
		}
	}
	return Stamp{}, line
}

// remove removes the prefix from a line, and reads what it names into h.
func (p prefix) remove(line []byte, h *Head) (rest []byte, ok bool) {
	var ends [maxParts]int
	at, text := 0, -1
	for i := range p {
		n := p[i].length(line[at:])
		if n < 0 {
			return line, false
		}
		if p[i].field == "text" {
			text = at
		}
		at += n
		ends[i] = at
	}
	if text < 0 {
		text = at
	}
	h.Calm = h.Calm || hasCalmLevel(line[:text])
	start, label, isTimed := 0, h.Label, false
	for i := range p {
		value := line[start:ends[i]]
		start = ends[i]
		if p[i].field == "" {
			continue
		}
		if t, _ := p[i].readTime(value); t.IsKnown() {
			h.SetTime(t)
			isTimed = true
		}
		h.set(p[i].field, value, text > 0)
	}
	switch {
	case isTimed: // loggers put it before the first line of a text only
		h.Label = label
	case len(p) == 1:
		h.AddLabel(line[:at])
	}
	return line[text:], true
}

// hasCalmLevel reports whether a prefix has a logger's level below an error.
func hasCalmLevel(prefix []byte) bool {
	for _, level := range []string{"INFO", "WARNING", "DEBUG"} {
		if at := bytes.Index(prefix, []byte(level)); at == 0 || at > 0 && prefix[at-1] == '[' {
			return true
		}
	}
	return false
}

// set sets a field to its value. The fields of removed prefixes name the stream. The rank
// in a text does not count if a prefix named one.
func (h *Head) set(field string, value []byte, isRemoved bool) {
	number, _ := digits(value)
	switch field {
	case "rank":
		if isRemoved || h.Rank < 0 {
			h.Rank = number
		}
	case "local":
		h.Local = number
	case "task":
		if h.Task = number; number >= 1<<15 { // of Julia's processes
			h.Task, h.PID = -1, number
		}
	case "pid":
		h.PID = number
	case "host", "Host", "node":
		h.Host = string(value)
	case "launcher":
		h.Task, h.Rank = -1, -1
		return
	case "name", "tag":
	default:
		return
	}
	if isRemoved {
		h.AddLabel([]byte(field[:1]))
		h.AddLabel(value)
	}
}

// ReadHead removes the prefixes of a line, in any order and number. It returns the rest
// with its indentation.
func ReadHead(line []byte) (Head, []byte) {
	h := Head{Rank: -1, Local: -1, Task: -1}
	for range 8 {
		rest, more := h.removePrefix(line)
		line = rest
		if !more {
			break
		}
	}
	return h, line
}

// removePrefix removes one prefix or time. more reports whether another may follow.
func (h *Head) removePrefix(line []byte) (rest []byte, more bool) {
	if len(line) < 3 {
		return line, false
	}
	if rest, ok := h.removeTime(line); ok {
		return rest, len(rest) < len(line)
	}
	front := line
	if line[0] == ' ' && h.Label == 0 { // srun -l aligns the numbers of tasks
		front = bytes.TrimLeft(line[:min(len(line), 8)], " ")
		front = line[min(len(line), 8)-len(front):]
		if n, after := digits(front); n < 0 || !bytes.HasPrefix(after, []byte(": ")) {
			return line, false
		}
	}
	for _, p := range prefixesByByte()[front[0]] {
		if rest, ok := p.remove(front, h); ok {
			return rest, len(rest) < len(front)
		}
	}
	return line, false
}

// removeTime removes the time at the front of a line, in brackets or not, and the host
// that a system's log puts behind it.
func (h *Head) removeTime(line []byte) (rest []byte, ok bool) {
	front := line
	if line[0] == '[' {
		end := bytes.IndexByte(line[:min(len(line), 200)], ']')
		if end < 0 {
			return line, false
		}
		front = bytes.TrimLeft(line[1:end], " ")
		if after := skipSpace(bytes.TrimPrefix(line[end+1:], []byte(":"))); bytes.IndexByte(front, '.') > 0 && len(bytes.Trim(front, ".0123456789")) == 0 { // dmesg
			return after, true
		} else if t, left := ReadTime(front); t.IsKnown() && len(left) == 0 {
			h.SetTime(t)
			return after, true
		}
		return line, false
	}
	t, rest := ReadTime(front)
	switch {
	case !t.IsKnown():
		return line, false
	case 'A' <= line[0] && line[0] <= 'Z' && '0' <= line[1] && line[1] <= '9': // glog's pid and file belong to the text
		rest = line
	default:
		if host := systemLog().FindSubmatchIndex(rest); host != nil && (host[4] < 0 || line[0] > '9') {
			h.set("host", rest[host[2]:host[3]], true)
			rest = rest[host[3]+1:]
		} else {
			rest = skipSpace(bytes.TrimPrefix(rest, []byte(":")))
		}
	}
	h.SetTime(t)
	return rest, true
}

// systemLog matches the host and the program that syslog and journald write after a time.
// The last group is a program that only a time of syslog makes certain.
var systemLog = match.Lazy(`^ ([\w.-]+) (?:kernel:|[\w.@/-]+\[\d+\]:|(\S+:)) `)

// isScript reports whether a name is of a program that names itself: train2.py.
func isScript(name []byte) bool {
	return bytes.HasPrefix(name, []byte("mount.")) || bytes.HasSuffix(name, []byte(".py")) || bytes.HasSuffix(name, []byte(".sh"))
}

// isDuration reports whether a name is a number with a unit: 0.512s.
func isDuration(name []byte) bool {
	digits := bytes.TrimRight(name, "smhdu")
	return len(digits) < len(name) && len(bytes.Trim(digits, "0123456789.")) == 0
}

// SetTime sets the time, unless an outer prefix has one. One collector wrote the
// outer time for all lines.
func (h *Head) SetTime(t Stamp) {
	if !h.When.IsKnown() {
		h.When, h.Timed = t, true
	}
}

// AddLabel adds p to the hash of the prefixes that name the stream (FNV-1a).
func (h *Head) AddLabel(p []byte) {
	sum := h.Label
	if sum == 0 {
		sum = 14695981039346656037
	}
	for _, c := range p {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	h.Label = max(1, (sum^'/')*1099511628211)
}

// digits reads a number of at most 9 digits and returns what follows it. The
// number is -1 if p does not begin with one.
func digits(p []byte) (int, []byte) {
	i := 0
	for i < len(p) && '0' <= p[i] && p[i] <= '9' {
		i++
	}
	if i == 0 || i > 9 {
		return -1, p
	}
	n, _ := strconv.Atoi(string(p[:i]))
	return n, p[i:]
}

// skipSpace removes one blank at the front of p.
func skipSpace(p []byte) []byte {
	if len(p) > 0 && p[0] == ' ' {
		return p[1:]
	}
	return p
}

// isName reports whether p has only the characters of names: ASCII letters,
// digits, "_", "-" and ".".
func isName(p []byte) bool {
	for _, c := range p {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
