package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// helloTime bounds connecting and the first exchange. A server that does not speak the
// protocol must not delay a worker.
const helloTime = 10 * time.Second

// Client is one connection to a store. Its methods may be called from several
// goroutines; they run one after the other. After an error that is not about an argument
// the connection is closed and every later call fails.
type Client struct {
	addr string
	conn net.Conn
	r    *bufio.Reader
	turn chan struct{} // has a token while a call uses conn and r
	err  error         // why the connection cannot be used any more; guarded by turn
}

// Dial connects to the store at addr (host:port) and checks that it is a store.
func Dial(ctx context.Context, addr string) (*Client, error) {
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
	c := &Client{addr: addr, conn: conn, r: bufio.NewReader(conn), turn: make(chan struct{}, 1)}
	nonce := uint32(os.Getpid())
	req := newRequest(cmdValidate).u32(magic)
	req.b = append(req.b, newRequest(cmdPing).u32(nonce).b...)
	err = c.do(hello, "check", "", req, func(r *bufio.Reader) error {
		got, err := readU32(r)
		if err == nil && got != nonce {
			return errors.New("it does not speak torch's TCPStore protocol (wrong answer to PING)")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("no usable store at %s: %w", addr, err)
	}
	return c, nil
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
			err = errors.New("the store closed the connection")
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
