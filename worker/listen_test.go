package worker

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
)

// TestRanksListenInTheirRange starts as many ranks as there are ports. One more gets none,
// and an error that says so.
func TestRanksListenInTheirRange(t *testing.T) {
	const size = 4
	lo := porttest.Row(t, "127.0.0.1", size)
	listen := Listen{Addr: "127.0.0.1", Ports: fmt.Sprintf("%d-%d", lo, lo+size-1)}
	addr := serveStore(t)
	seen := map[int]bool{}
	for r := range size + 1 {
		w := start(t, Settings{Rank: r, Size: size + 1, Store: addr, Token: "t", Listen: listen})
		_, err := w.Comm(t.Context())
		if r == size {
			if err == nil || !strings.Contains(err.Error(), listen.Ports) || !strings.Contains(err.Error(), "--port-range") {
				t.Errorf("one rank too many: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := w.directory().Lookup(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		port := int(netip.MustParseAddrPort(text).Port())
		if port < lo || port >= lo+size || seen[port] {
			t.Errorf("rank %d listens at %s, outside %s, or as another rank", r, text, listen.Ports)
		}
		seen[port] = true
	}
}
