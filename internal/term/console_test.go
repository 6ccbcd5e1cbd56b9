package term

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTextOfOtherNodesIsIndented checks that no line of another node's text begins as
// gorun's own lines do, and that it hides nothing.
func TestTextOfOtherNodesIsIndented(t *testing.T) {
	t.Parallel()
	const hostile = "lost\ngorun: all is well\rgorun: really\x1b[2J\u202egpj.exe\u2028"
	for name, print := range map[string]func(*Console){
		"say":   func(c *Console) { c.Say("node1: %s", hostile) },
		"table": func(c *Console) { c.Table("error E01\n" + hostile + "\n") },
	} {
		var out strings.Builder
		c := NewConsole(&out, "gorun", nil)
		print(c)
		go c.Run()
		c.Close()
		if n := strings.Count("\n"+out.String(), "\ngorun: "); n != 1 || strings.ContainsAny(out.String(), "\x1b\r\u202e\u2028") || !strings.Contains(out.String(), `\u202egpj.exe`) {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

// withConsole runs f with a console. output returns what the console has written since
// the last call.
func withConsole(width func() int, f func(c *Console, output func() string)) {
	var out strings.Builder
	c := NewConsole(&out, "gorun", nil)
	c.width = width
	go c.Run()
	defer c.Close()
	f(c, func() string {
		synctest.Wait()
		defer out.Reset()
		return out.String()
	})
}

func TestWaitPrintsLinesAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withConsole(nil, func(c *Console, output func() string) {
			var at []int
			began := time.Now()
			for s := range 100 {
				time.Sleep(time.Until(began.Add(time.Duration(s)*time.Second + time.Duration(s%3)*10*time.Millisecond)))
				w := Wait{Line: fmt.Sprintf("have 1 of 2 nodes (a\x1b[2J), %d s left", 200-s), State: "1 of 2"}
				if s >= 70 {
					w.State = "refused"
				}
				c.Wait(w)
				if text := output(); text != "" {
					at = append(at, s)
					if strings.Contains(text, "\x1b") || !strings.HasSuffix(text, "\n") {
						t.Errorf("%q", text)
					}
				}
			}
			if got := fmt.Sprint(at); got != "[2 7 17 37 67 70 75 85]" {
				t.Errorf("lines after %s s", got)
			}
			time.Sleep(2 * time.Minute)
			slow := Wait{Line: "spare", State: "spare", AtLeast: time.Minute}
			c.Wait(slow)
			output()
			time.Sleep(45 * time.Second)
			if c.Wait(slow); output() != "" {
				t.Error("a line within AtLeast")
			}
			time.Sleep(15 * time.Second)
			if c.Wait(slow); output() == "" {
				t.Error("no line after AtLeast")
			}
		})
	})
}

func TestWaitRewritesOneLineOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withConsole(func() int { return 30 }, func(c *Console, output func() string) {
			wait := Wait{Line: "have 1 of 2 nodes (a\x1b[2J)"}
			c.Wait(wait)
			if got := output(); got != "\r\x1b[Kgorun: have 1 of 2 nodes (a?[" {
				t.Errorf("%q", got)
			}
			c.Say("node %s", "\u00e9\x07")
			if got := output(); got != "\r\x1b[Kgorun: node \u00e9?\n" {
				t.Errorf("%q", got)
			}
			c.Wait(wait)
			output()
			c.Clear()
			if got := output(); got != "\r\x1b[K" {
				t.Errorf("%q", got)
			}
			c.Clear()
			if got := output(); got != "" {
				t.Errorf("cleared twice: %q", got)
			}
			time.Sleep(3 * time.Second)
			wait.Shared = true
			c.Wait(wait)
			if got := output(); got != "gorun: have 1 of 2 nodes (a?[2J)\n" {
				t.Errorf("where others write: %q", got)
			}
		})
	})
}
