package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
)

// MaxErrorFile bounds what is read of an error file, in bytes.
const MaxErrorFile = 1 << 20

// maxMessage bounds a message, in bytes. A traceback may be longer.
const maxMessage = 4 << 10

// ErrorFile is what a worker wrote to its TORCHELASTIC_ERROR_FILE.
type ErrorFile struct {
	Message   string    // "RuntimeError: out of cheese", one line or more
	Traceback string    // of Python; "": the file has none
	Time      time.Time // of the failure, whole seconds; zero if the file has none
}

// ReadErrorFile reads a worker's error file. The error matches fs.ErrNotExist if
// the worker wrote none; path "" means that the worker had no file to write to.
func ReadErrorFile(path string) (ErrorFile, error) {
	b, size, err := readBounded(path)
	if err != nil {
		return ErrorFile{}, err
	}
	if size > MaxErrorFile {
		e := parseBeginning(b)
		e.Message = fmt.Sprintf("%s (the error file %s has %d bytes: only its beginning was read)", e.Message, path, size)
		return e, nil
	}
	e, err := parseErrorFile(b)
	if err != nil {
		return ErrorFile{}, fmt.Errorf("cannot read the worker's error file %s: %w", path, err)
	}
	return e, nil
}

// readBounded reads at most MaxErrorFile bytes; size is the size of the file.
func readBounded(path string) (b []byte, size int64, err error) {
	if path == "" {
		return nil, 0, fmt.Errorf("the worker has no error file: %w", fs.ErrNotExist)
	}
	// The worker may have made a FIFO there. O_NONBLOCK prevents it from blocking
	// the agent.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the worker's error file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the worker's error file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("cannot read the worker's error file %s: it is not a regular file", path)
	}
	b, err = io.ReadAll(io.LimitReader(f, MaxErrorFile))
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the worker's error file: %w", err)
	}
	return b, max(info.Size(), int64(len(b))), nil
}

// parseErrorFile reads the forms that torch writes and reads:
//
//	{"message": {"message": "…", "extraInfo": {"py_callstack": "…", "timestamp": "1605774851"}}}
//	{"message": "…", "timestamp": 1605774851}
//
// A time may be a number or a string. A field that is missing or has another type
// stays empty. The text of an object without a message is the message.
func parseErrorFile(b []byte) (ErrorFile, error) {
	var file struct {
		Message   json.RawMessage `json:"message"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return ErrorFile{}, describeJSONError(b, err)
	}
	switch {
	case isObject(file.Message):
		return parseObject(file.Message), nil
	case len(file.Message) > 0 && file.Message[0] == '"':
		return ErrorFile{Message: shortMessage(textOf(file.Message)), Time: timeOf(file.Timestamp)}, nil
	default:
		var line bytes.Buffer
		json.Compact(&line, b) // b is valid, because Unmarshal has read it
		return ErrorFile{Message: shortMessage(line.String()), Time: timeOf(file.Timestamp)}, nil
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
	// The JSON is valid, so an error only means that a field has another type. The
	// field then stays empty.
	_ = json.Unmarshal(b, &m)
	_ = json.Unmarshal(m.ExtraInfo, &extra)
	return ErrorFile{Message: shortMessage(textOf(m.Message)), Traceback: textOf(extra.Callstack), Time: timeOf(extra.Timestamp)}
}

// describeJSONError returns the reason why b is not a JSON object.
func describeJSONError(b []byte, err error) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return errors.New("it is empty (the worker ended before it wrote the file)")
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset >= int64(len(bytes.TrimRight(b, " \n"))) {
		return errors.New("it is incomplete (the worker ended while it wrote the file)")
	}
	return fmt.Errorf("it is not what torch writes: %w", err)
}

// parseBeginning parses the beginning of an error file. If that is no JSON object,
// the text of the beginning is the message.
func parseBeginning(b []byte) ErrorFile {
	if e, err := parseErrorFile(closeJSON(b)); err == nil {
		return e
	}
	return ErrorFile{Message: shortMessage(strings.ToValidUTF8(string(b), string(utf8.RuneError)))}
}

// closeJSON closes the strings, objects and lists that are open at the end of b,
// which is the beginning of a JSON text.
func closeJSON(b []byte) []byte {
	var open []byte
	quoted, escape := false, -1 // escape: where the last escape begins
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			escape = i
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			open = append(open, '}')
		case c == '[':
			open = append(open, ']')
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	whole := slices.Clone(b)
	if quoted {
		if tail := b[max(escape, 0):]; escape >= 0 && (len(tail) < 2 || tail[1] == 'u' && len(tail) < len(`\u0000`)) {
			whole = whole[:escape]
		}
		whole = append(whole, '"')
	}
	slices.Reverse(open)
	return append(whole, open...)
}

func isObject(b json.RawMessage) bool { return len(b) > 0 && b[0] == '{' }

// textOf returns the text of a JSON string, and any other value unchanged.
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
	// Year 9999 is the last that JSON can express; NaN fails both comparisons.
	if err != nil || !(seconds > 0 && seconds < 253402300800) {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// shortMessage returns at most maxMessage bytes of a message, in whole characters.
func shortMessage(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return term.Truncate(s, maxMessage) + "…"
}

// CopyErrorFile copies a worker's error file to gorun's own
// (TORCHELASTIC_ERROR_FILE in gorun's environment), for the program that started
// gorun. As torchrun does, it adds the worker's exit code (negative: the signal) as
// message.errorCode, if the code is not zero and message is an object. It replaces
// what was at to, and keeps everything else of the worker's file.
func CopyErrorFile(from, to string, exitCode int) error {
	b, size, err := readBounded(from)
	if err != nil {
		return err
	}
	if size > MaxErrorFile {
		return fmt.Errorf("cannot copy the worker's error file %s: it is larger than %d bytes", from, MaxErrorFile)
	}
	var file, message map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return fmt.Errorf("cannot copy the worker's error file %s: %w", from, describeJSONError(b, err))
	}
	if exitCode != 0 && isObject(file["message"]) {
		if err := json.Unmarshal(file["message"], &message); err != nil {
			return fmt.Errorf("cannot copy the worker's error file %s: %w", from, err)
		}
		message["errorCode"], _ = json.Marshal(exitCode)
		if file["message"], err = json.Marshal(message); err != nil {
			return fmt.Errorf("cannot copy the worker's error file %s: %w", from, err)
		}
	}
	if b, err = json.Marshal(file); err != nil {
		return fmt.Errorf("cannot copy the worker's error file %s: %w", from, err)
	}
	if err := writeWhole(to, b); err != nil {
		return fmt.Errorf("cannot write the error file that TORCHELASTIC_ERROR_FILE names: %w", err)
	}
	return nil
}
