package control

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/gorun/gorun/rendezvous/secret"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// guard is the credentials of one side of a stream. It distinguishes an agent with
// another secret, or without the secret that this agent has, from any other program.
type guard struct {
	credentials.TransportCredentials
	tls         bool
	otherSecret func(net.Addr) // an agent has another secret
	foreignTLS  func(net.Addr) // something that is not an agent speaks TLS; nil: it is not reported
}

// serverName is the server name that agents ask for in TLS. It distinguishes them
// from other programs.
const serverName = "control.gorun"

func newGuard(cfg *tls.Config, otherSecret, foreignTLS func(net.Addr)) *guard {
	if cfg == nil {
		return &guard{insecure.NewCredentials(), false, otherSecret, foreignTLS}
	}
	cfg = cfg.Clone()
	cfg.ServerName = serverName
	return &guard{credentials.NewTLS(cfg), true, otherSecret, foreignTLS}
}

func (g *guard) Clone() credentials.TransportCredentials {
	c := *g
	c.TransportCredentials = g.TransportCredentials.Clone()
	return &c
}

// secretAlert is a fatal TLS alert (handshake_failure). An agent sends it to an agent
// with another secret where TLS itself would not, because one of them speaks no TLS.
const secretAlert = "\x15\x03\x03\x00\x02\x02\x28"

// ServerHandshake runs within the server's ConnectionTimeout.
func (g *guard) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	in := &peekedConn{Conn: raw}
	first, err := in.peek(3)
	if err != nil {
		return nil, nil, err
	}
	isTLS := map[string]bool{"PRI": false, "\x16\x03\x01": true} // HTTP/2's preface, TLS's hello
	if tls, known := isTLS[first]; known && tls != g.tls {
		if tls && requestedName(in) != serverName {
			g.foreignTLS(raw.RemoteAddr())
			return nil, nil, errors.New("a program that is not an agent speaks TLS")
		}
		g.refuse(raw)
		return nil, nil, secret.ErrMismatch
	}
	conn, info, err := g.TransportCredentials.ServerHandshake(in)
	if isSecretMismatch(err) {
		g.otherSecret(raw.RemoteAddr())
	}
	return conn, transportInfo{info, raw}, err
}

// transportInfo leads from a stream to its connection.
type transportInfo struct {
	credentials.AuthInfo
	conn net.Conn
}

// connOf returns the connection of a stream that this agent serves, nil if there is
// none.
func connOf(ctx context.Context) net.Conn {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(transportInfo); ok {
			return info.conn
		}
	}
	return nil
}

// requestedName returns the server name that a TLS client asks for, "" if it names none.
func requestedName(in net.Conn) (name string) {
	_ = tls.Server(readOnlyConn{in}, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name = hello.ServerName
		return nil, errors.New("the name is known")
	}}).Handshake()
	return name
}

// readOnlyConn is a connection to which nothing is written.
type readOnlyConn struct{ net.Conn }

func (readOnlyConn) Write(b []byte) (int, error) { return len(b), nil }

// refuse reports the refusal on both sides. It reads for a moment what the other side
// has sent, because closing a connection with unread input takes back what was sent on
// it.
func (g *guard) refuse(raw net.Conn) {
	g.otherSecret(raw.RemoteAddr())
	_ = raw.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(raw, secretAlert)
	_, _ = io.Copy(io.Discard, io.LimitReader(raw, 64<<10))
}

func (g *guard) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if !g.tls {
		return g.TransportCredentials.ClientHandshake(ctx, authority, &peekedConn{Conn: raw, alert: g.otherSecret})
	}
	conn, info, err := g.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if isSecretMismatch(err) {
		g.otherSecret(raw.RemoteAddr())
	}
	return conn, info, err
}

// isSecretMismatch reports whether a handshake failed because of the secret: this side
// says so, or the other side does.
func isSecretMismatch(err error) bool {
	remote, ok := errors.AsType[*net.OpError](err)
	return ok && remote.Op == "remote error" || errors.Is(err, secret.ErrMismatch)
}

// peekedConn is a connection whose first bytes from the other side can be read in advance.
type peekedConn struct {
	net.Conn
	hasRead bool
	unread  []byte
	alert   func(net.Addr) // called when the first bytes are a TLS alert; may be nil
}

// peek waits for the first n bytes, which later Reads return.
func (o *peekedConn) peek(n int) (string, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(o.Conn, b)
	o.unread = b
	return string(b), err
}

func (o *peekedConn) Read(b []byte) (int, error) {
	if len(o.unread) > 0 {
		n := copy(b, o.unread)
		o.unread = o.unread[n:]
		return n, nil
	}
	n, err := o.Conn.Read(b)
	if n > 0 && !o.hasRead {
		o.hasRead = true
		if b[0] == secretAlert[0] && o.alert != nil {
			o.alert(o.RemoteAddr())
			return 0, secret.ErrMismatch
		}
	}
	return n, err
}
