package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
)

var (
	fuzzKey   = Options{Key: "job 1"}.key()
	fuzzHello = hello{id: "a", size: 100}
)

// FuzzHello checks that only the hello of an agent of the job is accepted.
func FuzzHello(f *testing.F) {
	f.Add(fuzzHello.encode(fuzzKey))
	f.Add(hello{}.encode(fuzzKey))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readHello(bytes.NewReader(data), fuzzKey)
		if err == nil && !bytes.HasPrefix(data, h.encode(fuzzKey)) {
			t.Errorf("%+v is not what was read", h)
		}
	})
}

// FuzzReply checks the other direction as FuzzHello does. The parser behind the
// mac can be reached without the seed's mac.
func FuzzReply(f *testing.F) {
	var nonce [nonceSize]byte
	f.Add(rawReply(fuzzKey, nonce, "b", "10.0.0.1"))
	f.Add(rawReply(fuzzKey, nonce, "b", "fe80::1%eth0"))
	f.Add(rawReply(fuzzKey, nonce, "", "x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(data []byte) {
			r, err := readReply(bytes.NewReader(data), fuzzKey, nonce)
			if err == nil && (!r.seen.IsValid() || len(r.id) > maxID) {
				t.Errorf("%+v", r)
			}
		}
		check(data)
		check(append(data, mac(fuzzKey, nonce[:], data)...))
	})
}

// FuzzServer checks that the server ends a connection that sends arbitrary
// bytes.
func FuzzServer(f *testing.F) {
	f.Add(fuzzHello.encode(fuzzKey))
	f.Add(append(fuzzHello.encode(fuzzKey), make([]byte, 100)...))
	f.Add(append(fuzzHello.encode(fuzzKey), make([]byte, 99)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _ := Listen(Options{Key: "job 1", ID: "b", Exchange: testTimeout}, nil, Ports{})
		runPeer(t, data, func(ctx context.Context, c net.Conn) { s.answer(ctx, c) })
	})
}

// FuzzClient checks that the client classifies a server's arbitrary bytes, and
// never takes that server for a node of the job.
func FuzzClient(f *testing.F) {
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(rawReply(fuzzKey, [nonceSize]byte{}, "b", "10.0.0.1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := client{options: Options{Key: "job 1", ID: "a"}, key: fuzzKey, zeros: make([]byte, payload)}
		runPeer(t, data, func(ctx context.Context, conn net.Conn) {
			dial := func(context.Context, string, time.Time) (net.Conn, error) { return conn, nil }
			var r preflight.Probe
			c.try(ctx, Target{ID: "b", Large: true}, time.Now(), dial, &r)
			switch r.Result {
			case preflight.OK, preflight.OtherSource, preflight.Stalled, "":
				t.Errorf("%q of %q", r.Result, data)
			}
		})
	})
}

// runPeer runs one side of a connection whose other side sends data and leaves.
func runPeer(t *testing.T, data []byte, side func(context.Context, net.Conn)) {
	here, there := net.Pipe()
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(io.Discard, here) }()
	go func() {
		_ = here.SetWriteDeadline(time.Now().Add(testTimeout))
		_, _ = here.Write(data)
		here.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	side(ctx, there)
	there.Close()
	if ctx.Err() != nil {
		t.Fatal("hangs")
	}
	<-read
}

// FuzzPlan checks that an accepted plan stays within its bounds, and is the
// same after it was sent on.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"node":0,"targets":[{"to":1,"id":"b","use":"data","iface":"eth0","source":"10.0.0.1","target":"10.0.0.2:7","large":true}]}`))
	f.Add([]byte(`{"targets":[{"to":1,"use":"gloo","source":"fe80::1%eth0","target":"[fe80::2%eth0]:7"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			return
		}
		if len(p.Targets) > MaxTargets || p.validate() != nil {
			t.Fatalf("%+v", p)
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := Decode(again); err != nil || len(q.Targets) != len(p.Targets) || q.Node != p.Node {
			t.Errorf("%s: %v", again, err)
		}
	})
}

// FuzzReport checks that only results of the plan's targets are accepted.
func FuzzReport(f *testing.F) {
	p := Plan{Node: 4, Targets: []Target{{To: 1, ID: "b", Use: preflight.UseData, Iface: "eth0", Source: "10.0.0.1", Target: "10.0.0.2:7"}}}
	f.Add([]byte(`[{"from":4,"to":1,"use":"data","iface":"eth0","source":"10.0.0.1","target":"10.0.0.2:7","result":"ok","took_ms":1}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := DecodeReport(data, p)
		if err != nil {
			return
		}
		for _, r := range got {
			if !p.Targets[0].matches(4, r) || printable(r.Text) != r.Text {
				t.Errorf("%+v", r)
			}
		}
	})
}

// FuzzPlans checks that plans are valid, whatever the nodes publish.
func FuzzPlans(f *testing.F) {
	f.Add([]byte(`[{"format":1,"listeners":[{"iface":"e","addr":"10.0.0.1","port":1,"use":"data"}]},{"format":1,"listeners":[{"iface":"e","addr":"10.0.0.2","port":1,"use":"data"}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var nodes []preflight.Facts
		if json.Unmarshal(data, &nodes) != nil || len(nodes) > 200 {
			return
		}
		for i, p := range Plans(&preflight.Fleet{Nodes: nodes}) {
			sent, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if q, err := Decode(sent); err != nil || q.Node != i || len(p.Targets) > 0 && !reflect.DeepEqual(p, q) {
				t.Errorf("%s: %v", sent, err)
			}
		}
	})
}
