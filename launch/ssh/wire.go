package ssh

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// protocol numbers the lines of this file. The two ends must have the same number.
const protocol = 1

// Bounds of what the other end says, in bytes.
const (
	maxHello    = 64 << 10
	maxStart    = 8 << 20
	maxQuestion = 8 << 10
	maxControl  = 64
)

// Question is what the program on a host is asked first. It is an argument there, so it
// has no secret.
type Question struct {
	Dir    string        `json:"dir"`             // working directory of the job
	LoPort int           `json:"lo,omitempty"`    // bounds of the port that Hello offers;
	HiPort int           `json:"hi,omitempty"`    // 0: any
	Silent time.Duration `json:"silent"`          // after which the other end counts as lost
	Token  string        `json:"token,omitempty"` // begins every line that is not the job's output
}

// encode returns the question as one word without special characters.
func (q Question) encode() (string, error) {
	b, err := json.Marshal(q)
	if err == nil && len(b) > maxQuestion {
		err = errors.New("the name of the working directory is too long")
	}
	return base64.RawURLEncoding.EncodeToString(b), err
}

// parseQuestion reads the argument of the program on a host.
func parseQuestion(word string) (Question, error) {
	var q Question
	if len(word) > 2*maxQuestion {
		return q, errors.New("the question is too long")
	}
	b, err := base64.RawURLEncoding.DecodeString(word)
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	switch {
	case err != nil:
		return Question{}, fmt.Errorf("the question cannot be read: %w", err)
	case !isToken(q.Token) || q.Silent < time.Second || q.LoPort < 0 || q.HiPort > 65535 || q.LoPort > q.HiPort:
		return Question{}, errors.New("the question is not that of gorun ssh")
	}
	return q, nil
}

// isToken reports whether s can begin a line that no output has by chance.
func isToken(s string) bool { return len(s) >= 16 && len(s) <= 64 && isHostName(s, "-") }

// Hello is what a host says of itself.
type Hello struct {
	Protocol  int      `json:"protocol"`
	Version   string   `json:"version"`
	Server    string   `json:"server,omitempty"`    // address at which ssh reached the host
	Addresses []string `json:"addresses,omitempty"` // of its interfaces, with the length of the network's prefix
	Port      int      `json:"port,omitempty"`      // free for TCP and UDP
	Error     string   `json:"error,omitempty"`     // why the job cannot run here
}

// Start says what to run on a host.
type Start struct {
	Args   []string      `json:"args"`   // of the program
	Env    []string      `json:"env"`    // NAME=VALUE, besides the host's own
	Secret string        `json:"secret"` // of the job
	Grace  time.Duration `json:"grace"`  // for a job that ends because the connection was lost
}

// line returns the line that a host gets.
func (s Start) line() ([]byte, error) {
	b, err := json.Marshal(s)
	if err == nil && len(b) > maxStart-1 {
		err = fmt.Errorf("the command line and the variables of the job have %d bytes, at most %d are sent", len(b), maxStart-1)
	}
	return append(b, '\n'), err
}

// mark is a line of the host that is not the job's output.
type mark struct {
	kind string // "missing", "hello", "end"
	text string
}

// parseMark reads a line that begins with the token.
func parseMark(line, token string) (m mark, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), token+" ")
	if !ok {
		return mark{}, false
	}
	m.kind, m.text, _ = strings.Cut(rest, " ")
	return m, true
}

// parseHello reads what follows the mark hello.
func parseHello(text string) (Hello, error) {
	var h Hello
	if len(text) > maxHello {
		return h, errors.New("its answer is too long")
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return Hello{}, errors.New("its answer cannot be read")
	}
	if h.Protocol != protocol {
		return Hello{}, fmt.Errorf("its gorun is of version %s, which speaks another protocol", h.Version)
	}
	if h.Error == "" && (h.Port < 1 || h.Port > 65535) {
		return Hello{}, errors.New("its answer has no port")
	}
	return h, nil
}

// readLine reads one line of at most so many bytes, without its end.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, errors.New("a line is too long")
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// parseStart reads the line that says what to run.
func parseStart(line []byte) (Start, error) {
	var s Start
	if err := json.Unmarshal(line, &s); err != nil {
		return Start{}, fmt.Errorf("what to run cannot be read: %w", err)
	}
	if len(s.Args) == 0 || s.Grace < 0 {
		return Start{}, errors.New("nothing to run is named")
	}
	for _, entry := range s.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.IndexByte(entry, 0) >= 0 {
			return Start{}, errors.New("a variable of the job cannot be read")
		}
	}
	return s, nil
}

// order is what the user's end says while the job runs. The zero value is a sign of
// life.
type order struct {
	signal syscall.Signal
	kill   bool // ends the job at once
}

func (o order) line() []byte {
	switch {
	case o.kill:
		return []byte("kill\n")
	case o.signal != 0:
		return fmt.Appendf(nil, "signal %d\n", int(o.signal))
	}
	return []byte("\n")
}

// parseOrder reads a line of standard input while the job runs.
func parseOrder(line []byte) (order, error) {
	switch word, text, _ := strings.Cut(string(line), " "); word {
	case "":
		return order{}, nil
	case "kill":
		return order{kill: true}, nil
	case "signal":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 31 || syscall.Signal(n) == syscall.SIGSTOP || syscall.Signal(n) == syscall.SIGKILL {
			return order{}, errors.New("the signal cannot be read")
		}
		return order{signal: syscall.Signal(n)}, nil
	}
	return order{}, errors.New("the line cannot be read")
}

// writeMark writes a line that is not the job's output.
func writeMark(w io.Writer, token, kind, text string) error {
	_, err := fmt.Fprintf(w, "%s %s %s\n", token, kind, text)
	return err
}
