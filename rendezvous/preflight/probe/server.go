package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// Address is where a node listens for the probes of the other nodes.
type Address struct {
	Iface string
	IP    string // with its zone if it has one
	Use   preflight.Use
}

// Server answers the probes of the other nodes.
type Server struct {
	options   Options
	key       []byte
	listeners []preflight.Listener
	sockets   []net.Listener
	zeros     []byte
}

// Listen binds ports of each address, at that address itself, so that an
// address that is not on this node fails here. The uses of an address share its
// ports, and each use begins at another port. The errors name the addresses
// that are left out. Listen accepts no connection; Serve does.
func Listen(o Options, addrs []Address, ports Ports) (*Server, []error) {
	s := &Server{options: o.withDefaults(), key: o.key(), zeros: make([]byte, 16<<10)}
	var errs []error
	opened, uses := map[string][]int{}, map[string]int{}
	for _, a := range addrs {
		if opened[a.IP] == nil {
			var err error
			if opened[a.IP], err = s.bind(a.IP, ports); err != nil {
				errs = append(errs, fmt.Errorf("cannot listen for probes on %s (%s): %w", a.IP, a.Iface, err))
				continue
			}
		}
		all := opened[a.IP]
		port := all[uses[a.IP]%len(all)]
		uses[a.IP]++
		s.listeners = append(s.listeners, preflight.Listener{Iface: a.Iface, Addr: a.IP, Port: port, Use: a.Use, Ports: all})
	}
	return s, errs
}

// bind opens a port in each part of the range, or at least one, and returns the
// ports ascending.
func (s *Server) bind(ip string, ports Ports) ([]int, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.IsUnspecified() || addr.IsMulticast() {
		return nil, errors.New("it is not an address of one host")
	}
	var out []int
	try := func(candidates []int) error {
		for _, p := range candidates {
			l, e := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(p)))
			if e == nil {
				s.sockets = append(s.sockets, s.options.Pool.Listen(l))
				out = append(out, l.Addr().(*net.TCPAddr).Port)
				return nil
			}
			if err = e; !errors.Is(e, syscall.EADDRINUSE) && !errors.Is(e, syscall.EACCES) {
				return e // no port of that address can be opened
			}
		}
		return nil
	}
	for _, part := range ports.parts() {
		if err := try(part); err != nil {
			return nil, err
		}
	}
	if out == nil {
		if err := try(ports.all()); err != nil {
			return nil, err
		}
	}
	if out == nil {
		return nil, fmt.Errorf("no port of %d-%d is free: %w", ports.Lo, ports.Hi, err)
	}
	return out, nil
}

// Listeners returns the listeners to publish among the node's facts.
func (s *Server) Listeners() []preflight.Listener { return slices.Clone(s.listeners) }

// Close closes a server that is not serving.
func (s *Server) Close() {
	for _, l := range s.sockets {
		l.Close()
	}
}

// Serve answers probes until ctx ends. When it returns, all ports and
// connections are closed and their goroutines have ended.
func (s *Server) Serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, l := range s.sockets {
		all.Go(func() { s.accept(ctx, l, &all) })
	}
	<-ctx.Done()
	s.Close()
	all.Wait()
}

// accept serves one port while it can be used.
func (s *Server) accept(ctx context.Context, l net.Listener, all *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		all.Go(func() { s.answer(ctx, c) })
	}
}

// answer serves one connection. The client reports what goes wrong with it, so
// the client's deadline is the first to pass.
func (s *Server) answer(ctx context.Context, c net.Conn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(2*s.options.Exchange + time.Second))

	h, err := readHello(c, s.key)
	if err != nil {
		return
	}
	accept.MarkProven(c)
	answer := reply{s.options.ID, host(c.RemoteAddr()), time.Now().UnixNano()}
	if _, err := c.Write(answer.encode(s.key, h.nonce)); err != nil || h.size == 0 {
		return
	}
	if _, err := io.CopyN(io.Discard, c, int64(h.size)); err != nil {
		return
	}
	if _, err := c.Write([]byte{received}); err != nil {
		return
	}
	_ = sendZeros(c, s.zeros, int(h.size))
}

// sendZeros writes n zero bytes.
func sendZeros(c net.Conn, zeros []byte, n int) error {
	for n > 0 {
		wrote, err := c.Write(zeros[:min(n, len(zeros))])
		if err != nil {
			return err
		}
		n -= wrote
	}
	return nil
}

// host returns the IP of an address without its zone, because zones are each
// node's own.
func host(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap().WithZone("")
}
