package handout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/gorun/gorun/rendezvous/secret"
)

const (
	dialTimeout = 3 * time.Second
	maxPause    = time.Second     // between two requests
	firstNote   = 3 * time.Second // before the user learns what the node waits for
	// fileTimeout bounds the wait for a file that the other node has made. A network
	// file system shows it within seconds.
	fileTimeout = 15 * time.Second
)

// Refused is the error of a node that cannot get the job's secret.
type Refused struct {
	Text     string
	OtherJob bool // another job or another user's program has the endpoint
}

func (r *Refused) Error() string { return r.Text }

// Ask gets the secret from the node that serves the first endpoint. While that node is
// not there Ask asks again, and asks the nodes of the other endpoints, which may have
// the secret already. It skips the endpoint that this node serves itself. The error is a
// *Refused, unless ctx ends.
func (p *Party) Ask(ctx context.Context, endpoints []string, own int) (secret.Secret, error) {
	if err := p.waitForPrepare(ctx); err != nil {
		return secret.Secret{}, err
	}
	nextNote, notePause, noFileSince := time.Now().Add(firstNote), firstNote, time.Time{}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, maxPause) {
		var first error
		for i, at := range endpoints {
			if i == own {
				continue
			}
			s, err := p.askAt(ctx, at)
			if err == nil {
				return p.set(s)
			}
			refused, final := errors.AsType[*Refused](err)
			if final && i == 0 {
				return secret.Secret{}, err
			}
			if final {
				p.opts.Note("refused "+at, refused.Text)
			}
			if first == nil {
				first = err
			}
		}
		if missing, ok := errors.AsType[*noFile](first); !ok {
			noFileSince = time.Time{}
		} else if noFileSince.IsZero() {
			noFileSince = time.Now()
		} else if time.Since(noFileSince) > fileTimeout {
			return secret.Secret{}, missing.refused()
		}
		if time.Now().After(nextNote) {
			p.opts.Note("ask", fmt.Sprintf("waiting for this job's secret from the first node: %v", first))
			notePause *= 2
			nextNote = time.Now().Add(notePause)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return secret.Secret{}, fmt.Errorf("cannot get this job's secret: %w", errors.Join(first, ctx.Err()))
		}
	}
}

// noFile is the error of a node that cannot read the file with the key yet.
type noFile struct {
	at, path string
	err      error
}

func (n *noFile) Error() string {
	return fmt.Sprintf("%s keeps it in %s: %v", n.at, n.path, n.err)
}

func (n *noFile) refused() *Refused {
	return &Refused{Text: fmt.Sprintf("cannot get this job's secret: %v; is the home folder the same on all nodes? Give every node the same --secret-file", n)}
}

// askAt asks the node at an endpoint. The error is a *Refused if asking again cannot
// help.
func (p *Party) askAt(ctx context.Context, at string) (state, error) {
	r := request{Run: p.run, Nonce: randomText(), Munge: p.credentials != nil}
	a, err := call(ctx, at, r)
	if err != nil {
		return state{}, fmt.Errorf("%s: %w", at, err)
	}
	refuse := func(otherJob bool, format string, args ...any) error {
		return &Refused{fmt.Sprintf("cannot get this job's secret from %s: %s", at, fmt.Sprintf(format, args...)), otherJob}
	}
	switch a.Way {
	case ofOtherRun:
		return state{}, refuse(true, "a gorun of another run answers there")
	case byUser:
		return state{}, refuse(false, "the user gave it to that node and not to this one; give every node the same --secret-file (or GORUN_SECRET)")
	case byMunge:
		return p.openAnswer(ctx, a, r, refuse)
	}
	if r.Munge {
		return state{}, refuse(false, "munge works on this node and not on that one (%s); give every node munge, or the same --secret-file", a.Why)
	}
	if a.Way == byNobody && p.folder.shared { // another program may have taken that node's port
		return state{}, refuse(false, "it hands out none (%s), though this node's home folder is in a network file system; give every node the same --secret-file", a.Why)
	}
	if a.Way == byNobody {
		return state{way: byNobody, why: a.Why}, nil
	}
	key, err := p.folder.read(a.File, p.run)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{}, &noFile{at, p.path(a.File), err}
	case err != nil:
		return state{}, refuse(false, "it keeps it in %s, which this node cannot use: %v; give every node the same --secret-file", p.path(a.File), err)
	}
	return state{way: byFile, key: key, file: ""}, nil
}

// openAnswer opens the credential of an answer.
func (p *Party) openAnswer(ctx context.Context, a answer, r request, refuse func(bool, string, ...any) error) (state, error) {
	switch {
	case !r.Munge:
		return state{}, refuse(false, "that node hands it out by munge, which this node cannot use (%v); give every node munge, or the same --secret-file", p.noMunge)
	case a.Credential == "":
		return state{}, fmt.Errorf("that node has no credential: %s", a.Why)
	}
	text, err := p.credentials.Open(ctx, a.Credential)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) { // munged is busy
		return state{}, err
	}
	if err != nil {
		return state{}, refuse(true, "munge refuses its credential: %v", err)
	}
	key, err := openSealed(text, r)
	if err != nil {
		return state{}, refuse(true, "%v", err)
	}
	return state{way: byMunge, key: key}, nil
}

// call sends a request to an endpoint and returns the answer.
func call(ctx context.Context, at string, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", at)
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })()
	if _, err := c.Write(r.encode()); err != nil {
		return answer{}, err
	}
	text, err := readLine(c, maxAnswer)
	if err != nil {
		return answer{}, fmt.Errorf("%w (%w)", errNoGorun, err)
	}
	return decodeAnswer(text)
}
