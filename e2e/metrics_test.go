package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
)

// TestMetricsAddr checks what a cluster sees of an agent that waits, whose workers run, and
// whose job was started again.
func TestMetricsAddr(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1")
	at := fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, ""))
	get := func(path string) (code int, body string) {
		r, err := http.Get("http://" + at + path)
		if err != nil {
			return 0, err.Error()
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.StatusCode, string(b)
	}
	is := func(path string, code int, text string) func() bool {
		return func() bool {
			got, body := get(path)
			return got == code && strings.Contains(body, text)
		}
	}
	program := sh(`echo up; while [ ! -e $E2E_DIR/go$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.05; done; exit $(( $TORCHELASTIC_RESTART_COUNT == 0 ))`)
	first := j.node(1, "2", with(program, "--metrics-addr", at)...)
	eventually(t, longWait, "it lives", is("/healthz", 200, "forming\n"))
	if code, body := get("/readyz"); code != 503 || body != "forming\n" {
		t.Errorf("it is not ready, but: %d %s", code, body)
	}
	second := j.node(2, "2", program...)
	eventually(t, longWait, "it is ready", is("/readyz", 200, "running\n"))
	eventually(t, longWait, "its metrics", is("/metrics", 200, "\ngorun_world_size 2\n"))
	if err := os.WriteFile(filepath.Join(j.dir, "go0"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, longWait, "a restart", is("/metrics", 200, "\ngorun_restarts 1\n"))
	if err := os.WriteFile(filepath.Join(j.dir, "go1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.wantExit(longWait, 0, first, second)
}

func TestMetricsAddrTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	j := newJob(t, "--metrics-addr", l.Addr().String())
	a := j.run("taken", sh("true")...)
	j.wantExit(longWait, 2, a)
	if want := "cannot open --metrics-addr " + l.Addr().String(); !strings.Contains(a.err.String(), want) {
		t.Errorf("no %q", want)
	}
}
