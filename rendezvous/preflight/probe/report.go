package probe

import (
	"fmt"
	"slices"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// maxText bounds the system's words in a report, in bytes. maxSegments bounds
// the segments of one probe.
const (
	maxText     = 256
	maxSegments = 1 << 20
)

// DecodeReport reads a node's report of the results of its plan. It accepts
// only the results: each must be of a target of the plan, in the plan's order.
func DecodeReport(data []byte, p Plan) ([]preflight.Probe, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("a report of probes of %d bytes; at most %d are allowed", len(data), MaxBytes)
	}
	got, err := decodeList[preflight.Probe](data, len(p.Targets))
	if err != nil {
		return nil, fmt.Errorf("not a report of probes: %w", err)
	}
	at := 0
	for i, r := range got {
		for at < len(p.Targets) && !p.Targets[at].matches(p.Node, r) {
			at++
		}
		if at == len(p.Targets) {
			return nil, fmt.Errorf("a report of probes has a result that is not of the plan: node %d to %s", r.From, printable(r.Target))
		}
		at++
		if !slices.Contains(results(), r.Result) {
			return nil, fmt.Errorf("a report of probes has the result %q", printable(string(r.Result)))
		}
		if len(r.Answer) > maxID || len(r.Seen) > maxSeen || r.TookMS < 0 || r.RoundMS < 0 || r.Mbit < 0 ||
			r.Sent < 0 || r.Sent > maxSegments || r.Resent < 0 || r.Resent > maxSegments || r.Silent < 0 || r.Silent > r.Resent {
			return nil, fmt.Errorf("a report of probes has an invalid result at %d", i)
		}
		got[i].Text, got[i].Seen, got[i].Answer = printable(r.Text), printable(r.Seen), printable(r.Answer)
	}
	return got, nil
}

// matches reports whether a result is of the target.
func (t Target) matches(from int, r preflight.Probe) bool {
	return r.From == from && r.To == t.To && r.Use == t.Use && r.Iface == t.Iface &&
		r.Source == t.Source && r.Target == t.Target && r.Large == t.Large
}

func results() []preflight.Result {
	return []preflight.Result{
		preflight.OK, preflight.Refused, preflight.NoRoute, preflight.TimedOut, preflight.Stalled, preflight.Reset,
		preflight.Denied, preflight.NoAddress, preflight.OtherAgent, preflight.OtherSource, preflight.Failed,
		preflight.Lossy, preflight.Slow,
	}
}

// printable bounds a text of another node and makes it fit for a terminal.
func printable(s string) string { return term.Printable(term.Truncate(s, maxText)) }
