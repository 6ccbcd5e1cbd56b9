package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

func TestFrames(t *testing.T) {
	long := `{"type":"` + strings.Repeat("x", 8<<10) + `"}` + "\n"
	for name, tt := range map[string]struct {
		in    string
		limit int
		want  string // Type; "": an error
	}{
		"one":          {`{"type":"status"}` + "\n", 100, "status"},
		"unknown":      {`{"type":"status","more":1}` + "\n", 100, "status"},
		"no end":       {`{"type":"status"}`, 100, ""},
		"nothing":      {"", 100, ""},
		"no JSON":      {"hello\n", 100, ""},
		"an empty one": {"\n", 100, ""},
		"too long":     {long, 4 << 10, ""},
		"long":         {long, 16 << 10, strings.Repeat("x", 8<<10)},
		"no end, long": {strings.Repeat("x", 1<<20), 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var r Request
			err := newFrameReader(strings.NewReader(tt.in)).read(tt.limit, &r)
			if (err == nil) != (tt.want != "") || err == nil && r.Type != tt.want {
				t.Errorf("%q, %v", r.Type, err)
			}
		})
	}
}

// TestEndlessFrame checks that a frame that never ends takes no more memory than
// its limit.
func TestEndlessFrame(t *testing.T) {
	r := &endlessReader{}
	if err := newFrameReader(r).read(1<<20, &Request{}); err == nil || r.n > 2<<20 {
		t.Errorf("%v after %d bytes", err, r.n)
	}
}

type endlessReader struct{ n int }

func (e *endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	if e.n += len(p); e.n > 1<<24 {
		return 0, errors.New("the reader does not stop")
	}
	return len(p), nil
}

// FuzzView checks that any view of an agent becomes a status that can be printed,
// and that cannot control the terminal.
func FuzzView(f *testing.F) {
	v := rendezvous.View{RunID: "r", Phase: "running", Size: 2, Coordinator: "a", Status: &rendezvous.Status{Waiting: []string{"n"}}, Nodes: []rendezvous.NodeView{
		{ID: "a", Host: "n", Addr: "10.0.0.1", Workers: 2, Participation: rendezvous.NodeActive, Report: exampleNode().Encode()},
		{ID: "b", GroupRank: -1, FirstRank: -1, Participation: rendezvous.NodeSpare, Trouble: "it has not answered"},
	}}
	b, err := json.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"nodes":[{"report":{"ranks":[{"rank":-1,"last_output_ms":-5,"exit_code":1}]},"group_rank":5,"first_rank":-9,"workers":-1}]}`))
	f.Add([]byte(`{"run_id":"\u001b[2J","nodes":[{"host":"\u001b]0;x\u0007","report":"no"}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Reply
		_ = newFrameReader(io.MultiReader(bytes.NewReader(b), strings.NewReader("\n"))).read(maxReply, &r)
		s, err := Decode(b)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := s.Table(&out, len(b)%2 == 0); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
			t.Errorf("the table has a control character: %q", out.String())
		}
		if _, err := json.Marshal(s); err != nil {
			t.Fatal(err)
		}
	})
}
