package launch

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/term"
)

// What concerns the machine is said by the first of its agents, what concerns its
// own workers by each.
func TestSayPlaced(t *testing.T) {
	for index, want := range []string{"gorun: the GPUs differ\ngorun: few CPUs\n", "gorun: few CPUs\n"} {
		var out strings.Builder
		a := &agent{opts: Options{Local: &LocalNode{Index: index}}, console: &console{Console: term.NewConsole(&out, "gorun", nil)}}
		ended := make(chan struct{})
		go func() {
			a.console.Run()
			close(ended)
		}()
		a.sayPlaced([]string{"the GPUs differ"}, []string{"few CPUs"})
		a.console.Close()
		<-ended
		if out.String() != want {
			t.Errorf("agent %d says %q, want %q", index, out.String(), want)
		}
	}
}
