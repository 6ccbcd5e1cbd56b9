package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// holder is an agent that reads the secret and then runs.
func holder(t *testing.T, c Config) (text string, stop func()) {
	t.Helper()
	c.Lost = func(error) {}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if text, err = e.Secret(ctx); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, func(rendezvous.Event) {}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return text, stop
}

// TestSecretIsShared checks that agents that come at the same time and later have one
// secret, that another run has another one, and that nothing of it stays in etcd after
// the last agent.
func TestSecretIsShared(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{TLS: true, ClientCert: true})
	with := func(i int, run string) Config {
		o := config(i, c.Endpoints()...)
		o.RunID, o.TLS = run, TLS{CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key}
		return o
	}
	const agents = 8
	texts, stops := make([]string, agents), make([]func(), agents)
	var wg sync.WaitGroup
	for i := range agents {
		wg.Go(func() { texts[i], stops[i] = holder(t, with(i, "run")) })
	}
	wg.Wait()
	if len(slices.Compact(slices.Clone(texts))) != 1 || len(texts[0]) < 16 {
		t.Fatalf("the agents have %q", texts)
	}
	for _, stop := range stops[1:] {
		stop()
	}
	if later, _ := holder(t, with(agents, "run")); later != texts[0] {
		t.Errorf("a later agent has %q, not %q", later, texts[0])
	}
	stops[0]()
	if again, stop := holder(t, with(0, "run")); again != texts[0] {
		t.Errorf("an agent that comes back has %q, not %q", again, texts[0])
	} else {
		stop()
	}
	if other, stop := holder(t, with(agents+1, "run2")); other == texts[0] {
		t.Error("two runs have one secret")
	} else {
		stop()
	}
	left, err := c.Keys("/gorun/run/secret")
	if err != nil || len(left) != 1 {
		t.Errorf("while an agent runs: keys %q, %v", left, err)
	}
	if left, err = c.Keys("/gorun/run2/"); err != nil || len(left) != 0 {
		t.Errorf("after the last agent: keys %q, %v", left, err)
	}
	// An agent that ends while it asks for a lease leaves one until its TTL.
	eventually(t, func() bool {
		leases, err := c.Client().Leases(t.Context())
		return err == nil && len(leases.Leases) <= 2 // of the agent that runs
	}, func() string { return "more leases are left than those of the agent that runs" })
}

// TestSecretAgainAfterItsLease checks that an agent that kept the secret gives it to
// later agents although etcd has ended the lease.
func TestSecretAgainAfterItsLease(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	e, err := New(config(1, c.Endpoints()...))
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.Secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.session.cl.Close()
	if err := e.revoke(t.Context(), e.secret.lease); err != nil {
		t.Fatal(err)
	}
	held, err := e.holdSecret(t.Context(), text)
	if err != nil || held.text != text {
		t.Errorf("%+v, %v", held, err)
	}
	if later, _ := holder(t, config(2, c.Endpoints()...)); later != text {
		t.Errorf("a later agent has %q, not %q", later, text)
	}
}

// TestBadSecretInEtcd checks that a key that is not gorun's ends the wait.
func TestBadSecretInEtcd(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	e, err := New(config(1, c.Endpoints()...))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"empty": "", "long": strings.Repeat("x", maxWord+1), "without a lease": strings.Repeat("x", 26)} {
		if _, err := c.Client().Put(t.Context(), e.keys.secret, value); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Secret(t.Context()); !IsFinal(err) || !strings.Contains(err.Error(), e.keys.secret) {
			t.Errorf("%s: %v", name, err)
		}
		e.session.cl.Close()
	}
	nobody, err := New(config(1, "127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := nobody.Secret(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without etcd: %v", err)
	}
}
