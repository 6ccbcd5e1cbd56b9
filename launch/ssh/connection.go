package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/process"
)

// Times of a connection.
const (
	helloWait   = 30 * time.Second // until a host answers, or takes a part of the copy
	drainWait   = time.Second      // for the last output of an ssh that has ended
	copyPart    = 256 << 10        // bytes
	beatsInTime = 5                // signs of life within the time after which silence is a loss
	aliveCount  = 3                // of ssh's own questions to the server within that time
)

// connection is one host of a job, with the ssh that runs there.
type connection struct {
	host    Host
	o       *Options
	process *process.Process
	in      *os.File // standard input of ssh
	out     stream
	errs    stream
	marks   chan mark
	orders  chan []byte   // lines for standard input
	done    chan struct{} // closed when ssh has ended and its output was read
	hello   Hello

	mu    sync.Mutex
	state string // what the connection waits for; "": an answer
}

func newConnection(h Host, o *Options, stdout, stderr *output) *connection {
	c := &connection{host: h, o: o, marks: make(chan mark, 8), orders: make(chan []byte, 16), done: make(chan struct{})}
	prefix := ""
	if o.Prefix {
		prefix = "[" + h.String() + "] "
	}
	c.out = stream{to: stdout, prefix: prefix, token: o.Question.Token, marks: c.marks}
	c.errs = stream{to: stderr, prefix: prefix}
	return c
}

// arguments returns the arguments of ssh for a host. Everything else is up to the
// user's configuration.
func (o *Options) arguments(h Host, command string) []string {
	args := append([]string{}, o.Command...)
	args = append(args,
		"-T", "-x", "-o", "BatchMode=yes",
		"-o", "ServerAliveInterval="+strconv.Itoa(max(1, int(o.Question.Silent/time.Second)/aliveCount)),
		"-o", "ServerAliveCountMax="+strconv.Itoa(aliveCount),
		"-o", "RemoteCommand=none", "-o", "ClearAllForwardings=yes")
	if h.Port != 0 {
		args = append(args, "-p", strconv.Itoa(h.Port))
	}
	return append(args, "--", h.Name, command)
}

// connect starts ssh and returns when the host has said Hello. The error does not name
// the host.
func (c *connection) connect(ctx context.Context, table *process.Table, path, question string) error {
	if err := c.start(table, path, question); err != nil {
		close(c.done)
		return err
	}
	elapsed := time.NewTimer(helloWait)
	defer elapsed.Stop()
	for {
		select {
		case m := <-c.marks:
			if done, err := c.answer(ctx, m); done || err != nil {
				return err
			}
			elapsed.Reset(helloWait)
		case <-c.done:
			return c.failure()
		case <-elapsed.C:
			c.kill()
			return c.late()
		case <-ctx.Done():
			c.kill()
			return c.late()
		}
	}
}

// start starts ssh and what reads its output.
func (c *connection) start(table *process.Table, path, question string) error {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer inRead.Close()
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		inWrite.Close()
		return err
	}
	defer outWrite.Close()
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		inWrite.Close()
		outRead.Close()
		return err
	}
	defer errWrite.Close()
	c.process, err = table.Start(process.Spec{
		Path: path, Args: c.o.arguments(c.host, c.o.Program.command(c.o.Question.Token, question)), Env: c.o.Env,
		Stdin: inRead, Stdout: outWrite, Stderr: errWrite,
		Session: true, Death: syscall.SIGKILL, // the host ends its part when ssh ends
	})
	if err != nil {
		inWrite.Close()
		outRead.Close()
		errRead.Close()
		return err
	}
	c.in = inWrite
	var readers sync.WaitGroup
	readers.Go(func() { c.out.copy(outRead) })
	readers.Go(func() { c.errs.copy(errRead) })
	go func() { // ends after ssh: a master connection that ssh left may hold its output open
		defer close(c.done)
		<-c.process.Done()
		for _, f := range []*os.File{outRead, errRead} {
			_ = f.SetReadDeadline(time.Now().Add(drainWait))
		}
		readers.Wait()
		for _, f := range []*os.File{outRead, errRead} {
			f.Close()
		}
	}()
	return nil
}

// answer handles what a host says before the job begins. done means Hello.
func (c *connection) answer(ctx context.Context, m mark) (done bool, err error) {
	switch m.kind {
	case "missing":
		return false, c.sendCopy(ctx, m.text)
	case "hello":
		if c.hello, err = parseHello(m.text); err == nil && c.hello.Error != "" {
			err = errors.New(c.hello.Error)
		}
		if err != nil {
			c.kill()
			return true, err
		}
		go c.talk() // ends with ssh
		return true, nil
	}
	return false, nil
}

// sendCopy sends this program to a host that has none.
func (c *connection) sendCopy(ctx context.Context, arch string) error {
	p := &c.o.Program
	switch {
	case !p.Copy:
		c.kill()
		return errors.New("it has no gorun: --copy sends this one there, or install gorun there in the PATH that ssh gives")
	case p.Arch != "" && arch != p.Arch:
		c.kill()
		return fmt.Errorf("it has no gorun and is a machine of kind %s, for which this one (%s) is not: install gorun there", arch, p.Arch)
	}
	file, err := os.Open(p.File)
	if err != nil {
		c.kill()
		return err
	}
	defer file.Close()
	defer context.AfterFunc(ctx, func() { _ = c.in.SetWriteDeadline(time.Now()) })()
	for sent := int64(0); sent < p.Size; {
		c.setState(fmt.Sprintf("gets a copy of gorun, %d %%", sent*100/p.Size))
		_ = c.in.SetWriteDeadline(time.Now().Add(helloWait))
		n, err := io.CopyN(c.in, file, min(copyPart, p.Size-sent))
		if err != nil {
			c.kill()
			<-c.done
			if text := c.errs.lastLine(); text != "" {
				return fmt.Errorf("it cannot take a copy of gorun: %s", text)
			}
			return fmt.Errorf("it cannot take a copy of gorun: %w", err)
		}
		sent += n
	}
	c.setState("")
	return nil
}

// talk writes orders and signs of life until ssh has ended.
func (c *connection) talk() {
	silent := c.o.Question.Silent
	beat := time.NewTicker(silent / beatsInTime)
	defer beat.Stop()
	defer c.in.Close()
	for {
		line := order{}.line()
		select {
		case line = <-c.orders:
			if line == nil {
				return
			}
		case <-beat.C:
		case <-c.done:
			return
		}
		_ = c.in.SetWriteDeadline(time.Now().Add(max(silent, helloWait)))
		if _, err := c.in.Write(line); err != nil {
			return // the end of standard input ends the host's part; ssh says why
		}
	}
}

// send queues a line; it drops the line if the host takes none. nil ends standard input.
func (c *connection) send(line []byte) {
	select {
	case c.orders <- line:
	default:
	}
}

// kill ends ssh. The host ends its part then.
func (c *connection) kill() {
	if c.process != nil {
		_ = c.process.Signal(syscall.SIGKILL) // it may have ended
	}
}

// failure says why ssh has ended before the host said Hello.
func (c *connection) failure() error {
	text := c.errs.lastLine()
	switch status := c.process.Exit().Status(); {
	case text == "" && status == 255:
		return errors.New("ssh cannot connect and does not say why")
	case strings.Contains(text, NodeCommand): // an earlier gorun takes the command for a program
		return errors.New("its gorun is of an earlier version: --copy sends this one there, or install this version there")
	case text == "":
		return fmt.Errorf("the command of ssh has ended with code %d and without a message", status)
	}
	return errors.New(strings.TrimPrefix(text, "ssh: "))
}

// late says why a host has not answered in time.
func (c *connection) late() error {
	if text := c.errs.lastLine(); text != "" {
		return fmt.Errorf("no answer yet; ssh says: %s", text)
	}
	return errors.New("no answer yet")
}

func (c *connection) setState(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = text
}

// waiting says what the connection waits for.
func (c *connection) waiting() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != "" {
		return c.state
	}
	return c.late().Error()
}

// end returns the exit code of the host's part. ok is false if its gorun did not say
// how it ended, because the connection was lost or something killed it.
func (c *connection) end() (code int, ok bool) {
	for {
		select {
		case m := <-c.marks:
			if n, err := strconv.Atoi(m.text); m.kind == "end" && err == nil && n >= 0 && n <= 255 {
				code, ok = n, true
			}
		default:
			return code, ok
		}
	}
}
