package rules

import (
	"fmt"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

// BenchmarkCompare applies all rules to large fleets: healthy fleets, and
// fleets in which something differs on every tenth node.
func BenchmarkCompare(b *testing.B) {
	for _, nodes := range []int{1000, 10_000} {
		for _, faulty := range []bool{false, true} {
			f := preflighttest.H100s(nodes)
			name := fmt.Sprintf("nodes=%d/healthy", nodes)
			if faulty {
				name = fmt.Sprintf("nodes=%d/faulty", nodes)
				for i := 0; i < nodes; i += 10 {
					n := &f.Nodes[i]
					nccl(n, "2.19.3", 21903)
					preflighttest.Set(n, "NCCL_PROTO", "LL")
					preflighttest.Set(n, "NCCL_SOCKET_IFNAMES", fmt.Sprint("eth", i))
					eth0(n).MTU = 1500
					address(n, "eth0", fmt.Sprintf("10.%d.0.1", i/10%250+1), 24)
					n.RDMA.Devices[0].Ports[0].State = "DOWN"
				}
			}
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					found := preflight.Compare(f, All(), preflight.Options{})
					if faulty == (preflight.Worst(found) != preflight.Error) {
						b.Fatalf("worst %q, faulty %v", preflight.Worst(found), faulty)
					}
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	text, err := preflight.Encode(preflighttest.H100s(1).Nodes[0])
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := preflight.Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}
