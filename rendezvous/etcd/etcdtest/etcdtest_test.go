package etcdtest

import (
	"context"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestClusterComesBack(t *testing.T) {
	c := Start(t, Options{Members: 3})
	put := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := c.Client().Put(ctx, key, "1")
		return err
	}
	until := func(want bool, key string) {
		t.Helper()
		var err error
		for end := time.Now().Add(limit); ; <-time.After(20 * time.Millisecond) {
			if err = put(key); (err == nil) == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("put %s: %v", key, err)
			}
		}
	}
	until(true, "/a")
	c.Kill(1)
	until(true, "/b")
	if err := c.Stop(2); err != nil {
		t.Fatal(err)
	}
	until(false, "/c")
	if err := c.Cont(2); err != nil {
		t.Fatal(err)
	}
	until(true, "/d")
	if err := c.Restart(1); err != nil {
		t.Fatal(err)
	}
	keys, err := c.Keys("/")
	for _, k := range []string{"/a", "/b", "/d"} {
		if err != nil || !slices.Contains(keys, k) {
			t.Errorf("%v (%v) lacks %s", keys, err, k)
		}
	}
}

func TestUserWithTLSBehindProxy(t *testing.T) {
	c := Start(t, Options{TLS: true, ClientCert: true, User: "u", Password: "p", Prefix: "/mine/"})
	p := NewProxy(t, c.Endpoints()[0])
	conf, err := c.TLS.config()
	if err != nil {
		t.Fatal(err)
	}
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{p.Addr()}, TLS: conf, Username: "u", Password: "p", DialTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	put := func(key string, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := cl.Put(ctx, key, "1")
		return err
	}
	if err := put("/mine/a", limit); err != nil {
		t.Error(err)
	}
	if err := put("/other", limit); err == nil {
		t.Error("the user may do everything")
	}
	p.Cut()
	if err := put("/mine/b", 300*time.Millisecond); err == nil {
		t.Error("a cut link carries")
	}
	p.Mend()
	if err := put("/mine/c", limit); err != nil {
		t.Error(err)
	}
	if keys, err := c.Keys("/mine"); err != nil || !slices.Contains(keys, "/mine/c") {
		t.Error(keys, err)
	}
}
