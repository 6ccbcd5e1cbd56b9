package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "error.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const torchForm = `{"message": {"message": "RuntimeError: foo", "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  …", "timestamp": "1605774851"}}}`

func TestReadErrorFile(t *testing.T) {
	at := time.Unix(1605774851, 0)
	for _, c := range []struct {
		name, in string
		want     ErrorFile
		err      string
	}{
		{name: "torch", in: torchForm, want: ErrorFile{"RuntimeError: foo", "Traceback (most recent call last):\n  …", at}},
		{
			name: "copied by torchrun", in: strings.Replace(torchForm, `"RuntimeError: foo",`, `"RuntimeError: foo", "errorCode": 3,`, 1),
			want: ErrorFile{"RuntimeError: foo", "Traceback (most recent call last):\n  …", at},
		},
		{name: "text", in: `{"message": "it broke", "timestamp": 1605774851}`, want: ErrorFile{Message: "it broke", Time: at}},
		{name: "text, time as text", in: `{"message": "it broke", "timestamp": "1605774851"}`, want: ErrorFile{Message: "it broke", Time: at}},
		{name: "text, time with a fraction", in: `{"message": "it broke", "timestamp": 1605774851.5}`, want: ErrorFile{Message: "it broke", Time: at}},
		{name: "text, no time", in: `{"message": "it broke"}`, want: ErrorFile{Message: "it broke"}},
		{name: "nothing said", in: `{"message": "<NONE>"}`, want: ErrorFile{Message: "<NONE>"}},
		{name: "no message", in: `{"error": 7, "timestamp": 1605774851}`, want: ErrorFile{Message: `{"error":7,"timestamp":1605774851}`, Time: at}},
		{name: "no callstack", in: `{"message": {"message": "x"}}`, want: ErrorFile{Message: "x"}},
		{name: "odd types", in: `{"message": {"message": {"a": 1}, "extraInfo": ["x"]}, "timestamp": []}`, want: ErrorFile{Message: `{"a": 1}`}},
		{name: "impossible times", in: `{"message": "x", "timestamp": "NaN"}`, want: ErrorFile{Message: "x"}},
		{name: "far time", in: `{"message": "x", "timestamp": 1e300}`, want: ErrorFile{Message: "x"}},
		{name: "long", in: `{"message": "` + strings.Repeat("é", 5000) + `"}`, want: ErrorFile{Message: strings.Repeat("é", 2048) + "…"}},
		{name: "half", in: torchForm[:60], err: "it is incomplete"},
		{name: "empty", err: "it is empty"},
		{name: "no JSON", in: "Traceback", err: "not what torch writes"},
		{name: "no object", in: `[1]`, err: "not what torch writes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadErrorFile(write(t, c.in))
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// TestReadErrorFileAboveBound checks that the beginning of a file above the bound
// is used, and that the file is named.
func TestReadErrorFileAboveBound(t *testing.T) {
	t.Parallel()
	stack := strings.Repeat("  File x\n", MaxErrorFile/8)
	whole, err := json.Marshal(map[string]any{"message": map[string]any{
		"message": "RuntimeError: odd", "extraInfo": map[string]string{"py_callstack": stack, "timestamp": "1605774851"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ in, message, traceback string }{
		"torch's":     {string(whole), "", "  File x\n"}, // json.Marshal sorts, so the message comes last
		"message":     {`{"message": "` + strings.Repeat("x", MaxErrorFile) + `"}`, strings.Repeat("x", maxMessage) + "…", ""},
		"stack last":  {`{"message": {"message": "bad", "extraInfo": {"py_callstack": "` + strings.Repeat(`\n`, MaxErrorFile), "bad", "\n"},
		"half escape": {`{"message": {"message": "b\"d", "extraInfo": {"py_callstack": "` + strings.Repeat(`\u00e9`, MaxErrorFile/6), `b"d`, "é"},
		"no JSON":     {strings.Repeat("y", 2*MaxErrorFile), strings.Repeat("y", maxMessage) + "…", ""},
	} {
		path := write(t, c.in)
		got, err := ReadErrorFile(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := fmt.Sprintf("%s (the error file %s has %d bytes: only its beginning was read)", c.message, path, len(c.in))
		if got.Message != want || !strings.HasPrefix(got.Traceback, c.traceback) || len(got.Traceback) > MaxErrorFile {
			t.Errorf("%s: message %.200q, want %.200q; %d bytes of traceback, %.20q", name, got.Message, want, len(got.Traceback), got.Traceback)
		}
	}
}

func TestReadErrorFileRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"", dir + "/none"} {
		if _, err := ReadErrorFile(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", path, err)
		}
	}
	fifo := dir + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo} { // a read of the FIFO would wait for ever
		if _, err := ReadErrorFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func FuzzParseErrorFile(f *testing.F) {
	for _, s := range []string{torchForm, torchForm[:60], `{"message":"a","timestamp":10}`, `{}`, `null`, `{"message":null}`, `{"message":{"extraInfo":3}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseErrorFile(b)
		if err != nil && e != (ErrorFile{}) {
			t.Errorf("an error and content: %+v", e)
		}
		for _, e := range []ErrorFile{e, parseBeginning(b)} {
			if len(e.Message) > maxMessage+len("…") {
				t.Errorf("a message of %d bytes", len(e.Message))
			}
			if _, err := json.Marshal(e); err != nil {
				t.Errorf("cannot be passed on: %v", err)
			}
		}
	})
}

func TestCopyErrorFile(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		code           int
	}{
		{
			"code", `{"message": {"message": "x", "extraInfo": {"n": 12345678901234567890}}, "more": 1}`,
			`{"message":{"errorCode":3,"extraInfo":{"n":12345678901234567890},"message":"x"},"more":1}`, 3,
		},
		{"signal", `{"message": {"message": "x"}}`, `{"message":{"errorCode":-11,"message":"x"}}`, -11},
		{"no code", `{"message": {"message": "x"}}`, `{"message":{"message":"x"}}`, 0},
		{"text", `{"message": "x", "timestamp": 10}`, `{"message":"x","timestamp":10}`, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := write(t, "what an earlier run left")
			if err := CopyErrorFile(write(t, c.in), to, c.code); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(to)
			if err != nil || string(b) != c.want {
				t.Errorf("got %s (%v), want %s", b, err, c.want)
			}
		})
	}
	to := write(t, "old")
	if err := CopyErrorFile(write(t, torchForm[:60]), to, 1); err == nil || !strings.Contains(err.Error(), "it is incomplete") {
		t.Errorf("half a file: %v", err)
	}
	if err := CopyErrorFile(to+".none", to, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if b, _ := os.ReadFile(to); string(b) != "old" {
		t.Errorf("nothing was copied, but the file has %q", b)
	}
}
