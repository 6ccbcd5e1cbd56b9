package launch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// started runs a program as the only worker of a world, to its end.
func started(t *testing.T, env []string, argv ...string) *workers {
	t.Helper()
	table, err := process.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	console, err := logs.NewConsole(os.Stdout, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := openSocket(ctx, nil, filepath.Join(t.TempDir(), "s"), func(int, int, string) {})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := logs.NewDir(t.TempDir(), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	cfg := workersConfig{
		table: table, console: console, folders: newFolders(dir, true, 1), wd: "/", socket: s, post: func(rendezvous.Event) {},
		program: program.Program{Path: argv[0], Argv: func(int) []string { return argv }},
	}
	cfg.folders.ahead()
	w := newWorkers(cfg, rendezvous.World{
		Size: 1, Store: "127.0.0.1:1", Token: "t", Members: []rendezvous.Member{{Workers: 1}},
	}, 0)
	w.env = envprop.NewBase(env)
	w.start()
	w.wg.Wait()
	w.close()
	return w
}

// What the workers got is told later, too, when the nccl.conf is another one; and
// no credential of their command line or environment.
func TestPreviewOfStartedWorkers(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "nccl.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("NCCL_PROTO=LL\n")
	w := started(t, []string{"NCCL_CONF_FILE=" + conf, "DB=Password=hush"}, "/usr/bin/env", "WANDB_API_KEY=hush", "/bin/true", "--hub-token", "hush")
	write("NCCL_PROTO=Simple\n")
	n := w.preview(func(int) string { return "" })
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"name":"NCCL_PROTO","value":"LL"`) {
		t.Errorf("it is not what the workers found: %s", text)
	}
	if strings.Contains(string(text), "hush") {
		t.Errorf("a credential is shown: %s", text)
	}
	var b strings.Builder
	if err := preview.WritePlan(&b, n); err != nil || !strings.Contains(b.String(), "env 'WANDB_API_KEY=(hidden)' /bin/true --hub-token '(hidden)'") {
		t.Errorf("%v: %s", err, b.String())
	}
}
