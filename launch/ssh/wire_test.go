package ssh

import (
	"bufio"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

const testToken = "gorun-0123456789ABCDEF"

func TestQuestionTravels(t *testing.T) {
	q := Question{Dir: "/home/me/a 'b'", LoPort: 1000, HiPort: 2000, Silent: time.Second, Token: testToken}
	word, err := q.encode()
	if err != nil || shellSafe(word) != word {
		t.Fatalf("%q, %v", word, err)
	}
	if got, err := parseQuestion(word); err != nil || got != q {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []Question{{}, {Token: testToken}, {Token: "a b", Silent: time.Second}, {Token: testToken, Silent: time.Second, LoPort: 2, HiPort: 1}} {
		word, _ := bad.encode()
		if got, err := parseQuestion(word); err == nil {
			t.Errorf("accepted %+v", got)
		}
	}
}

func TestStartTravels(t *testing.T) {
	s := Start{Args: []string{"run", "a\nb"}, Env: []string{"A=b\nc"}, Secret: "s", Grace: time.Second}
	line, err := s.line()
	if err != nil || strings.Count(string(line), "\n") != 1 {
		t.Fatalf("%q, %v", line, err)
	}
	if got, err := parseStart(line); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (Start{Args: []string{strings.Repeat("x", maxStart)}}).line(); err == nil {
		t.Error("a line without bound")
	}
}

func TestOrdersTravel(t *testing.T) {
	for _, o := range []order{{}, {signal: syscall.SIGINT}, {signal: syscall.SIGUSR1}, {kill: true}} {
		if got, err := parseOrder([]byte(strings.TrimSuffix(string(o.line()), "\n"))); err != nil || got != o {
			t.Errorf("%+v: %+v, %v", o, got, err)
		}
	}
	for _, line := range []string{"x", "signal", "signal x", "signal 0", "signal 9", "signal 64"} {
		if o, err := parseOrder([]byte(line)); err == nil {
			t.Errorf("%s: %+v", line, o)
		}
	}
}

func TestReadLine(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("one\r\n\n"+strings.Repeat("x", 100)+"\nrest"), 16)
	for _, want := range []string{"one", "", strings.Repeat("x", 100)} {
		if got, err := readLine(r, 200); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := readLine(r, 200); err == nil {
		t.Error("a line without its end")
	}
	if _, err := readLine(bufio.NewReader(strings.NewReader("12345\n")), 4); err == nil {
		t.Error("a line without bound")
	}
}

// Neither end crashes on what the other one says, and what one accepts is complete.
func FuzzWire(f *testing.F) {
	for _, s := range []string{
		`{"protocol":1,"version":"v1","port":7}`, `{"args":["run"],"env":["A=b"]}`, "signal 2", "kill",
		testToken + " hello {}", "eyJkaXIiOiIvIn0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if h, err := parseHello(s); err == nil && (h.Protocol != protocol || h.Error == "" && h.Port == 0) {
			t.Errorf("accepted %+v", h)
		}
		if h, err := parseHello(s); err == nil {
			_, _ = Reachable([]Hello{h, {Server: "10.0.0.1"}})
		}
		if start, err := parseStart([]byte(s)); err == nil && len(start.Args) == 0 {
			t.Errorf("accepted %+v", start)
		}
		if o, err := parseOrder([]byte(s)); err == nil && o.signal == syscall.SIGKILL {
			t.Errorf("accepted %+v", o)
		}
		if q, err := parseQuestion(s); err == nil && (q.Silent <= 0 || q.Token == "") {
			t.Errorf("accepted %+v", q)
		}
		_, _ = parseMark(s, testToken)
		_ = serverAddress(s)
	})
}
