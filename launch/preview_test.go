package launch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/preview"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/rendezvous"
)

// TestPreviewOfStartedWorkers checks that a preview shows what the workers got,
// even after nccl.conf has changed, and no credential of their command line or
// environment.
func TestPreviewOfStartedWorkers(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "nccl.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("NCCL_PROTO=LL\n")
	argv := []string{"/usr/bin/env", "WANDB_API_KEY=hush", "/bin/true", "--hub-token", "hush"}
	folders, err := logs.NewFolders(logs.FolderOptions{Base: t.TempDir(), RunID: "test", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := &base{opts: Options{Dir: "/", Env: []string{"NCCL_CONF_FILE=" + conf, "DB=Password=hush"}}}
	sup := &supervisor{base: b, output: logs.Output{Folders: folders}, placement: place.NewPlacement(place.Config{}), socket: socket.NewUnreachable(), store: &meet.Store{}}
	env := environment{base: b}
	start := rendezvous.Start{World: rendezvous.World{
		Size: 1, Store: "127.0.0.1:1", Token: "t", Members: []rendezvous.Member{{Workers: 1}},
	}}
	common, err := env.round(start)
	if err != nil {
		t.Fatal(err)
	}
	p := sup.plan(start, program.Program{Path: argv[0], Argv: func(int) []string { return argv }}, common)
	files := confFiles(t.Context(), p) // start calls it, too
	write("NCCL_PROTO=Simple\n")
	n := preview.New(p, files, func(int) string { return "" })
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
	var plan strings.Builder
	if err := preview.WritePlan(&plan, n); err != nil || !strings.Contains(plan.String(), "env 'WANDB_API_KEY=(hidden)' /bin/true --hub-token '(hidden)'") {
		t.Errorf("%v: %s", err, plan.String())
	}
}
