package launch

import (
	"strings"
	"testing"
)

// Text of another node begins no line as gorun's own do, and hides nothing.
func TestConsoleKeepsOthersApart(t *testing.T) {
	t.Parallel()
	const hostile = "lost\ngorun: all is well\rgorun: really\x1b[2J\u202egpj.exe\u2028"
	for name, tell := range map[string]func(*console){
		"say":   func(c *console) { c.say("node1: %s", hostile) },
		"table": func(c *console) { c.table("error E01\n" + hostile + "\n") },
	} {
		var out strings.Builder
		tell(&console{w: &out, prefix: "gorun"})
		if n := strings.Count("\n"+out.String(), "\ngorun: "); n != 1 || strings.ContainsAny(out.String(), "\x1b\r\u202e\u2028") || !strings.Contains(out.String(), `\u202egpj.exe`) {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}
