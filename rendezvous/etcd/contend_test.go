package etcd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// TestKeyThatBlocksTheFirstWorldIsNamed checks that an agent names a key that prevents
// the first world, and that it forms the world once the key is deleted.
func TestKeyThatBlocksTheFirstWorldIsNamed(t *testing.T) {
	many := round{Job: "j", Sealer: "x", Control: "127.0.0.1:1"}
	for i := range maxProbed + 1 {
		many.Members = append(many.Members, member{rendezvous.NodeID(fmt.Sprint(i)), fmt.Sprintf("127.0.0.1:%d", i+1)})
	}
	for name, tt := range map[string]struct{ key, value, want string }{
		"no coordinator":     {"coordinator", "garbage", "was not written by this gorun: delete it"},
		"absent coordinator": {"coordinator", encode(agent{ID: "x", Name: "nodex", Control: "127.0.0.1:1"}), "names nodex (127.0.0.1:1), which is not there: delete"},
		"no round":           {"round", "garbage", "was not written by this gorun: delete it"},
		"no address":         {"round", (&round{Job: "j", Sealer: "x", Control: "c", Members: []member{{"x", "/etc/passwd:1"}}}).encode(), "was not written by this gorun"},
		"many addresses":     {"round", many.encode(), "too many to probe"},
	} {
		t.Run(name, func(t *testing.T) {
			c := etcdtest.Start(t, etcdtest.Options{})
			conf := config(1, c.Endpoints()...)
			key := newKeys("/gorun", conf.RunID, conf.ID).job + tt.key
			if _, err := c.Client().Put(t.Context(), key, tt.value); err != nil {
				t.Fatal(err)
			}
			r := start(t, conf)
			eventually(t, func() bool {
				text := latest[rendezvous.Peers](r).Trouble
				return strings.Contains(text, tt.want) && strings.Contains(text, key)
			}, func() string { return "it says: " + latest[rendezvous.Peers](r).Trouble })
			if _, err := c.Client().Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			meet(t, r)
			eventually(t, func() bool { return latest[rendezvous.Peers](r).Trouble == "" }, func() string { return "still in trouble" })
		})
	}
}

func TestIsControlAddress(t *testing.T) {
	for addr, want := range map[string]bool{
		"10.0.0.1:80": true, "[::1]:80": true, "[fe80::1%eth0]:80": true, "node-1.example_x:65535": true,
		"": false, "a": false, "a:0": false, "a:65536": false, "a:http": false, ":80": false, "a/b:80": false, "é:80": false, "[x:y]:80": false, "a b:80": false,
	} {
		if isControlAddress(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
}
