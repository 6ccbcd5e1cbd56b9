package ssh

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// node is a Serve under test, with the other end of its streams.
type node struct {
	*testing.T
	in      *io.PipeWriter
	marks   *bufio.Reader
	signals chan unix.Signal
	ended   chan int
}

// serve starts Serve. Its job takes the args of Start as what ends it: a signal, a
// context or nothing.
func serve(t *testing.T, q Question) *node {
	t.Helper()
	inRead, inWrite := io.Pipe()
	marksRead, marksWrite := io.Pipe()
	n := &node{T: t, in: inWrite, marks: bufio.NewReader(marksRead), signals: make(chan unix.Signal, 4), ended: make(chan int, 1)}
	word, err := q.encode()
	if err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chdir(wd) })
	go func() {
		code, err := Serve(t.Context(), NodeOptions{
			Question: word, Version: "v1", Control: inRead, Marks: marksWrite,
			Lookup: func(name string) string { return map[string]string{"SSH_CONNECTION": "10.0.0.9 1 10.0.0.1 22"}[name] },
			Run: func(ctx context.Context, s Start) int {
				switch s.Args[0] {
				case "signal":
					return int(<-n.signals)
				case "context":
					<-n.signals
					<-ctx.Done()
					return 99
				}
				return 255
			},
			Signal: func(sig unix.Signal) { n.signals <- sig },
		})
		if err != nil {
			code = -1
		}
		n.ended <- code
		marksWrite.Close()
	}()
	return n
}

func (n *node) hello() Hello {
	n.Helper()
	m := n.mark()
	h, err := parseHello(m.text)
	if m.kind != "hello" || err != nil {
		n.Fatalf("%+v, %v", m, err)
	}
	return h
}

// mark returns the next mark; it skips other lines.
func (n *node) mark() mark {
	n.Helper()
	for {
		line, err := n.marks.ReadString('\n')
		if m, ok := parseMark(line, testToken); ok {
			return m
		}
		if err != nil {
			n.Fatal(err)
		}
	}
}

func (n *node) send(lines ...string) {
	n.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(n.in, line+"\n"); err != nil {
			n.Fatal(err)
		}
	}
}

func question(t *testing.T) Question {
	return Question{Dir: t.TempDir(), Silent: 5 * time.Second, Token: testToken}
}

func TestServe(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		close bool
		code  int
	}{
		"ends by itself":     {lines: []string{"", `{"args":["end"]}`, ""}, code: 255},
		"gets a signal":      {lines: []string{`{"args":["signal"]}`, "", "signal 2"}, code: 2},
		"is killed":          {lines: []string{`{"args":["context"]}`, "signal 2", "kill"}, code: 99},
		"loses its input":    {lines: []string{`{"args":["signal"]}`}, close: true, code: 15},
		"ignores other text": {lines: []string{`{"args":["signal"]}`, "what", "signal 10"}, code: 10},
	} {
		t.Run(name, func(t *testing.T) {
			n := serve(t, question(t))
			if h := n.hello(); h.Version != "v1" || h.Server != "10.0.0.1" || h.Port == 0 || h.Error != "" {
				t.Fatalf("%+v", h)
			}
			n.send(tt.lines...)
			if tt.close {
				n.in.Close()
			}
			if m := n.mark(); m.kind != "end" || m.text != map[int]string{255: "255", 2: "2", 99: "99", 15: "15", 10: "10"}[tt.code] {
				t.Errorf("mark %+v", m)
			}
			if code := <-n.ended; code != tt.code {
				t.Errorf("code %d", code)
			}
		})
	}
}

// A connection that is silent is lost, before the job and while it runs.
func TestServeSilence(t *testing.T) {
	q := question(t)
	q.Silent = time.Second
	n := serve(t, q)
	n.hello()
	if code := <-n.ended; code != -1 {
		t.Errorf("code %d", code)
	}
	n = serve(t, q)
	n.hello()
	n.send(`{"args":["signal"]}`)
	if m := n.mark(); m != (mark{"end", "15"}) {
		t.Errorf("%+v", m)
	}
}

func TestServeWithoutFolder(t *testing.T) {
	q := question(t)
	q.Dir += "/none"
	n := serve(t, q)
	if h := n.hello(); !strings.Contains(h.Error, "/none") || !strings.Contains(h.Error, "no such file") || strings.Contains(h.Error, "chdir") {
		t.Errorf("%+v", h)
	}
	n.in.Close()
	<-n.ended
}
