package spec

import (
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/gorun/gorun/internal/term"
)

// Preflight says what happens on a finding that would refuse the job.
type Preflight string

// The values of --preflight.
const (
	PreflightError Preflight = "error" // the finding refuses the job (the default)
	PreflightWarn  Preflight = "warn"  // the finding is printed, and the job starts
	PreflightOff   Preflight = "off"   // no facts are gathered; only check E01 (env-must-agree) runs
)

// Check holds the options of `gorun check`.
type Check struct {
	Strict bool   // a warning makes the exit code 1
	JSON   bool   // findings as JSON on stdout
	Save   string // file for this node's facts, "" for none
}

// preflight reads how the nodes are compared.
func (in *input) preflight(s *Spec) {
	v := in.text("preflight", string(PreflightError))
	s.Preflight = Preflight(v.text)
	if !slices.Contains([]Preflight{PreflightError, PreflightWarn, PreflightOff}, s.Preflight) {
		in.fail("cannot use %s: %q is neither error, warn nor off", v.from, v.text)
	}
	if s.Preflight == PreflightOff && in.raw.Check {
		s.note("%s off is ignored: gorun check does nothing else", v.from)
		s.Preflight = PreflightError
	}
	s.SelfTest = in.isOn("selftest") && !in.raw.SelfTest
	v = in.text("ignore", "")
	for word := range strings.SplitSeq(v.text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			s.Ignore = append(s.Ignore, word)
		}
	}
	v = in.text("iface", "")
	s.Iface = v.text
	if _, err := netip.ParsePrefix(v.text); strings.Contains(v.text, "/") && err != nil || strings.ContainsAny(v.text, ",=^") || !isName(v.text) || len(v.text) > 64 {
		in.fail("cannot use %s: %q is neither auto, the name of an interface nor a network such as 10.37.8.0/24", v.from, v.text)
	}
	if s.Iface != "" && s.Preflight == PreflightOff {
		in.fail("cannot use %s together with --preflight off: interfaces are chosen by comparing the nodes", v.from)
	}
	if in.raw.Check {
		s.Check = &Check{Strict: in.isOn("strict"), JSON: in.isOn("json"), Save: in.file("save")}
		if s.Check.Save != "" && s.LocalNodes > 1 {
			in.fail("cannot use --save together with --local-nodes %d: one file has room for one node, and all of them are this machine", s.LocalNodes)
		}
	}
}

// isName reports whether an interface may have the name.
func isName(s string) bool { return term.IsPrintable(s) && !strings.ContainsFunc(s, unicode.IsSpace) }
