package gossip

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport is memberlist's own, except that connections which it dials end
// with the agent: memberlist's Shutdown waits for none and breaks off none.
type transport struct {
	*memberlist.NetTransport
	ended context.Context
}

func (t transport) DialTimeout(addr string, limit time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, limit)
}

func (t transport) DialAddressTimeout(a memberlist.Address, limit time.Duration) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: limit}).DialContext(t.ended, "tcp", a.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(t.ended, func() { c.Close() })
	return &dialedConn{c, stop}, nil
}

type dialedConn struct {
	net.Conn
	stop func() bool
}

func (c *dialedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
