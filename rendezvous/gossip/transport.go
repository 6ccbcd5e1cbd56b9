package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport sends and receives memberlist's messages over one TCP and one UDP port.
// Every message passes filter before it reaches memberlist. The connections that
// transport dials end with the agent, because memberlist's Shutdown neither waits for
// them nor closes them.
type transport struct {
	ended  context.Context
	filter *filter

	tcp     net.Listener
	udp     *net.UDPConn
	packets chan *memberlist.Packet
	streams chan net.Conn
	wg      sync.WaitGroup
	closed  chan struct{}
	once    sync.Once
}

// receiveBuffer is the kernel's room for packets that wait, in bytes.
const receiveBuffer = 2 << 20

// bind opens a TCP and a UDP port of the same number. The port that the kernel
// chooses for TCP (port 0) may be taken for UDP, so bind tries again.
func (g *Gossip) bind(port int, f *filter) (t *transport, err error) {
	for try := 0; try < 10 && (try == 0 || port == 0); try++ {
		if t, err = bindOnce(g.cfg.Bind, port); err == nil {
			t.ended, t.filter = g.ended, f
			if g.cfg.Listen != nil {
				t.tcp = g.cfg.Listen(t.tcp)
			}
			t.packets, t.streams, t.closed = make(chan *memberlist.Packet), make(chan net.Conn), make(chan struct{})
			t.wg.Go(func() { t.acceptStreams(t.tcp) })
			t.wg.Go(t.readPackets)
			return t, nil
		}
	}
	return nil, err
}

func bindOnce(addr string, port int) (*transport, error) {
	ip := net.ParseIP(addr)
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip, Port: port})
	if err != nil {
		return nil, fmt.Errorf("failed to start TCP listener on %q port %d: %w", addr, port, err)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip, Port: tcp.Addr().(*net.TCPAddr).Port})
	if err != nil {
		tcp.Close()
		return nil, fmt.Errorf("failed to start UDP listener on %q port %d: %w", addr, port, err)
	}
	_ = udp.SetReadBuffer(receiveBuffer) // the kernel may give less
	return &transport{tcp: tcp, udp: udp}, nil
}

// listen serves a second TCP port: that of an endpoint. Agents join there over TCP, and
// learn the address to which packets go.
func (g *Gossip) listen(port uint16) error {
	l, err := net.Listen("tcp", net.JoinHostPort(g.cfg.Bind, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	if g.cfg.Listen != nil {
		l = g.cfg.Listen(l)
	}
	g.transport.wg.Go(func() {
		defer l.Close()
		stop := context.AfterFunc(g.ended, func() { l.Close() })
		defer stop()
		g.transport.acceptStreams(l)
	})
	return nil
}

func (t *transport) port() int { return t.udp.LocalAddr().(*net.UDPAddr).Port }

// acceptStreams gives memberlist the accepted connections. memberlist ends each of them
// within its TCPTimeout.
func (t *transport) acceptStreams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // the port is closed
		}
		select {
		case t.streams <- t.filter.stream(c):
		case <-t.closed:
			c.Close()
		}
	}
}

// readPackets gives memberlist the packets that pass the filter.
func (t *transport) readPackets() {
	buf := make([]byte, maxPacket+1)
	for {
		n, from, err := t.udp.ReadFrom(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil || n == 0: // the error is of an earlier packet that this port sent
			continue
		}
		if err := t.filter.checkPacket(buf[:n]); err != nil {
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: time.Now()}:
		case <-t.closed:
			return
		}
	}
}

// FinalAdvertiseAddr returns the address that other agents get, which gorun always
// configures.
func (t *transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	addr := net.ParseIP(ip)
	if addr == nil {
		return nil, 0, fmt.Errorf("%q is no IP address", ip)
	}
	if v4 := addr.To4(); v4 != nil {
		addr = v4
	}
	return addr, port, nil
}

func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.udp.WriteTo(b, to)
	return time.Now(), err
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

func (t *transport) DialTimeout(addr string, limit time.Duration) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: limit}).DialContext(t.ended, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(t.ended, func() { c.Close() })
	return t.filter.stream(&dialedConn{c, stop}), nil
}

// Shutdown closes the ports.
func (t *transport) Shutdown() error {
	t.once.Do(func() {
		close(t.closed)
		t.tcp.Close()
		t.udp.Close()
	})
	t.wg.Wait()
	return nil
}

type dialedConn struct {
	net.Conn
	stop func() bool
}

func (c *dialedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
