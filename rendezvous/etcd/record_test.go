package etcd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestUnreadableWorldIsNotSealed checks that an agent does not write a world that others
// could not read, and that Run says what to do.
func TestUnreadableWorldIsNotSealed(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	for name, tt := range map[string]struct {
		edit func(*rendezvous.World)
		want string
	}{
		"too many nodes": {func(w *rendezvous.World) {
			for i := range maxRound / 20 {
				w.Members = append(w.Members, rendezvous.Member{ID: rendezvous.NodeID(fmt.Sprintf("node%06d", i)), Control: "127.0.0.1:1"})
			}
		}, "use fewer nodes"},
		"a forged round": {func(w *rendezvous.World) { w.Round = maxCount + 1 }, "which no job reaches: delete it"},
		"a forged term":  {func(w *rendezvous.World) { w.Term = maxCount + 1 }, "which no job reaches: delete it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, config(1, c.Endpoints()...))
			meet(t, r)
			r.e.Lead()
			w := world("j", 0, r)
			tt.edit(&w)
			if s := answer(t, r.seal(t.Context(), rendezvous.Seal{Serial: 1, World: w})); s.OK || !strings.Contains(s.Text, tt.want) {
				t.Errorf("%+v", s)
			}
			select {
			case err := <-r.done:
				r.done <- nil
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v", err)
				}
			case <-time.After(patience):
				t.Error("Run does not end")
			}
			if has(t, c, r.e.keys.round) {
				t.Error("it was written")
			}
		})
	}
}

func TestRequestTooLargeIsFinal(t *testing.T) {
	e, err := New(config(1, "a:1"))
	if err != nil {
		t.Fatal(err)
	}
	if got := e.explain(rpctypes.ErrGRPCRequestTooLarge); !got.final || !strings.Contains(got.text, "--max-request-bytes") {
		t.Errorf("%+v", got)
	}
}
