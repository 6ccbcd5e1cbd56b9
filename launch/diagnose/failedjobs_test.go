package diagnose

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files and docs/explain.md anew")

// scan reads logs, given as names and texts in turn, and returns the findings.
func scan(t testing.TB, logs ...string) []Finding {
	t.Helper()
	s := NewScanner()
	for i := 0; i+1 < len(logs); i += 2 {
		if err := s.Read(context.Background(), LogOf(logs[i]), strings.NewReader(logs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	return s.Findings()
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// failedJobs are the logs of failed jobs with the findings that they must give.
var failedJobs = map[string]struct {
	id    string
	ranks []int
	host  string
}{
	"a-versions":          {id: "V01", ranks: []int{1}, host: "node2"},
	"b-interfaces":        {id: "I02", ranks: []int{0}, host: "trainer-0"},
	"c-forced-ib":         {id: "N01", host: "cupy-0"},
	"c-forced-family":     {id: "I01", host: "node1"},
	"d-alltoall":          {id: "D01", ranks: []int{0, 1}, host: "su14-gpu07"},
	"e-ras":               {id: "V04", ranks: []int{0}, host: "rtptest1621"},
	"f-oom-torchrun":      {id: "X-CUDAOOM", ranks: []int{5}, host: "node1"},
	"g-desync":            {id: "X-DESYNC", ranks: []int{2}},
	"h-silent-rank":       {id: "X-TIMEOUT-MISSING-RANK", ranks: []int{2}},
	"i-host-oom":          {id: "X-HOSTOOM", ranks: []int{13}, host: "gpu-7"},
	"j-xid":               {id: "G01", host: "node2"},
	"k-dataloader":        {id: "X-DATALOADER"},
	"l-hangs-in-init":     {id: "X-TIMEOUT-MISSING-RANK"},
	"m-gorun":             {id: "X-PYEXC", ranks: []int{3}, host: "node2.example"},
	"n-only-consequences": {},
	"p-segv-pods":         {id: "V04", host: "train-worker-2"},
	"q-ras-handler":       {id: "V04"},
	"r-time-limit":        {id: "X-TIMELIMIT", host: "gpu01"},
	"s-cri":               {id: "X-PYEXC", ranks: []int{2}, host: "gpu01"},
	"t-json-file":         {id: "X-PYEXC", ranks: []int{2}, host: "gpu01"},
	"u-stern":             {id: "X-PYEXC", ranks: []int{2}, host: "train-0"},
	"v-handled":           {id: "X-FILE"},
	"w-srun-oom":          {id: "X-HOSTOOM", ranks: []int{1}, host: "gpu02"},
	"x-oom-killer":        {id: "X-HOSTOOM"},
	"o-sigkill":           {id: "X-HOSTOOM", ranks: []int{58}, host: "gpu07"},
}

func TestFailedJobs(t *testing.T) {
	for name, want := range failedJobs {
		t.Run(name, func(t *testing.T) {
			found := scan(t, name+".log", read(t, "testdata/explain/"+name+".log"))
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			f := found[0]
			if want.id == "" {
				if f.Severity != SeverityConsequence {
					t.Errorf("a cause where there are only consequences: %+v", f)
				}
			} else if f.Severity != SeverityCause || f.ID != want.id || f.Host != want.host || !slices.Equal(f.Ranks, want.ranks) {
				t.Errorf("got %s %s, ranks %v, host %q, want %+v", f.Severity, f.ID, f.Ranks, f.Host, want)
			}
			var text bytes.Buffer
			if err := WriteText(&text, found); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/explain/"+name+".txt", text.String())
			b, err := json.MarshalIndent(found, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/explain/"+name+".json", string(b)+"\n")
		})
	}
}

// golden compares got with the file at path.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := read(t, path); got != want {
		t.Errorf("%s differs (go test -update accepts it); got:\n%s", path, got)
	}
}

// TestEachFailedJobIsTested shows that failedJobs has every log of testdata/explain.
func TestEachFailedJobIsTested(t *testing.T) {
	files, err := filepath.Glob("testdata/explain/*.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".log")
		if _, ok := failedJobs[name]; !ok && !strings.HasPrefix(name, "healthy-") {
			t.Errorf("%s is not in the table", f)
		}
	}
}
