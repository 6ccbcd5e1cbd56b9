package standby

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/launch/process"
)

// kind says what a message is about.
type kind string

const (
	kindHello   kind = "hello"   // task to agent, once: who it is; with its standard output and standard error
	kindStart   kind = "start"   // agent to task: a worker; with the worker's standard output and standard error
	kindStarted kind = "started" // task to agent: the answer to start
	kindEnded   kind = "ended"   // task to agent: how the worker ended
	kindSignal  kind = "signal"  // agent to task: for the worker's group
	kindStop    kind = "stop"    // agent to task: end the worker and everything that it left
	kindStopped kind = "stopped" // task to agent: the answer to stop
)

// message is what the agent and a task send each other. A serial number joins an answer,
// a signal and an end to the start or stop that they belong to.
type message struct {
	Kind   kind  `json:"kind"`
	Serial int   `json:"serial,omitempty"`
	PID    int   `json:"pid,omitempty"`
	Error  fault `json:"error,omitzero"`

	Local int    `json:"local,omitempty"` // hello: local rank
	CPUs  string `json:"cpus,omitempty"`  // hello: the CPUs that the task may use
	Cores int    `json:"cores,omitempty"` // hello: the cores of these CPUs
	Env   texts  `json:"env,omitempty"`   // hello: the task's own; start: the worker's

	Path  string `json:"path,omitempty"`
	Args  texts  `json:"args,omitempty"`
	Dir   string `json:"dir,omitempty"`
	Input bool   `json:"input,omitempty"` // start: the worker reads the task's standard input

	Signal syscall.Signal `json:"signal,omitempty"` // signal, stop, ended
	Grace  time.Duration  `json:"grace,omitempty"`
	Code   int            `json:"code,omitempty"`
	Core   bool           `json:"core,omitempty"`
	At     time.Time      `json:"at,omitzero"`
}

// fault is an error of a task.
type fault struct {
	Text  string        `json:"text,omitempty"`
	Errno syscall.Errno `json:"errno,omitempty"` // what errors.Is finds; 0: nothing
}

func faultOf(err error) fault {
	if err == nil {
		return fault{}
	}
	f := fault{Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Errno = errno
	}
	return f
}

func (f fault) err() error {
	if f.Text == "" {
		return nil
	}
	return taskError(f)
}

// taskError is an error that a task reported.
type taskError fault

func (e taskError) Error() string { return e.Text }

func (e taskError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// exit returns the end that an ended message describes.
func (m *message) exit() process.Exit {
	return process.Exit{Code: m.Code, Signal: m.Signal, CoreDumped: m.Core, At: m.At}
}

// texts is a list of strings that need not be UTF-8, as arguments and environments are.
type texts []string

// MarshalJSON returns the texts as one JSON string of base64, each with a zero byte
// behind it.
func (t texts) MarshalJSON() ([]byte, error) {
	var b []byte
	for _, s := range t {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, fmt.Errorf("%w: a text has a zero byte", syscall.EINVAL)
		}
		b = append(append(b, s...), 0)
	}
	return json.Marshal(b)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (t *texts) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	all, complete := strings.CutSuffix(string(b), "\x00")
	switch {
	case complete:
		*t = strings.Split(all, "\x00")
	case len(b) == 0:
		*t = nil
	default:
		return errors.New("a text has no end")
	}
	return nil
}

// Bounds of a message: 4 bytes of length, then JSON. Linux bounds the arguments and the
// environment of a program to 6 MiB.
const (
	maxMessage = 12 << 20
	maxFiles   = 2
	writeWait  = 10 * time.Second
)

var errTooLong = fmt.Errorf("the message is longer than %d bytes", maxMessage)

// decode reads a message without its length.
func decode(text []byte) (m message, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return message{}, fmt.Errorf("cannot read a message of another task: %w", err)
	}
	if m.Local < 0 || m.Cores < 0 || m.Serial < 0 || m.Grace < 0 || m.Signal < 0 || m.Signal > maxSignal || m.PID < 0 || m.Code < -1 || m.Code > 255 {
		return message{}, errors.New("cannot read a message of another task: a number is out of bounds")
	}
	return m, nil
}

const maxSignal = 64

// send writes a message, together with files.
func send(c *net.UnixConn, m message, files ...*os.File) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return errTooLong
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeWait))
	head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	if len(files) == 0 {
		_, err := c.Write(append(head, text...))
		return err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	if _, _, err := c.WriteMsgUnix(head, unix.UnixRights(fds...), nil); err != nil {
		return err
	}
	_, err = c.Write(text)
	return err
}

// receive reads a message with its files, which the caller closes.
func receive(c *net.UnixConn) (m message, files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	head, oob := make([]byte, 4), make([]byte, unix.CmsgSpace(maxFiles*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(head, oob)
	if err != nil {
		return message{}, nil, err
	}
	files = filesOf(oob[:oobn])
	if n == 0 {
		return message{}, files, io.EOF
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return message{}, files, errors.New("cannot receive the files of another task: are too many files open?")
	}
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return message{}, files, err
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxMessage {
		return message{}, files, errTooLong
	}
	text := make([]byte, 0, min(size, 1<<16))
	for len(text) < int(size) {
		part := min(int(size)-len(text), 1<<16)
		text = slices.Grow(text, part)
		n, err := io.ReadFull(c, text[len(text):len(text)+part])
		if text = text[:len(text)+n]; err != nil {
			return message{}, files, err
		}
	}
	m, err = decode(text)
	return m, files, err
}

// filesOf returns the files in a control message.
func filesOf(oob []byte) (files []*os.File) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range all {
		fds, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "a task's output"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
