package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
)

// printable returns s on one line, without control characters for a terminal.
func printable(s string) string {
	return term.Line(strings.ToValidUTF8(s, "?"))
}

// shortText returns printable s, with at most maxText bytes.
func shortText(s string) string { return printable(term.Cut(s, maxText)) }

// formatDuration formats a time with at most two units: 3s, 4m12s, 5h3m, 12d1h.
func formatDuration(ms int64) string {
	d := max(0, time.Duration(ms)*time.Millisecond)
	h := int64(d / time.Hour)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int64(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int64(d/time.Minute), int64(d%time.Minute/time.Second))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", h, int64(d%time.Hour/time.Minute))
	default:
		return fmt.Sprintf("%dd%dh", h/24, h%24)
	}
}

// nodeName returns the name of a node in messages.
func nodeName(host, addr string) string { return (&rendezvous.Node{Host: host, Addr: addr}).Name() }

// formatRanks formats the global ranks of a node's workers: "0", "8-15".
func formatRanks(first, n int) string {
	switch {
	case first < 0 || n < 1:
		return "-"
	case n == 1:
		return fmt.Sprint(first)
	default:
		return fmt.Sprintf("%d-%d", first, first+n-1)
	}
}

// String says what an abort did.
func (a *Aborted) String() string {
	text := fmt.Sprintf("aborted run %s: %d nodes", shortText(a.RunID), a.Nodes)
	if a.Nodes == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if a.Workers == 0 {
		text += ", no worker was running"
	}
	return text
}
