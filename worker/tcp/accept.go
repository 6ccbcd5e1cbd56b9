package tcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// maxHandshakes is how many accepted connections may be in a handshake at once.
	maxHandshakes = 256
	// graceTime is how long a handshake is not ended for the sake of another one of the
	// same address. A rank needs milliseconds.
	graceTime = time.Second
)

// accept takes connections until the mesh ends.
func (m *Mesh) accept() {
	var all handshakes
	for {
		conn, err := m.ln.Accept()
		if err != nil {
			select {
			case <-m.open.Done():
				return
			case <-time.After(busyPause): // for example: no file descriptor is free
			}
			continue
		}
		if !all.add(conn) {
			conn.Close()
			continue
		}
		m.wg.Go(func() {
			defer all.remove(conn)
			m.answer(conn)
		})
	}
}

// handshakes are the accepted connections in a handshake, the oldest first. Programs that
// connect and say nothing keep no rank out: where there is no room, the oldest connection
// ends of the address that has the most.
type handshakes struct {
	mu  sync.Mutex
	all []handshake
}

type handshake struct {
	conn  net.Conn
	from  string
	since time.Time
}

// add adds a connection and reports whether there is room for it.
func (s *handshakes) add(conn net.Conn) bool {
	from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxHandshakes && !s.endOne(from, now) {
		return false
	}
	s.all = append(s.all, handshake{conn, from, now})
	return true
}

// endOne ends a handshake for the sake of one of the address from, and reports whether
// there is one to end.
func (s *handshakes) endOne(from string, now time.Time) bool {
	count := map[string]int{}
	for _, h := range s.all {
		count[h.from]++
	}
	oldest := -1
	for i, h := range s.all {
		if oldest < 0 || count[h.from] > count[s.all[oldest].from] {
			oldest = i
		}
	}
	h := s.all[oldest]
	if count[h.from] <= count[from]+1 && now.Sub(h.since) < graceTime {
		return false
	}
	h.conn.Close()
	s.all = slices.Delete(s.all, oldest, oldest+1)
	return true
}

// remove removes a connection whose handshake has ended.
func (s *handshakes) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(h handshake) bool { return h.conn == conn })
}

// answer makes the accepting side of a handshake on c. It makes c a lane to the rank that
// dialled, or closes it.
func (m *Mesh) answer(c net.Conn) {
	defer context.AfterFunc(m.open, func() { c.Close() })()
	conn := c.(*net.TCPConn)
	conn.SetDeadline(time.Now().Add(handshakeTime))
	id, err := m.identify(conn)
	if err != nil {
		conn.Close()
		return
	}
	p := m.slot(id)
	m.mu.Lock()
	answer := byte(answerOK)
	switch {
	case p.claimed && p.ended():
		answer = answerLost
	case p.claimed, p.dialing && m.cfg.Rank < id.rank:
		answer = answerBusy
	default:
		p.claimed = true
	}
	m.mu.Unlock()
	if answer != answerOK {
		conn.Write([]byte{answer})
		conn.Close()
		return
	}
	conn.Write([]byte{answerOK}) // if it fails, the reader fails too
	conn.SetDeadline(time.Time{})
	m.adopt(p, conn)
}

// identify proves the token on conn, checks the peer's proof and returns the lane that
// the peer wants.
func (m *Mesh) identify(conn io.ReadWriter) (laneID, error) {
	var b [helloSize]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return laneID{}, err
	}
	h, err := parseHello(b[:], m.cfg.Rank, m.cfg.Size)
	if err != nil {
		return laneID{}, err
	}
	var challenge [nonceSize]byte
	rand.Read(challenge[:])
	if _, err := conn.Write(append(challenge[:], proof(m.cfg.Token, sideAccept, h, challenge)...)); err != nil {
		return laneID{}, err
	}
	var theirs [proofSize]byte
	if _, err := io.ReadFull(conn, theirs[:]); err != nil {
		return laneID{}, err
	}
	if !hmac.Equal(theirs[:], proof(m.cfg.Token, sideDial, h, challenge)) {
		return laneID{}, errors.New("a rank of another world")
	}
	return laneID{rank: int(h.from), collective: h.collective, comm: h.comm}, nil
}

// adopt makes conn, whose handshake is done, the lane of p, and starts the reader of a
// lane of messages. If the mesh has ended, it sends only the mesh's last frame on conn
// and closes it.
func (m *Mesh) adopt(p *slot, conn *net.TCPConn) {
	// A node that is gone without a word is noticed after 10 s of silence; watchSilence does
	// so where data is under way.
	conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5})
	l := m.newLane(p.id, conn)
	m.mu.Lock()
	if m.life.Err() != nil {
		m.mu.Unlock()
		l.sendLast(time.Now().Add(byeTime), context.Cause(m.life))
		l.drained()
		l.close()
		return
	}
	m.lanes = append(m.lanes, l)
	if !p.id.collective {
		m.wg.Go(l.readMessages)
	}
	p.l = l
	close(p.ready)
	m.mu.Unlock()
}
