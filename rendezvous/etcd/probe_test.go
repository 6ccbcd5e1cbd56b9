package etcd

import (
	"bufio"
	"net"
	"strings"
	"testing"
)

// TestProbeOfHostileServer checks that no bytes of a server reach the terminal as more
// than text, or pass for a TLS alert.
func TestProbeOfHostileServer(t *testing.T) {
	for name, tt := range map[string]struct{ scheme, answer, want string }{
		"an alert in a header":    {"http", "HTTP/1.1 200 OK\r\n(remote error: tls: boo\r\n\r\n", "is not etcd"},
		"an alert as the status":  {"http", "remote error: tls: bad certificate\r\n\r\n", "is not etcd"},
		"an alert instead of TLS": {"https", "remote error: tls: bad certificate\r\n\r\n", "is not etcd"},
		"control characters":      {"http", "HTTP/1.1 404 \x1b[2J\r\n\r\n", "is not etcd"},
		"nothing":                 {"http", "", "cannot reach etcd"},
		"an old etcd":             {"http", "HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"3.3.1\x1b\"}", "is not etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = bufio.NewReader(c).ReadByte()
					_, _ = c.Write([]byte(tt.answer))
					c.Close()
				}
			}()
			url := tt.scheme + "://" + l.Addr().String()
			e, err := New(config(1, url))
			if err != nil {
				t.Fatal(err)
			}
			got := e.probeEndpoint(t.Context(), url)
			if got == nil || !strings.Contains(got.text, tt.want) || !clean(got.text) {
				t.Errorf("%v, want %q", got, tt.want)
			}
		})
	}
}
