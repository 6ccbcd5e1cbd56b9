package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// helloTime bounds connecting and the first exchange. A server that does not speak the
// protocol must not delay a worker.
const helloTime = 10 * time.Second

// legacyTime bounds the second attempt, in the legacy dialect. The server has just shown
// that it answers at once.
const legacyTime = 2 * time.Second

var errServerClosed = errors.New("the store closed the connection")

// Client is one connection to a store. Its methods may be called from several
// goroutines; they run one after the other. After an error that is not about an argument
// the connection is closed and every later call fails.
type Client struct {
	addr string
	conn net.Conn
	r    *bufio.Reader
	turn chan struct{} // has a token while a call uses conn and r
	err  error         // why the connection cannot be used any more; guarded by turn

	legacy bool // the store is of torch 1.9 to 2.0
}

// Dial connects to the store at addr (host:port) and checks that it is a store.
func Dial(ctx context.Context, addr string) (*Client, error) {
	c, err := connect(ctx, addr, false)
	if errors.Is(err, errServerClosed) || errors.Is(err, syscall.ECONNRESET) {
		// The store of an older torch closes the connection at what it does not know.
		soon, cancel := context.WithTimeout(ctx, legacyTime)
		defer cancel()
		if old, oldErr := connect(soon, addr, true); oldErr == nil {
			return old, nil
		}
	}
	return c, err
}

// connect connects to a store that speaks the legacy dialect, or today's.
func connect(ctx context.Context, addr string, legacy bool) (*Client, error) {
	hello, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(hello, "tcp", addr)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("cannot reach the store at %s: %w", addr, err)
	}
	c := &Client{addr: addr, conn: conn, r: bufio.NewReader(conn), turn: make(chan struct{}, 1), legacy: legacy}
	if err = c.validate(hello); err != nil {
		conn.Close()
		return nil, fmt.Errorf("no usable store at %s: %w", addr, err)
	}
	return c, nil
}

// maxNumKeys is more than the keys of any store, and less than a text is as a number.
const maxNumKeys = 1 << 32

// validate makes the first exchange, which shows that the server is a store.
func (c *Client) validate(ctx context.Context) error {
	if c.legacy {
		n, err := c.NumKeys(ctx)
		if err == nil && (n < 0 || n > maxNumKeys) {
			err = fmt.Errorf("it claims to have %d keys", uint64(n))
		}
		return err
	}
	nonce := uint32(os.Getpid())
	req := newRequest(cmdValidate).u32(magic)
	req.b = append(req.b, newRequest(cmdPing).u32(nonce).b...)
	return c.do(ctx, "check", "", req, func(r *bufio.Reader) error {
		got, err := readU32(r)
		if err == nil && got != nonce {
			return errors.New("it does not speak torch's TCPStore protocol (wrong answer to PING)")
		}
		return err
	})
}

// LocalAddr returns this side's address of the connection.
func (c *Client) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// Close ends the connection. It may be called at any time and more than once. A call
// that is under way returns an error.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// do waits for this call's turn, sends req and lets read read the reply.
func (c *Client) do(ctx context.Context, what, key string, req *request, read func(*bufio.Reader) error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return c.fail(what, key, context.Cause(ctx))
	}
	if ctx.Err() != nil {
		return c.fail(what, key, context.Cause(ctx))
	}
	if c.err != nil {
		return c.fail(what, key, c.err)
	}
	if c.legacy {
		req.b[0] = legacyCommand(req.b[0])
	}
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	_, err := c.conn.Write(req.b)
	if err == nil && read != nil {
		err = read(c.r)
	}
	if !stop() {
		// The context ended meanwhile and the connection is closed. Even if read got a
		// complete reply, the next call cannot use the connection.
		c.err = errors.New("the connection was closed by an earlier call that was cancelled")
		if err != nil {
			err = context.Cause(ctx)
		}
	} else if err != nil {
		if errors.Is(err, io.EOF) {
			err = errServerClosed
		}
		c.err = err
		c.conn.Close()
	}
	if err != nil {
		return c.fail(what, key, err)
	}
	return nil
}

func (c *Client) fail(what, key string, err error) error {
	if key == "" {
		return fmt.Errorf("cannot %s store %s: %w", what, c.addr, err)
	}
	return fmt.Errorf("cannot %s key %q in store %s: %w", what, key, c.addr, err)
}
