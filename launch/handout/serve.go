package handout

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// callTimeout bounds one request with its answer.
const callTimeout = 15 * time.Second

// Serve answers requests until ctx ends or l is closed. It removes the file with the key
// when it is not needed.
func (p *Party) Serve(ctx context.Context, l net.Listener) error {
	defer p.RemoveFile()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	wg.Go(func() {
		for {
			select {
			case <-p.joined:
				p.RemoveFile()
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("cannot accept on %s: %w", l.Addr(), err)
		}
		wg.Go(func() {
			defer c.Close()
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })()
			text, err := readLine(c, maxRequest)
			if err != nil {
				return
			}
			r, err := decodeRequest(text)
			if err != nil {
				return
			}
			_, _ = c.Write(p.answer(ctx, r, c.RemoteAddr()).encode())
		})
	}
}

// answer answers a request.
func (p *Party) answer(ctx context.Context, r request, from net.Addr) answer {
	if r.Run != p.run {
		return answer{Way: ofOtherRun}
	}
	p.mu.Lock()
	s := p.state
	p.mu.Unlock()
	a := answer{Way: s.way, Why: s.why}
	switch s.way {
	case byUser:
		p.refuse(from, "this job's secret is the user's, which that node did not get; give every node the same --secret-file (or GORUN_SECRET)")
	case byMunge:
		if !r.Munge {
			p.refuse(from, "this job's secret is handed out by munge, which that node cannot use; give every node munge, or the same --secret-file")
			break
		}
		credential, err := p.seal(ctx, sealed{purpose, p.run, r.Nonce, s.key})
		if err != nil {
			p.opts.Note("seal", fmt.Sprintf("cannot hand out this job's secret: %v", err))
			a.Why = err.Error()
		}
		a.Credential = credential
	case byFile:
		name, err := p.keepFile()
		if err != nil {
			return answer{Way: byNobody, Why: err.Error()}
		}
		a.File = name
	case byNobody:
		if r.Munge {
			p.refuse(from, fmt.Sprintf("munge works on that node and not on this one (%s); give every node munge, or the same --secret-file", s.why))
		}
	}
	return a
}

// refuse reports once that the node at an address cannot join.
func (p *Party) refuse(from net.Addr, why string) {
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		host = from.String()
	}
	p.mu.Lock()
	known := p.refused[host] || len(p.refused) == maxRefused
	if !known {
		p.refused[host] = true
	}
	p.mu.Unlock()
	if !known {
		p.opts.Refused(fmt.Sprintf("%s has no secret of this job: %s", host, why))
	}
}

// seal makes a credential, with few others at a time.
func (p *Party) seal(ctx context.Context, s sealed) (string, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return p.credentials.Seal(ctx, line(s))
}

// keepFile returns the name of the file with the key. It makes the file again if it was
// removed.
func (p *Party) keepFile() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.file != "" {
		return p.state.file, nil
	}
	name, err := p.folder.write(p.run, p.state.key)
	if err == nil {
		p.state.file = name
	}
	return name, err
}

// readLine reads a line of at most most bytes and returns it without its end.
func readLine(r io.Reader, most int) ([]byte, error) {
	text, err := bufio.NewReaderSize(io.LimitReader(r, int64(most)), 512).ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return text[:len(text)-1], nil
}
