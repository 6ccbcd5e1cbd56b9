package diagnose

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/prefix"
)

const (
	// blockSize is how much of a log is in memory, in bytes. A longer line is read
	// in pieces.
	blockSize = 256 << 10
	// maxMatched is how much of a line the expressions read, in bytes, around
	// the first word of the finder.
	maxMatched = 8 << 10
	// learnLines is how many lines at the front of a log are all read, because
	// their prefixes name the ranks that print into the log.
	learnLines = 5000
	// keptBefore is how much of the part before is kept for lastWords, in bytes.
	keptBefore = 16 << 10
	// maxFollowed is the number of lines for which the scanner follows a stream
	// after an error, or waits for the end of a traceback.
	maxFollowed = 20000
)

// Scanner reads the logs of one job and explains why the job failed. Its memory is
// bounded, however much it reads. Only one goroutine may use it.
type Scanner struct {
	matcher *matcher
	logs    []Log
	since   prefix.Stamp // lines before it do not count; unknown: all do

	current
	notText []string // names of logs that are not text
	pods    prefix.Pods

	tracebacks map[streamKey]*tracebackReader // that have not ended
	followed   []*event                       // errors that the program may have survived
	excerpts   []*excerpt                     // that may have later lines
	job        job
	groups     map[string]*group
	details    map[string]int // groups, by the likeness of their events
	flood      flood
}

// current is the state of the scanner in the log that it reads.
type current struct {
	number int64 // of the line, from 1
	pieces int64 // lines and parts between carriage returns that were read
	clock
	report report
	sections
	hasText       bool   // a line is not empty
	lastLine      string // the last such line, if the log is the end of a worker's output
	unfinished    unfinished
	formatChecked bool // the scanner knows whether it is text
	recent
	window
}

// recent are the last events of some kinds, of which later lines may say more; nil: none.
type recent struct {
	rayTask   *event // the task of Ray that a line named
	lastEvent *event // of a row
	described *event // the pod that kubectl describes
	lastLoud  *event // a line that only a general row knew
	crash     *event // a crash in native code whose stack may follow
	inOther   bool   // the present stack is of a thread that did not crash
}

// clock is the last time in the log.
type clock struct {
	now         prefix.Stamp
	recordStart int64 // the line that has it; a logger wrote the lines after it, too; 0: none
	recordOf    streamKey
}

// window is the part of the log in memory that the scanner has read.
type window struct {
	before   []byte
	previous []byte // the end of the parts before
}

// streamKey names a stream of lines: the log, and the hash of the prefixes that
// name a rank, a host or a container.
type streamKey struct {
	log   int
	label uint64
}

// line is one line, or a piece of one, while it is read.
type line struct {
	prefix.Head
	stream streamKey
	number int64
	raw    []byte  // without prefixes
	words  entries // the finder's entries that have a word in the line
}

// NewScanner returns a scanner that has read nothing.
func NewScanner() *Scanner {
	return &Scanner{matcher: sharedMatcher(), tracebacks: map[streamKey]*tracebackReader{}, pods: prefix.Pods{}, groups: map[string]*group{}, details: map[string]int{}, job: newJob()}
}

// Read reads a log to its end and unpacks gzip. Where lines have no time, the logs
// are in the order in which they are read. Read returns an error of r or ctx; the
// text before the error counts.
func (s *Scanner) Read(ctx context.Context, log Log, r io.Reader) error {
	s.logs = append(s.logs, log)
	s.current, s.flood = current{number: 1}, flood{}
	s.job.reread = 0
	defer s.endLog()
	in := bufio.NewReaderSize(r, 16)
	if magic, _ := in.Peek(3); bytes.Equal(magic, []byte{0x1f, 0x8b, 8}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		return s.read(ctx, z)
	}
	return s.read(ctx, in)
}

// ReadStderr reads the end of a worker's standard error.
func (s *Scanner) ReadStderr(rank, local int, host, text string) {
	log := Log{Name: "stderr", Rank: rank, Local: local, Host: host, isTail: true}
	// Only a text that looks like gzip has an error.
	_ = s.Read(context.Background(), log, strings.NewReader(text+"\n"))
}

// NotText returns the names of the logs that are not text, in their order. They have
// no findings.
func (s *Scanner) NotText() []string { return slices.Clone(s.notText) }

func (s *Scanner) read(ctx context.Context, r io.Reader) error {
	buf := make([]byte, blockSize)
	n := 0
	for empty := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := r.Read(buf[n:])
		n += got
		if got > 0 {
			empty = 0
		} else if empty++; err == nil && empty > 100 {
			return io.ErrNoProgress
		}
		whole := bytes.LastIndexByte(buf[:n], '\n') + 1
		switch {
		case err != nil:
			whole = n
		case whole == 0 && n == len(buf):
			whole = n
		case whole < n/2 && n < len(buf):
			continue // small pieces of a pipe are not worth a pass
		}
		s.readBlock(buf[:whole])
		n = copy(buf, buf[whole:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readBlock reads whole lines. It only counts lines without a word of the finder,
// as most lines of a log are.
func (s *Scanner) readBlock(p []byte) {
	if len(p) == 0 {
		return
	}
	if !s.formatChecked {
		s.formatChecked = true
		if log := s.logs[len(s.logs)-1]; isBinary(p) {
			s.notText = append(s.notText, log.Name)
		}
	}
	block := p
	defer s.keep(block)
	for len(p) > 0 {
		s.before = block[:len(block)-len(p)]
		if n := s.skipFlood(p); n > 0 {
			s.number += int64(bytes.Count(p[:n], []byte{'\n'}))
			p = p[n:]
			continue
		}
		if s.needsEveryLine() {
			p = p[s.readFirstLine(p):]
			continue
		}
		at := s.matcher.finder.First(p)
		if at < 0 {
			s.number += int64(bytes.Count(p, []byte{'\n'}))
			return
		}
		start := max(bytes.LastIndexByte(p[:at], '\n'), 0)
		start = max(start, bytes.LastIndexByte(p[start:at], '\r')+start)
		if start > 0 {
			start++
			s.number += int64(bytes.Count(p[:start], []byte{'\n'}))
			p = p[start:]
			s.before = block[:len(block)-len(p)]
		}
		p = p[s.readFirstLine(p):]
	}
}

// readFirstLine reads the first line of p and returns the line's length with its end. A
// line ends with \n or, like those of progress bars, with \r.
func (s *Scanner) readFirstLine(p []byte) int {
	end, hash := cutLine(p)
	if s.pieces++; s.pieces == learnLines {
		s.flood.shapes = make([]shape, maxShapes)
	}
	if s.flood.shapes != nil {
		s.flood.begin(hash)
		defer s.flood.learn()
	}
	s.readLine(p[:end])
	whole := end + lineEnd(p[end:])
	if whole > end && p[whole-1] == '\n' {
		s.number++
	}
	return whole
}

// needsEveryLine reports whether the lines without a word of the finder matter, too.
func (s *Scanner) needsEveryLine() bool {
	return s.pieces <= learnLines || len(s.tracebacks) > 0 || len(s.followed) > 0 || len(s.excerpts) > 0 || s.report.isOpen || s.since.IsKnown() || s.section != nil
}

// endLog ends the tracebacks that are open at the end of a log.
func (s *Scanner) endLog() {
	s.endTracebacks(func(*tracebackReader) bool { return true })
	s.followed, s.excerpts = nil, nil
	s.weighEnd()
	s.readReport()
	s.readHint()
}

// isBinary reports whether p, the front of a log, is not text: more than a
// twentieth of its bytes are control characters. Zeros at the front do not count, because
// a log that was cut while it was written begins with them.
func isBinary(p []byte) bool {
	p = bytes.TrimLeft(p[:min(len(p), blockSize)], "\x00")
	p = p[:min(len(p), 4<<10)]
	odd := 0
	for _, c := range p {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != '\b' && c != 0x1b {
			odd++
		}
	}
	return odd > len(p)/20 // of compressed or random bytes every tenth is odd
}
