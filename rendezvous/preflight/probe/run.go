package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// payload is what a large probe sends each way, in bytes: far more than one
// packet of any MTU, far less than what a busy switch would mind.
const payload = 64 << 10

// Run carries out a node's plan: all probes in parallel, up to a limit. The
// results are in the plan's order. Probes that Options.Total or ctx did not
// leave the time for are missing: nothing is known of them.
func Run(ctx context.Context, o Options, p Plan) []preflight.Probe {
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, o.Total)
	defer cancel()
	c := client{options: o, key: o.key(), zeros: make([]byte, payload)}
	done := make([]*preflight.Probe, len(p.Targets))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(o.Parallel, len(p.Targets)) {
		workers.Go(func() {
			for i := range next {
				begin := time.Now()
				r := preflight.Probe{
					From: p.Node, To: p.Targets[i].To, Use: p.Targets[i].Use,
					Iface: p.Targets[i].Iface, Source: p.Targets[i].Source, Target: p.Targets[i].Target,
					Large: p.Targets[i].Large,
				}
				c.probe(ctx, p.Targets[i], &r)
				if r.Result == "" {
					continue
				}
				r.TookMS = float64(time.Since(begin).Microseconds()) / 1000
				done[i] = &r
			}
		})
	}
	for i := range p.Targets {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
	var out []preflight.Probe
	for _, r := range done {
		if r != nil {
			out = append(out, *r)
		}
	}
	return slices.Clip(out)
}

// client makes one probe after the other.
type client struct {
	options Options
	key     []byte
	zeros   []byte
}

// probe fills in what it found; no result if the time ran out that all share.
func (c *client) probe(ctx context.Context, t Target, r *preflight.Probe) {
	source, err := netip.ParseAddr(t.Source)
	if err != nil {
		r.Result, r.Text = preflight.Failed, err.Error()
		return
	}
	d := net.Dialer{
		Timeout: c.options.Connect, KeepAlive: -1,
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)),
	}
	conn, err := d.DialContext(ctx, "tcp", t.Target)
	if err != nil {
		if !over(ctx) {
			r.Result, r.Text = classify(err)
			if r.Result == preflight.TimedOut {
				r.Text = fmt.Sprintf("no connection within %s", c.options.Connect)
			}
		}
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(c.options.Exchange))
	result, text := c.exchange(conn, t, source, r)
	if !over(ctx) {
		r.Result, r.Text = result, text
	}
}

// over reports whether the time of all probes is over. The dialer keeps the
// deadline of ctx by a clock of its own, and may be done a moment before ctx is.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// exchange says what happens on a connection.
func (c *client) exchange(conn net.Conn, t Target, source netip.Addr, r *preflight.Probe) (preflight.Result, string) {
	size := 0
	if t.Large {
		size = payload
	}
	h := newHello(c.options.ID, uint32(size))
	if _, err := conn.Write(h.encode(c.key)); err != nil {
		return classify(err)
	}
	answer, err := readReply(conn, c.key, h.nonce)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return preflight.Stranger, "it closed the connection without an answer"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return preflight.Failed, fmt.Sprintf("connected, but no answer within %s", c.options.Exchange)
	case isNetwork(err):
		return classify(err)
	case err != nil:
		return preflight.Stranger, err.Error()
	}
	r.Answer, r.Seen = answer.id, answer.seen.String()
	if answer.id != t.ID {
		return preflight.Stranger, "another node of this job answered"
	}
	if size > 0 {
		if result, text := c.load(conn, size); result != preflight.OK {
			return result, text
		}
	}
	if answer.seen != source.Unmap().WithZone("") {
		return preflight.OtherSource, fmt.Sprintf("sent from %s, arrived from %s", source, answer.seen)
	}
	return preflight.OK, ""
}

// load sends the payload each way.
func (c *client) load(conn net.Conn, size int) (preflight.Result, string) {
	fault := func(err error, way string) (preflight.Result, string) {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return preflight.Stalled, fmt.Sprintf("%d KiB %s did not arrive within %s", size>>10, way, c.options.Exchange)
		}
		return classify(err)
	}
	if err := sendZeros(conn, c.zeros, size); err != nil {
		return fault(err, "to it")
	}
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return fault(err, "to it")
	}
	if b[0] != received {
		return preflight.Stranger, errMagic.Error()
	}
	if _, err := io.CopyN(io.Discard, conn, int64(size)); err != nil {
		return fault(err, "from it")
	}
	return preflight.OK, ""
}
