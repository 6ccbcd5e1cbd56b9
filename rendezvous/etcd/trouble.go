package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// trouble is why etcd cannot be used, in one line. A final one does not pass
// by itself.
type trouble struct {
	text  string
	final bool
}

func (t *trouble) Error() string { return t.text }

func final(format string, args ...any) *trouble {
	return &trouble{fmt.Sprintf(format, args...), true}
}

func passing(format string, args ...any) *trouble {
	return &trouble{fmt.Sprintf(format, args...), false}
}

// explain says what an error of a request means.
func (e *Etcd) explain(err error) *trouble {
	if t, ok := errors.AsType[*trouble](err); ok {
		return t
	}
	err = rpctypes.Error(err)
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(rpctypes.ErrAuthFailed):
		return final("etcd at %s refuses user %q: the user or the password is wrong", e.at(), e.cfg.User)
	case is(rpctypes.ErrUserEmpty) && e.cfg.User == "":
		return final("etcd at %s lets only known users in: give a user and a password", e.at())
	case is(rpctypes.ErrPermissionDenied):
		who := fmt.Sprintf("user %q", e.cfg.User)
		if e.cfg.User == "" {
			who = "this client"
		}
		return final("etcd at %s does not let %s read and write keys below %s: grant that, or choose another prefix", e.at(), who, e.keys.all)
	case is(rpctypes.ErrRequestTooLarge):
		return final("etcd at %s does not take a record of this many nodes: raise its --max-request-bytes, or use fewer nodes or --rdzv-backend gossip", e.at())
	case is(rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrNotLeader):
		return passing("etcd at %s has no leader: more than half of its members must run and reach each other", e.at())
	case is(rpctypes.ErrNoSpace):
		return passing("etcd at %s is full and takes no new keys (alarm NOSPACE): compact and defragment it", e.at())
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded, is(rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToConnectionLost):
		return passing("etcd at %s does not answer within %v", e.at(), callLimit)
	}
	return passing("etcd at %s: %s", e.at(), plain(err))
}

// plain returns an error without the words that gRPC puts around it, on one line.
func plain(err error) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	if i := strings.LastIndex(text, "Error while dialing: "); i >= 0 {
		text = strings.TrimSuffix(text[i+len("Error while dialing: "):], `"`)
	}
	return clip(text)
}

// connect opens the client and returns when an endpoint answers that is part of
// a cluster with a leader. Its error is final.
func (e *Etcd) connect(ctx context.Context) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		t := e.greet(ctx)
		switch {
		case ctx.Err() != nil || t == nil:
			return nil
		case t.final:
			return t
		}
		e.hint(t)
		pause(ctx, wait)
	}
}

// hint shows the user why etcd does not answer, before anything else runs.
func (e *Etcd) hint(t *trouble) {
	e.report(t)
	if p, ok := e.peers(); ok {
		e.emit(p)
	}
}

// greet tries all endpoints, and looks for the reason when the answer is late. A
// client of etcd takes long to say that an endpoint is of no use, and does not say
// why.
func (e *Etcd) greet(ctx context.Context) *trouble {
	var wg sync.WaitGroup
	defer wg.Wait()
	pctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan *trouble, 1)
	wg.Go(func() {
		if pause(pctx, 300*time.Millisecond) {
			found <- e.examine(pctx)
		}
	})
	t := e.ask(ctx)
	if t == nil || t.final {
		return t
	}
	select {
	case <-ctx.Done():
		return t
	case better := <-found:
		return cmp.Or(better, t)
	}
}

// ask opens the client, if an endpoint answers as it should.
func (e *Etcd) ask(ctx context.Context) *trouble {
	conf := e.client
	cl, err := clientv3.New(conf)
	if err != nil {
		return e.explain(err)
	}
	answers := make(chan greeting, len(conf.Endpoints))
	sctx, cancel := context.WithTimeout(ctx, callLimit)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	granted := make(chan early, 1)
	wg.Go(func() {
		sent := e.cfg.Clock()
		id, _ := e.grant(sctx, cl, e.cfg.TTL) // register asks again
		granted <- early{id, sent}
	})
	for _, u := range conf.Endpoints {
		wg.Go(func() { answers <- e.status(sctx, cl, u) })
	}
	var first greeting
	var worst *trouble
	for range conf.Endpoints {
		a := <-answers
		switch {
		case a.trouble != nil:
			if worst == nil || a.trouble.final {
				worst = a.trouble
			}
		case first.cluster == 0:
			first = a
			time.AfterFunc(250*time.Millisecond, cancel) // the others' answers are only compared with it
		case a.cluster != first.cluster:
			cl.Close()
			return final("%s and %s are two etcd clusters: name one", hostOf(first.url), hostOf(a.url))
		}
	}
	if first.cluster == 0 {
		cl.Close()
		return worst
	}
	e.session.cl, e.session.early = cl, <-granted
	e.session.cluster.Store(first.cluster)
	return nil
}

// greeting is what an endpoint reports of itself.
type greeting struct {
	url     string
	cluster uint64
	trouble *trouble
}

// status asks one endpoint for its greeting.
func (e *Etcd) status(ctx context.Context, cl *clientv3.Client, url string) greeting {
	st, err := cl.Status(ctx, url)
	a := greeting{url: url}
	switch {
	case err != nil:
		a.trouble = e.explain(err)
	case old(st.Version):
		a.trouble = final("etcd at %s is version %s; gorun needs 3.4 or newer", hostOf(url), clip(st.Version))
	case st.Leader == 0:
		a.trouble = e.explain(rpctypes.ErrNoLeader)
	case st.Header.GetClusterId() == 0:
		a.trouble = final("%s is not etcd: it names no cluster", hostOf(url))
	default:
		a.cluster = st.Header.ClusterId
	}
	return a
}

// old reports whether a version is below 3.4. A text that is not a version is not
// old.
func old(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 3 || major == 3 && minor < 4)
}
