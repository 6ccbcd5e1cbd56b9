package tcp

import (
	"context"
	"io"
	"net"
	"time"
)

// maxHandshakes is how many accepted connections may be in a handshake at once.
const maxHandshakes = 256

// accept takes connections until the mesh ends.
func (m *Mesh) accept() {
	slots := make(chan struct{}, maxHandshakes)
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
		select {
		case slots <- struct{}{}:
			m.wg.Go(func() {
				defer func() { <-slots }()
				m.answer(conn)
			})
		default:
			conn.Close()
		}
	}
}

// answer reads the hello on conn. It makes conn the connection to the rank that dialled,
// or closes it.
func (m *Mesh) answer(conn net.Conn) {
	defer context.AfterFunc(m.open, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(handshakeTime))
	b := make([]byte, helloSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		conn.Close()
		return
	}
	from, err := parseHello(b, m.cfg.Token, m.cfg.Rank, m.cfg.Size)
	if err != nil {
		conn.Close()
		return
	}
	p := m.peers[from]
	m.mu.Lock()
	answer := byte(answerOK)
	switch {
	case p.claimed && p.ended():
		answer = answerLost
	case p.claimed, p.dialing && m.cfg.Rank < from:
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

// adopt makes conn, whose handshake is done, the link to p and starts its reader. If the
// mesh has ended, it sends only the mesh's last frame on conn and closes it.
func (m *Mesh) adopt(p *peer, conn net.Conn) {
	l := &link{m: m, peer: p.rank, conn: conn, posts: make(chan *post), done: make(chan struct{})}
	m.mu.Lock()
	if m.life.Err() != nil {
		m.mu.Unlock()
		l.sendLast(m.last, time.Now().Add(byeTime))
		conn.Close()
		return
	}
	m.links = append(m.links, l)
	m.wg.Go(l.read)
	m.mu.Unlock()
	p.l = l
	close(p.ready)
}
