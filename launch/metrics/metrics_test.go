package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve serves a state, nil for an agent that does not answer, and returns the URL.
func serve(t *testing.T, state *State) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Ask: func(context.Context) (State, bool) {
		if state == nil {
			return State{}, false
		}
		return *state, true
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func TestAnswers(t *testing.T) {
	running := &State{Phase: "running", Ready: true, Round: 2, Restarts: 1, WorldSize: 8, Nodes: 2}
	forming := &State{Phase: "forming", Round: -1}
	for _, tt := range []struct {
		name, method, path string
		state              *State
		code               int
		body               string
	}{
		{"healthy", "GET", "/healthz", running, 200, "running\n"},
		{"healthy while it waits", "GET", "/healthz", forming, 200, "forming\n"},
		{"the loop hangs", "GET", "/healthz", nil, 503, "the agent does not answer\n"},
		{"ready", "GET", "/readyz", running, 200, "running\n"},
		{"not ready", "GET", "/readyz", forming, 503, "forming\n"},
		{"not ready, either", "GET", "/readyz", nil, 503, "the agent does not answer\n"},
		{"no metrics", "GET", "/metrics", nil, 503, "the agent does not answer\n"},
		{"nothing else", "GET", "/", running, 404, ""},
		{"no effects", "POST", "/healthz", running, 405, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), tt.method, serve(t, tt.state)+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			body, err := io.ReadAll(got.Body)
			if err != nil || got.StatusCode != tt.code || tt.body != "" && string(body) != tt.body || !got.Close {
				t.Errorf("%d %q (%v), closed: %v", got.StatusCode, body, err, got.Close)
			}
		})
	}
}

// TestText compares the metrics with a golden file.
func TestText(t *testing.T) {
	got := Text(State{Phase: "running", Ready: true, Round: 2, Restarts: 1, WorldSize: 8, Nodes: 2})
	want, err := os.ReadFile(filepath.Join("testdata", "metrics.txt"))
	if err != nil || got != string(want) {
		t.Errorf("%v: got\n%s", err, got)
	}
	if none := Text(State{Phase: "forming", Round: -1}); !strings.Contains(none, "gorun_round -1\n") || !strings.Contains(none, `gorun_phase{phase="forming"} 1`) {
		t.Error(none)
	}
}

// TestBounds checks that a client that sends nothing, or no end, is cut off.
func TestBounds(t *testing.T) {
	at := strings.TrimPrefix(serve(t, &State{Phase: "running"}), "http://")
	for name, text := range map[string]string{"nothing": "", "a long header": "GET /healthz HTTP/1.1\r\nA: " + strings.Repeat("a", 64<<10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(c, text)
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
		})
	}
}
