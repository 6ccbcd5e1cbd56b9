package accept

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds limit the connections that a Pool accepts. A zero field means its
// default.
type Bounds struct {
	// Total is how many connections may be open. Default: the process's limit of open
	// files minus a reserve of a quarter of it, at most 1024.
	Total int
	// Unproven is how many connections may be unproven. It does not count one unproven
	// connection for each proven one of the same address. Default: a quarter of Total,
	// at most 4096.
	Unproven int
	// PerSource is how many unproven connections may come from one address. An address
	// with a proven connection has no such limit. Default: half of Unproven.
	PerSource int
	// Proof is how long a connection may be unproven. Default 10 s.
	Proof time.Duration
	// Grace is how long the Pool does not close an unproven connection for a new one.
	// Default 1 s.
	Grace time.Duration
}

func (b Bounds) withDefaults() Bounds {
	if b.Total <= 0 {
		files := openFiles()
		b.Total = files - min(files/4, 1024)
	}
	if b.Unproven <= 0 {
		b.Unproven = min(max(b.Total/4, 1), 4096)
	}
	if b.PerSource <= 0 {
		b.PerSource = max(b.Unproven/2, 1)
	}
	if b.Proof <= 0 {
		b.Proof = 10 * time.Second
	}
	if b.Grace <= 0 {
		b.Grace = time.Second
	}
	return b
}

// openFiles returns the limit of open files of this process.
func openFiles() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return int(min(l.Cur, 1<<20))
}

// Pool counts connections. It is safe for concurrent use.
type Pool struct {
	bounds Bounds

	mu       sync.Mutex
	open     int
	unproven int // sum of the sources' excess
	sources  map[string]*source
}

// source is an address that has connections.
type source struct {
	unproven []*Conn // the oldest first
	proven   int
}

// excess returns how many more unproven connections an address has than proven ones. A
// client may open a silent connection beside each proven one, as torch before 2.1 does
// to its store.
func (s *source) excess() int { return max(0, len(s.unproven)-s.proven) }

// less orders addresses; the greatest one has to make room first.
func (s *source) less(o *source) bool {
	return cmp.Or(cmp.Compare(s.excess(), o.excess()), cmp.Compare(len(s.unproven), len(o.unproven))) < 0
}

// NewPool makes an empty Pool.
func NewPool(b Bounds) *Pool {
	return &Pool{bounds: b.withDefaults(), sources: map[string]*source{}}
}

// admit counts a connection and reports whether there is room for it.
func (p *Pool) admit(raw net.Conn) (*Conn, bool) {
	c := &Conn{Conn: raw, pool: p, from: sourceOf(raw), since: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sources[c.from]
	if s == nil {
		s = &source{}
	}
	switch {
	case len(s.unproven) >= p.bounds.PerSource && s.proven == 0:
		if !p.closeOldest(s, false) {
			return nil, false
		}
	case p.unproven >= p.bounds.Unproven && len(s.unproven) >= s.proven || p.open >= p.bounds.Total:
		most := p.largestSource()
		if most == nil || !p.closeOldest(most, most.excess() > s.excess()+1) {
			return nil, false
		}
	}
	p.sources[c.from] = s
	p.open++
	p.add(c, s)
	return c, true
}

// add adds a connection to the unproven ones. The caller holds mu.
func (p *Pool) add(c *Conn, s *source) {
	c.state = unproven
	c.since = time.Now()
	p.updateSource(s, func() { s.unproven = append(s.unproven, c) })
	c.limit = time.AfterFunc(p.bounds.Proof, func() { c.expire() })
}

// updateSource runs f, which changes a source, and updates the Pool's sum of excess. The
// caller holds mu.
func (p *Pool) updateSource(s *source, f func()) {
	p.unproven -= s.excess()
	f()
	p.unproven += s.excess()
}

// largestSource returns the source with unproven connections that has to make room first, nil if
// there is none. The caller holds mu.
func (p *Pool) largestSource() *source {
	var most *source
	for _, s := range p.sources {
		if len(s.unproven) > 0 && (most == nil || most.less(s)) {
			most = s
		}
	}
	return most
}

// closeOldest closes a source's oldest unproven connection. Without young it spares a
// connection within its Grace and returns false. The caller holds mu.
func (p *Pool) closeOldest(s *source, young bool) bool {
	c := s.unproven[0]
	if !young && time.Since(c.since) < p.bounds.Grace {
		return false
	}
	p.remove(c)
	c.Conn.Close()
	return true
}

// remove removes a connection from the Pool's counts. The caller holds mu.
func (p *Pool) remove(c *Conn) {
	switch c.state {
	case unproven:
		p.removeUnproven(c)
	case proven:
		s := p.sources[c.from]
		p.updateSource(s, func() { s.proven-- })
	case closed:
		return
	}
	c.state = closed
	p.open--
	if s := p.sources[c.from]; len(s.unproven) == 0 && s.proven == 0 {
		delete(p.sources, c.from)
	}
}

// removeUnproven removes a connection from the unproven ones. The caller holds mu.
func (p *Pool) removeUnproven(c *Conn) {
	c.limit.Stop()
	s := p.sources[c.from]
	p.updateSource(s, func() {
		if i := slices.Index(s.unproven, c); i >= 0 {
			s.unproven = slices.Delete(s.unproven, i, i+1)
		}
	})
}

// freeDescriptor closes the oldest unproven connection of the source with the largest excess,
// because the process has no descriptor left.
func (p *Pool) freeDescriptor() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if most := p.largestSource(); most != nil {
		p.closeOldest(most, true)
	}
}

// sourceOf names the source of a connection: an IPv4 address, a /64 of IPv6 (one host's
// share of addresses), or the user at the other end of a Unix socket.
func sourceOf(c net.Conn) string {
	if uc, ok := c.(*net.UnixConn); ok {
		return "uid " + strconv.Itoa(peerUID(uc))
	}
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if net64, err := ip.Prefix(64); err == nil {
			return net64.String()
		}
	}
	return ip.String()
}

// peerUID returns the user at the other end, -1 if it is unknown.
func peerUID(c *net.UnixConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid
}
