package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// MaxErrorFile is the largest error file that is read, in bytes.
const MaxErrorFile = 1 << 20

// maxMessage is the longest message that is kept, in bytes; a traceback has
// room for more.
const maxMessage = 4 << 10

// ErrorFile is what a worker wrote to its TORCHELASTIC_ERROR_FILE.
type ErrorFile struct {
	Message   string    // "RuntimeError: out of cheese", one line or more
	Traceback string    // Python's, "" if the file has none
	Time      time.Time // of the failure, whole seconds; zero if the file has none
}

// ReadErrorFile reads a worker's error file. The error matches fs.ErrNotExist
// if the worker wrote none; path "" means that it had none to write to.
func ReadErrorFile(path string) (ErrorFile, error) {
	b, err := readBounded(path)
	if err != nil {
		return ErrorFile{}, err
	}
	e, err := parseErrorFile(b)
	if err != nil {
		return ErrorFile{}, fmt.Errorf("cannot read the worker's error file %s: %w", path, err)
	}
	return e, nil
}

func readBounded(path string) ([]byte, error) {
	if path == "" {
		return nil, fmt.Errorf("the worker has no error file: %w", fs.ErrNotExist)
	}
	// The worker may have put anything there. O_NONBLOCK: a FIFO must not hang us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the worker's error file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the worker's error file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read the worker's error file %s: it is not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxErrorFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the worker's error file: %w", err)
	}
	if len(b) > MaxErrorFile {
		return nil, fmt.Errorf("cannot read the worker's error file %s: it is larger than %d bytes", path, MaxErrorFile)
	}
	return b, nil
}

// parseErrorFile reads the forms that torch writes and reads:
//
//	{"message": {"message": "…", "extraInfo": {"py_callstack": "…", "timestamp": "1605774851"}}}
//	{"message": "…", "timestamp": 1605774851}
//
// A time may be a number or a string. What is missing, or of another type, is
// left empty; of an object without a message its text is the message.
func parseErrorFile(b []byte) (ErrorFile, error) {
	var file struct {
		Message   json.RawMessage `json:"message"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return ErrorFile{}, explain(b, err)
	}
	switch {
	case isObject(file.Message):
		return parseObject(file.Message), nil
	case len(file.Message) > 0 && file.Message[0] == '"':
		return ErrorFile{Message: cut(textOf(file.Message)), Time: timeOf(file.Timestamp)}, nil
	default:
		var line bytes.Buffer
		json.Compact(&line, b) // valid: it was read above
		return ErrorFile{Message: cut(line.String()), Time: timeOf(file.Timestamp)}, nil
	}
}

func parseObject(b json.RawMessage) ErrorFile {
	var m struct {
		Message   json.RawMessage `json:"message"`
		ExtraInfo json.RawMessage `json:"extraInfo"`
	}
	var extra struct {
		Callstack json.RawMessage `json:"py_callstack"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	// Parts of an unexpected type are left empty: these are valid JSON already.
	_ = json.Unmarshal(b, &m)
	_ = json.Unmarshal(m.ExtraInfo, &extra)
	return ErrorFile{Message: cut(textOf(m.Message)), Traceback: textOf(extra.Callstack), Time: timeOf(extra.Timestamp)}
}

// explain says what a person needs to know of a file that is no JSON object.
func explain(b []byte, err error) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return errors.New("it is empty (the worker died before it wrote it)")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset >= int64(len(bytes.TrimRight(b, " \n"))) {
		return errors.New("it ends in the middle (the worker died while it wrote it)")
	}
	return fmt.Errorf("it is not what torch writes: %w", err)
}

func isObject(b json.RawMessage) bool { return len(b) > 0 && b[0] == '{' }

// textOf returns a JSON string's text, and any other value as it stands.
func textOf(b json.RawMessage) string {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return string(b)
	}
	return s
}

// timeOf reads Unix seconds, as a number or as a string.
func timeOf(b json.RawMessage) time.Time {
	seconds, err := strconv.ParseFloat(strings.TrimSpace(textOf(b)), 64)
	// Year 9999 at most, which JSON can still express; NaN fails both.
	if err != nil || !(seconds > 0 && seconds < 253402300800) {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// cut bounds a message, at a character's boundary.
func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	s = s[:maxMessage]
	for i := 0; i < utf8.UTFMax && !utf8.ValidString(s[len(s)-min(len(s), utf8.UTFMax):]); i++ {
		s = s[:len(s)-1]
	}
	return s + "…"
}
