package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func sample() Report {
	cause := workerCause(2, func(c *rendezvous.Cause) {
		c.Kind, c.Signal, c.ExitCode = rendezvous.KindSignal, syscall.SIGSEGV, 0
		c.Tail = []string{"<last> words"}
	})
	return Report{
		RunID: "job7", Started: when.Add(-time.Minute), Ended: when.Add(time.Second), ExitCode: 139, Outcome: Failed,
		Cause: &cause, Failures: []rendezvous.Cause{cause},
		Rounds: []Round{{
			Round: 4, Restart: 1, Started: when.Add(-30 * time.Second), Ended: when, Cause: &cause,
			Nodes: []Node{
				{GroupRank: 0, Host: "node1.example", Addr: "10.0.0.1", Ranks: []rendezvous.End{
					{Rank: 0, LocalRank: 0, PID: 100, ExitCode: 0, Signal: syscall.SIGTERM, Started: when.Add(-29 * time.Second), Ended: when},
				}},
				{GroupRank: 1, Host: "node2.example"},
			},
		}},
	}
}

func TestWriteJSONGolden(t *testing.T) {
	for name, r := range map[string]Report{
		"report-failed.json":    sample(),
		"report-succeeded.json": {RunID: "job7", Started: when, Ended: when, Outcome: Succeeded},
	} {
		path := filepath.Join(t.TempDir(), "report.json")
		if err := WriteJSON(path, r); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, string(b))
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestWriteJSONReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := WriteJSON(path, sample()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Rounds[0].Nodes[1].Ranks = []rendezvous.End{}
	want.Rounds[0].Nodes[0].Ranks[0].ExitCode = 143 // SIGTERM
	for _, c := range []*rendezvous.Cause{want.Cause, &want.Failures[0]} {
		c.ExitCode = 139 // SIGSEGV
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestCauseHasItsExitCode checks that the code of a cause is the code with which gorun
// ends because of it, and that an entry that is no failure has none.
func TestCauseHasItsExitCode(t *testing.T) {
	for want, c := range map[int]rendezvous.Cause{
		75:  {Kind: rendezvous.KindRendezvous},
		78:  {Kind: rendezvous.KindPreflight},
		137: {Kind: rendezvous.KindLost},
		143: {Kind: rendezvous.KindStopped, Signal: syscall.SIGTERM},
		7:   {Kind: rendezvous.KindExit, ExitCode: 7},
		1:   {Kind: rendezvous.KindAgent},
		0:   {Kind: rendezvous.KindJoined},
	} {
		if got := withExitCode(&c).ExitCode; got != want {
			t.Errorf("%s: %d, want %d", c.Kind, got, want)
		}
	}
}

func TestWriteJSONKeepsItsInput(t *testing.T) {
	r := sample()
	if err := WriteJSON(filepath.Join(t.TempDir(), "r"), r); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, sample()) {
		t.Error("the report was changed")
	}
}

func TestWriteJSONReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.json")
	link := filepath.Join(dir, "link.json")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("report.json", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSON(link, Report{RunID: "new"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if b, _ := os.ReadFile(path); !strings.Contains(string(b), `"new"`) {
		t.Errorf("the file has %q", b)
	}
}

// TestWriteJSONToDevice checks that --report /dev/stderr, or a pipe, is written to
// and not replaced.
func TestWriteJSONToDevice(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := WriteJSON(fifo, Report{RunID: "x"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(fifo); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe was replaced: %v", err)
	}
}

func TestWriteJSONErrors(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                       "is a folder",
		dir + "/none/report.json": "no such file or directory",
	} {
		if err := WriteJSON(path, Report{}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot write the report") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
