package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
)

// What a client says becomes one line of bounded length, whoever the client is.
func TestAbortedText(t *testing.T) {
	a := &agent{base: &base{node: rendezvous.Node{Host: "n1", Addr: "10.0.0.1"}}, machine: &drive.Machine{Machine: rendezvous.New(rendezvous.Config{}, time.Now())}}
	for name, tt := range map[string]struct {
		r    status.Request
		want string
	}{
		"all":     {status.Request{User: "ada", Message: "wrong rate"}, "the job was aborted by ada on n1 (10.0.0.1): wrong rate"},
		"nothing": {status.Request{}, "the job was aborted on n1 (10.0.0.1)"},
		"hostile": {status.Request{User: "a\x1b[2J", Message: "b\x07\nc"}, "the job was aborted by a?[2J on n1 (10.0.0.1): b? c"},
	} {
		t.Run(name, func(t *testing.T) {
			c := a.aborted(tt.r)
			if c.Line() != tt.want || c.Code() != 143 {
				t.Errorf("%q, code %d", c.Line(), c.Code())
			}
		})
	}
	long := a.aborted(status.Request{User: strings.Repeat("u", 1<<16), Message: strings.Repeat("m", 1<<16)})
	if n := len(long.Line()); n > 2*status.MaxMessage {
		t.Errorf("%d bytes", n)
	}
}

// A request of a later gorun is answered, not obeyed.
func TestUnknownRequest(t *testing.T) {
	a := &agent{}
	reply := make(chan status.Reply, 1)
	event, done := a.inspected(inspectEvent{status.Request{Type: "later"}, reply})
	done()
	if got := <-reply; event != nil || !strings.Contains(got.Error, `"later"`) {
		t.Errorf("%v, %+v", event, got)
	}
}
