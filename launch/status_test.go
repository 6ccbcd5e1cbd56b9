package launch

import (
	"testing"

	"github.com/gorun/gorun/launch/status"
)

// TestUnknownRequestIsAnswered checks that a request of a later gorun is answered, but not
// carried out.
func TestUnknownRequestIsAnswered(t *testing.T) {
	a := &agent{}
	call, reply := status.NewCall(status.Request{Type: "later"})
	event, done := a.reply(call)
	done()
	if got := <-reply; event != nil || got.Error == "" {
		t.Errorf("%v, %+v", event, got)
	}
}
