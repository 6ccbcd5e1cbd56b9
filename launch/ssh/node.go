package ssh

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// NodeOptions holds what the program on a host needs.
type NodeOptions struct {
	Question string // argument of the program
	Version  string // of this program
	// Control is standard input. Marks is standard output before and after the job.
	Control io.Reader
	Marks   io.Writer
	Lookup  func(name string) string // os.Getenv
	// Run runs this host's part of the job. It ends all of it when ctx ends.
	Run func(ctx context.Context, s Start) (code int)
	// Signal passes a signal to the job.
	Signal func(sig unix.Signal)
}

// killGrace is the time beyond Start.Grace after which a job whose connection is lost
// is killed.
const killGrace = 15 * time.Second

// Serve runs a host's part of a job and returns its exit code.
func Serve(ctx context.Context, o NodeOptions) (int, error) {
	q, err := parseQuestion(o.Question)
	if err != nil {
		return 0, err
	}
	done := make(chan struct{})
	defer close(done)
	lines := make(chan []byte)
	go readLines(o.Control, lines, done) // ends with standard input or this process

	h := hello(q, o.Lookup)
	h.Version = o.Version
	text, err := json.Marshal(h)
	if err != nil {
		return 0, err
	}
	fmt.Fprintln(o.Marks) // a start file may have printed a line without its end
	if err := writeMark(o.Marks, q.Token, "hello", string(text)); err != nil {
		return 0, err
	}
	s, err := awaitStart(lines, q.Silent)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := watcher{lines: lines, silent: q.Silent, grace: s.Grace + killGrace, signal: o.Signal, kill: cancel}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(ended)
	}()
	code := o.Run(ctx, s)
	close(ended)
	<-watched
	return code, writeMark(o.Marks, q.Token, "end", fmt.Sprint(code))
}

// hello looks at this host, in the job's folder.
func hello(q Question, lookup func(string) string) Hello {
	h := Hello{Protocol: protocol, Server: serverAddress(lookup("SSH_CONNECTION")), Addresses: interfaceAddresses()}
	err := os.Chdir(q.Dir)
	if err != nil {
		var reason unix.Errno
		if errors.As(err, &reason) {
			err = reason
		}
		h.Error = fmt.Sprintf("it has no folder %s, in which you are (%v): start gorun ssh in a folder that all hosts have", q.Dir, err)
		return h
	}
	if h.Port, err = freePort(q.LoPort, q.HiPort); err != nil {
		h.Error = err.Error()
	}
	return h
}

// readLines reads standard input until its end, which closes lines.
func readLines(from io.Reader, lines chan<- []byte, done <-chan struct{}) {
	defer close(lines)
	r := bufio.NewReaderSize(from, 16<<10)
	for most := maxStart; ; {
		line, err := readLine(r, most)
		if err != nil {
			return
		}
		if len(line) > 0 {
			most = maxControl // the first line says what to run
		}
		select {
		case lines <- line:
		case <-done:
			return
		}
	}
}

// awaitStart returns what to run.
func awaitStart(lines <-chan []byte, silent time.Duration) (Start, error) {
	for {
		select {
		case line, ok := <-lines:
			switch {
			case !ok:
				return Start{}, errors.New("the connection has ended before the job began")
			case len(line) > 0:
				return parseStart(line)
			}
		case <-time.After(silent):
			return Start{}, errors.New("the connection was lost before the job began")
		}
	}
}

// watcher ends a job whose connection is lost.
type watcher struct {
	lines  <-chan []byte
	silent time.Duration
	grace  time.Duration
	signal func(unix.Signal)
	kill   func(error)
}

// watch obeys the lines of the user's end until the job has ended.
func (w *watcher) watch(ended <-chan struct{}) {
	silence := time.NewTimer(w.silent)
	defer silence.Stop()
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				w.end(ended)
				return
			}
			silence.Reset(w.silent)
			switch o, err := parseOrder(line); {
			case err != nil: // not the other end's line
			case o.kill:
				w.kill(errors.New("gorun ssh kills the job"))
			case o.signal != 0:
				w.signal(o.signal)
			}
		case <-silence.C:
			w.end(ended)
			return
		case <-ended:
			return
		}
	}
}

// end ends a job whose connection is lost: workers have their time to end by
// themselves.
func (w *watcher) end(ended <-chan struct{}) {
	w.signal(unix.SIGTERM)
	select {
	case <-ended:
	case <-time.After(w.grace):
		w.kill(errors.New("the connection to gorun ssh is lost"))
	}
}
