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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// payload is how many bytes a large probe sends each way. It is far more than
// one packet of any MTU and far less than a busy switch would notice.
const payload = 64 << 10

// Run runs a node's plan: all probes in parallel, up to a limit. The results
// are in the plan's order. A probe that Options.Total or ctx left no time for
// has no result, since nothing is known of it.
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

// retryDelay is the time after which another try begins beside a try that has
// not ended. The third and the fourth try begin after twice and four times as
// long.
const retryDelay = 500 * time.Millisecond

// client makes one probe after the other.
type client struct {
	options Options
	key     []byte
	zeros   []byte
}

// probe makes tries until one gives a decisive result. If a try gets no answer
// in time, another try begins beside it, and the first decisive result ends
// them all. A try that was turned away is made again. There is no result if the
// time that all probes share is over.
func (c *client) probe(ctx context.Context, t Target, r *preflight.Probe) {
	source, err := netip.ParseAddr(t.Source)
	if err != nil {
		r.Result, r.Text = preflight.Failed, err.Error()
		return
	}
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	begin, from := time.Now(), c.options.Ports.quarters()
	done := make(chan tryResult, len(from))
	try := func(k int) {
		p := *r
		go func() { done <- c.try(all, t, begin, c.dialer(source, from[k]), &p) }()
	}
	timer := time.NewTimer(retryDelay)
	defer timer.Stop()
	try(0)
	sent, resent, silent := 0, 0, 0
	best := 0 // decisiveness of r
	left, over := len(from)-1, all.Done()
	for running, turnedAway := 1, false; running > 0 || turnedAway && left > 0; {
		select {
		case f := <-done:
			running--
			sent, resent = sent+f.probe.Sent, resent+f.probe.Resent
			if f.silent {
				silent++
			}
			turnedAway = turnedAway || f.turnedAway
			if d := f.decisiveness(); d > best {
				best, *r = d, *f.probe
			}
			if best == decided {
				cancel()
			}
		case <-timer.C:
			if left > 0 && all.Err() == nil {
				k := len(from) - left
				try(k)
				timer.Reset(retryDelay << (k - 1))
				running, left = running+1, left-1
			}
		case <-over:
			left, over = 0, nil
		}
	}
	if isOver(ctx) && best != decided {
		r.Result = ""
	}
	if time.Duration(r.RoundMS*float64(time.Millisecond)) < retryDelay/2 { // else an answer may have been on its way
		r.Silent = silent
	}
	r.Sent, r.Resent = sent+r.Silent, resent+r.Silent
	if r.Mbit > 0 && (r.Result == preflight.OK || r.Result == preflight.OtherSource) { // a busy machine may have delayed the packets
		r.Mbit = c.measureRate(ctx, t, c.dialer(source, from[0]))
	}
}

// tryResult is the result of one try.
type tryResult struct {
	probe  *preflight.Probe
	silent bool // no connection after a time that should have been enough
	// turnedAway says that the connection was closed before any answer. A node that
	// has no room for it does that (package accept), and has room a moment later.
	turnedAway bool
}

// decided is the decisiveness of a result that no other try can change.
const decided = 5

// decisiveness ranks a result by how much it shows. A try that got further says
// more.
func (r tryResult) decisiveness() int {
	switch r.probe.Result {
	case "":
		return 0
	case preflight.TimedOut:
		return 1
	case preflight.Failed:
		return 2
	case preflight.Stalled:
		return 3
	case preflight.Lossy, preflight.Slow:
		return 4
	default:
		if r.turnedAway {
			return 2
		}
		return decided
	}
}

// dialer returns a dialer that connects from the source, at the first port that
// is free.
func (c *client) dialer(source netip.Addr, ports []int) dialer {
	return func(ctx context.Context, target string, deadline time.Time) (conn net.Conn, err error) {
		for _, port := range ports {
			d := net.Dialer{Deadline: deadline, KeepAlive: -1, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, uint16(port)))}
			if conn, err = d.DialContext(ctx, "tcp", target); !errors.Is(err, syscall.EADDRINUSE) {
				break
			}
		}
		return conn, err
	}
}

type dialer func(ctx context.Context, target string, deadline time.Time) (net.Conn, error)

// try connects once. There is no result if ctx ended first.
func (c *client) try(ctx context.Context, t Target, begin time.Time, dial dialer, r *preflight.Probe) tryResult {
	delay := time.Since(begin)
	conn, err := dial(ctx, t.Target, begin.Add(c.options.Connect))
	if err != nil {
		if ctx.Err() != nil || isOver(ctx) {
			return tryResult{probe: r, silent: time.Since(begin)-delay >= retryDelay}
		}
		r.Result, r.Text = classify(err)
		if r.Result == preflight.TimedOut {
			r.Text = fmt.Sprintf("no connection within %s", c.options.Connect)
		}
		return tryResult{probe: r}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(max(c.options.Exchange-delay, retryDelay)))
	size := 0
	if t.Large {
		size = payload
	}
	var result preflight.Result
	var text string
	turnedAway := false
	if answer, err := c.greet(conn, uint32(size), r); err != nil {
		result, text = c.classifyGreeting(err)
		turnedAway = result == preflight.Reset || errors.Is(err, io.EOF)
	} else {
		result, text = c.exchange(conn, t, answer, size, r)
	}
	r.Sent, r.Resent = segments(tcpInfo(conn))
	if ctx.Err() == nil && !isOver(ctx) {
		r.Result, r.Text = result, text
	}
	return tryResult{probe: r, turnedAway: turnedAway}
}

// isOver reports whether the time of all probes is over. The dialer checks the
// deadline of ctx against a clock of its own, and may end a moment before ctx
// does.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// greet sends the hello and reads the reply to it.
func (c *client) greet(conn net.Conn, size uint32, r *preflight.Probe) (reply, error) {
	h := newHello(c.options.ID, size)
	sentAt := time.Now()
	if _, err := conn.Write(h.encode(c.key)); err != nil {
		return reply{}, err
	}
	answer, err := readReply(conn, c.key, h.nonce)
	if err != nil {
		return reply{}, err
	}
	round := time.Since(sentAt)
	r.RoundMS = float64(round.Microseconds()) / 1000
	r.Ahead = answer.clock - sentAt.Add(round/2).UnixNano()
	r.Answer, r.Seen = answer.id, answer.seen.String()
	return answer, nil
}

// classifyGreeting says why a connection brought no reply.
func (c *client) classifyGreeting(err error) (preflight.Result, string) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return preflight.OtherAgent, "it closed the connection without an answer"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return preflight.Failed, fmt.Sprintf("connected, but no answer within %s", c.options.Exchange)
	case isNetwork(err):
		return classify(err)
	}
	return preflight.OtherAgent, err.Error()
}

// exchange checks who answered, and sends the payload of so many bytes.
func (c *client) exchange(conn net.Conn, t Target, answer reply, size int, r *preflight.Probe) (preflight.Result, string) {
	if answer.id != t.ID {
		return preflight.OtherAgent, "another node of this job answered"
	}
	if size > 0 {
		if result, text := c.load(conn, size, r); result != preflight.OK {
			return result, text
		}
	}
	if source := host(conn.LocalAddr()); answer.seen != source {
		return preflight.OtherSource, fmt.Sprintf("sent from %s, arrived from %s", source, answer.seen)
	}
	return preflight.OK, ""
}

// load sends the payload each way.
func (c *client) load(conn net.Conn, size int, r *preflight.Probe) (preflight.Result, string) {
	begin := time.Now()
	before := tcpInfo(conn).Bytes_acked
	err := sendZeros(conn, c.zeros, size)
	var b [1]byte
	if err == nil {
		_, err = io.ReadFull(conn, b[:])
	}
	info, took := tcpInfo(conn), time.Since(begin)
	arrived := int(info.Bytes_acked - before)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && arrived >= size:
		return preflight.Failed, fmt.Sprintf("%d KiB arrived, but no answer to them within %s", size>>10, c.options.Exchange)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c.classifyStall(info, arrived, "to it", r, took)
	case err != nil:
		return classify(err)
	case b[0] != received:
		return preflight.OtherAgent, errMagic.Error()
	}
	if isSuspect(info, took) {
		r.Mbit = mbit(size, took)
	}
	begin = time.Now()
	n, err := io.CopyN(io.Discard, conn, int64(size))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return c.classifyStall(tcpInfo(conn), int(n), "from it", r, time.Since(begin))
	case err != nil:
		return classify(err)
	}
	return preflight.OK, ""
}

// measureRate returns the rate, in Mbit/s, of a path on which a payload waited
// in a queue. It returns 0 if the wait was chance, because a busy machine
// delays packets, too.
func (c *client) measureRate(ctx context.Context, t Target, dial dialer) float64 {
	ctx, cancel := context.WithTimeout(ctx, c.options.Exchange)
	defer cancel()
	conn, err := dial(ctx, t.Target, time.Time{})
	if err != nil {
		return 0
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	begin := time.Now()
	h := newHello(c.options.ID, maxPayload)
	if _, err := conn.Write(h.encode(c.key)); err != nil {
		return 0
	}
	if _, err := readReply(conn, c.key, h.nonce); err != nil {
		return 0
	}
	if err := sendZeros(conn, c.zeros, maxPayload); err == nil {
		_, _ = io.ReadFull(conn, make([]byte, 1))
	}
	took, info := time.Since(begin), tcpInfo(conn)
	if rate := mbit(int(info.Bytes_acked), took); isSuspect(info, took) && slow(info, rate) {
		return rate
	}
	return 0
}

// classifyStall says why a payload did not arrive. If no byte arrived, the
// cause is the size of the packets. Otherwise packets got lost, or the path is
// slow: then they wait in a queue, and the round trip grows.
func (c *client) classifyStall(info *unix.TCPInfo, arrived int, way string, r *preflight.Probe, took time.Duration) (preflight.Result, string) {
	text := fmt.Sprintf("%d of %d KiB %s arrived within %s", arrived>>10, payload>>10, way, c.options.Exchange)
	switch {
	case arrived <= 0:
		return preflight.Stalled, text
	case info.Total_retrans+info.Rcv_ooopack > 0 && !isQueued(info):
		return preflight.Lossy, text
	}
	if way == "to it" {
		r.Mbit = mbit(arrived, took)
	}
	return preflight.Slow, text
}
