package tcpstore

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/gorun/gorun/internal/accept"
)

// conn is one client's connection. Its fields in, out and dialect belong to its
// goroutine; those below session are guarded by the store's lock.
type conn struct {
	store      *store
	in         input
	out        output
	dialect    dialect
	markProven func() // called with the first request; nil: already called

	session
	remote   netip.AddrPort
	since    time.Time
	pid      int
	requests int64
	counted  bool // store.processes has its process
}

func newConn(nc net.Conn, s *store, o Options) *conn {
	c := &conn{store: s, since: time.Now()}
	c.in.init(nc, &s.budget, o.FrameTimeout)
	c.out = output{conn: nc, socket: socketOf(nc), timeout: o.WriteTimeout}
	// A deadline in the past ends a read that blocks. start and source.Read can
	// distinguish it from a frame's deadline.
	c.wake = func() { _ = nc.SetReadDeadline(time.Unix(1, 0)) }
	c.markProven = func() { accept.MarkProven(nc) }
	c.remote = remoteOf(nc)
	return c
}

// remoteOf returns the address that a connection comes from, zero if it is not
// a TCP connection.
func remoteOf(nc net.Conn) netip.AddrPort {
	a, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// serve answers requests until the connection ends.
func (c *conn) serve() error {
	defer func() { c.in.budget.release(c.in.charged) }()
	for {
		// serve checks hasMail after it has cleared the deadline and before the
		// read blocks. A session that posts mail sets hasMail and then the
		// deadline. So the mail is either seen here or interrupts the read.
		if c.hasMail.Load() {
			mail, err := c.store.drain(&c.session)
			if err != nil {
				return err
			}
			c.out.raw(mail)
			if err := c.out.flush(); err != nil {
				return err
			}
		}
		code, interrupted, err := c.in.start()
		if err != nil {
			return err
		}
		if interrupted {
			continue
		}
		if err := c.frame(code); err != nil {
			return err
		}
		if err := c.in.end(); err != nil {
			return err
		}
	}
}

// frame reads the rest of a frame, runs its command and answers.
func (c *conn) frame(code byte) error {
	if c.dialect == dialectUnknown {
		done, err := c.detectDialect(code)
		if done || err != nil {
			return err
		}
	}
	cmd, ok := c.dialect.command(code)
	if !ok {
		return fmt.Errorf("sent the unknown command %d", code)
	}
	if err := c.run(cmd); err != nil {
		return err
	}
	return c.out.flush()
}

// detectDialect sets the dialect; done is true if the frame was VALIDATE.
func (c *conn) detectDialect(code byte) (done bool, err error) {
	if command(code) == cmdValidate {
		p, err := c.in.buf.Peek(4)
		if err != nil {
			return false, err
		}
		if uint32(p[0])|uint32(p[1])<<8|uint32(p[2])<<16|uint32(p[3])<<24 == validateMagic {
			c.dialect = dialectModern
			_, err = c.in.buf.Discard(4)
			return true, err
		}
	}
	c.dialect = dialectLegacy
	return false, nil
}

// apply runs f on the store and queues the messages that come before its reply.
func (c *conn) apply(f func() error) error {
	if c.markProven != nil {
		c.markProven()
		c.markProven = nil
	}
	mail, err := c.store.apply(&c.session, func() error {
		c.requests++
		c.store.requests++
		if c.dialect == dialectLegacy {
			// A legacy client cancels a wait silently when its time is over. It
			// would read a later answer as the answer to another request.
			c.store.cancel(&c.session)
		}
		err := f() // f may be a PING, which sets the pid
		c.store.noteProcess(c)
		return err
	})
	c.out.raw(mail)
	return err
}
