package handout

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/gorun/gorun/rendezvous/secret"
)

// Credentials seals texts so that only processes of the same user can open them.
type Credentials interface {
	Seal(ctx context.Context, text []byte) (credential string, err error)
	Open(ctx context.Context, credential string) (text []byte, err error)
}

// Options holds what a Party needs.
type Options struct {
	RunID string
	Env   []string // of gorun: HOME, XDG_STATE_HOME
	Given bool     // the user gave this node a secret
	// Find looks for munge. The error says why this node does not use it.
	Find func(context.Context) (Credentials, error)
	// Note receives a line for the user, and Refused why another node cannot join.
	// They must not block.
	Note    func(kind, text string)
	Refused func(why string)
}

// Party is one node's part in handing out the secret. Prepare must run beside its other
// methods.
type Party struct {
	opts     Options
	run      string // hash of the run id
	prepared chan struct{}

	// These fields are set before prepared is closed.
	credentials Credentials // nil: this node has no munge
	noMunge     error       // why credentials is nil
	folder      folder

	mu      sync.Mutex
	state   state
	refused map[string]bool // hosts that Options.Refused was called for

	slots  chan struct{} // has a token for each program that may run to answer requests
	joined chan struct{} // has a token when the file may be removed
}

// state is what a Party knows of the secret.
type state struct {
	way  way
	key  string
	file string // name of the file with the key; "": it was removed
	why  string // why there is no secret
}

// maxRefused bounds the hosts that Options.Refused is called for.
const maxRefused = 16

// maxSealing bounds the programs that run at a time to answer requests. Strangers may
// ask, too.
const maxSealing = 8

// New returns a node's part.
func New(o Options) *Party {
	p := &Party{
		opts: o, run: hashRun(o.RunID), prepared: make(chan struct{}), refused: map[string]bool{},
		slots: make(chan struct{}, maxSealing), joined: make(chan struct{}, 1),
	}
	if o.Given {
		p.state.way = byUser
	}
	return p
}

// Prepare finds out what this node can do. It must be called once.
func (p *Party) Prepare(ctx context.Context) {
	defer close(p.prepared)
	if p.opts.Given {
		return
	}
	p.folder = findFolder(p.opts.Env)
	p.credentials, p.noMunge = p.opts.Find(ctx)
}

// Make makes the secret, on the node that serves the first endpoint. Without a way to
// hand it out it returns no secret.
func (p *Party) Make(ctx context.Context) (secret.Secret, error) {
	if err := p.waitForPrepare(ctx); err != nil {
		return secret.Secret{}, err
	}
	s := state{key: randomText()}
	switch {
	case p.credentials != nil:
		s.way = byMunge
	case p.folder.shared:
		s.way = byFile
		var err error
		if s.file, err = p.folder.write(p.run, s.key); err != nil {
			s = state{way: byNobody, why: fmt.Sprintf("%v; %v", p.noMunge, err)}
		}
	default:
		s = state{way: byNobody, why: fmt.Sprintf("%v; the home folder is in no network file system", p.noMunge)}
	}
	return p.set(s)
}

// set sets the state and returns its secret.
func (p *Party) set(s state) (made secret.Secret, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	if s.key == "" {
		return made, nil
	}
	if made, err = secret.New([]byte(s.key)); err != nil {
		return made, fmt.Errorf("cannot use the job's secret: %w", err)
	}
	return made.For(p.opts.RunID), nil
}

func (p *Party) waitForPrepare(ctx context.Context) error {
	select {
	case <-p.prepared:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Source says where the secret comes from, or why there is none: "a munge credential".
func (p *Party) Source() (from, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state.way {
	case byMunge:
		return "a munge credential", ""
	case byFile:
		return "a file in " + p.folder.path, ""
	}
	return "", cmp.Or(p.state.why, "the nodes have not met")
}

// MarkJoined records that the nodes of a world have the secret, so that Serve removes the
// file with the key.
func (p *Party) MarkJoined() {
	select {
	case p.joined <- struct{}{}:
	default:
	}
}

// RemoveFile removes the file with the key. A later request makes another one.
func (p *Party) RemoveFile() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.file != "" {
		p.folder.remove(p.state.file)
		p.state.file = ""
	}
}

// path returns the file of a name, for messages.
func (p *Party) path(name string) string { return filepath.Join(p.folder.path, name) }
