package launch

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/console"
)

// TestFirstAgentPrintsNotesOnTheMachine checks that the first agent announces what concerns the machine,
// and each agent what concerns its own workers.
func TestFirstAgentPrintsNotesOnTheMachine(t *testing.T) {
	for index, want := range []string{"gorun: the GPUs differ\ngorun: few CPUs\n", "gorun: few CPUs\n"} {
		var out strings.Builder
		a := &base{console: &console.Console{Console: term.NewConsole(&out, "gorun", nil), OtherPrints: index > 0}}
		ended := make(chan struct{})
		go func() {
			a.console.Run()
			close(ended)
		}()
		a.printPlacementNotes([]string{"the GPUs differ"}, []string{"few CPUs"})
		a.console.Close()
		<-ended
		if out.String() != want {
			t.Errorf("agent %d says %q, want %q", index, out.String(), want)
		}
	}
}
