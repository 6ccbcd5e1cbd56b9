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

// trouble is why etcd cannot be used, in one line. Waiting does not solve a final
// trouble.
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

// IsFinal reports whether an error of Secret is one that only the user can correct.
func IsFinal(err error) bool {
	t, ok := errors.AsType[*trouble](err)
	return ok && t.final
}

// explain turns the error of a request into a text for the user.
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
		return final("etcd at %s requires a user: give a user and a password", e.at())
	case is(rpctypes.ErrPermissionDenied):
		client := fmt.Sprintf("user %q", e.cfg.User)
		if e.cfg.User == "" {
			client = "this client"
		}
		return final("etcd at %s does not let %s read and write keys below %s: grant that, or choose another prefix", e.at(), client, e.keys.all)
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

// connect opens the client and returns when an endpoint answers that is part of a
// cluster with a leader. Its error is final.
func (e *Etcd) connect(ctx context.Context) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		t := e.connectOnce(ctx)
		switch {
		case ctx.Err() != nil || t == nil:
			return nil
		case t.final:
			return t
		}
		e.postTrouble(t)
		pause(ctx, wait)
	}
}

// postTrouble posts why etcd does not answer. It replaces publish, which does not run
// yet.
func (e *Etcd) postTrouble(t *trouble) {
	e.setTrouble(t)
	if p, ok := e.peers(); ok {
		e.emit(p)
	}
}

// connectOnce tries all endpoints, and probes them when no answer comes at once. An
// etcd client takes long to report that an endpoint is useless, and does not report
// why.
func (e *Etcd) connectOnce(ctx context.Context) *trouble {
	var wg sync.WaitGroup
	defer wg.Wait()
	pctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan *trouble, 1)
	wg.Go(func() {
		if pause(pctx, 300*time.Millisecond) {
			found <- e.probeEndpoints(pctx)
		}
	})
	t := e.openClient(ctx)
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

// openClient opens the client, if an endpoint answers as it should.
func (e *Etcd) openClient(ctx context.Context) *trouble {
	cl, err := clientv3.New(e.client)
	if err != nil {
		return e.explain(err)
	}
	answers := make(chan endpointStatus, len(e.client.Endpoints))
	sctx, cancel := context.WithTimeout(ctx, callLimit)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, u := range e.client.Endpoints {
		wg.Go(func() { answers <- e.status(sctx, cl, u) })
	}
	var first endpointStatus
	var worst *trouble
	for range e.client.Endpoints {
		a := <-answers
		switch {
		case a.trouble != nil:
			if worst == nil || a.trouble.final {
				worst = a.trouble
			}
		case first.cluster == 0:
			first = a
			time.AfterFunc(250*time.Millisecond, cancel) // the other answers only serve to compare clusters
		case a.cluster != first.cluster:
			cl.Close()
			return final("%s and %s are two etcd clusters: name one", hostOf(first.url), hostOf(a.url))
		}
	}
	if first.cluster == 0 {
		cl.Close()
		return worst
	}
	e.session.cl = cl
	e.session.cluster.Store(first.cluster)
	return nil
}

// endpointStatus is how an endpoint answers.
type endpointStatus struct {
	url     string
	cluster uint64
	trouble *trouble
}

// status asks one endpoint for its status.
func (e *Etcd) status(ctx context.Context, cl *clientv3.Client, url string) endpointStatus {
	st, err := cl.Status(ctx, url)
	a := endpointStatus{url: url}
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
