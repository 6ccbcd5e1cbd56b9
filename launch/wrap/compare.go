package wrap

import (
	"bytes"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/worker/contract"
)

// hasLoss reports whether a variable does not reach the program as it was sent.
func hasLoss(l preflight.WrapperLoss) bool { return len(names(l)) > 0 }

// names lists all names that l calls lost.
func names(l preflight.WrapperLoss) []string { return slices.Concat(l.Missing, l.Changed, l.Forced) }

// Sent describes what a worker gets.
type Sent struct {
	Env       []string // NAME=value, as for a worker; of two entries of a name the later counts
	FromGorun []string // names that gorun gives to every worker
	Requested []string // names that the user requested
}

// unknownName is the name of a variable that no option and no list of a wrapper
// mentions.
const (
	unknownName  = "PROBE_OF_GORUN"
	unknownValue = "sent"
)

// withUnknown returns what was sent, together with the unknown variable.
func (s Sent) withUnknown() Sent {
	s.Env = append(slices.Clone(s.Env), unknownName+"="+unknownValue)
	return s
}

// compare finds which of the variables that matter did not arrive. It accepts what
// the wrappers' command lines set or remove by name: the user means it.
func (p Prefix) compare(sent Sent, got map[string]string) preflight.WrapperLoss {
	var l preflight.WrapperLoss
	values := map[string]string{}
	var order []string
	for _, e := range sent.Env {
		name, value, ok := strings.Cut(e, "=")
		if _, seen := values[name]; ok && !seen && sent.matters(name) && !(p.isElsewhere() && isPath(name)) {
			order = append(order, name)
		}
		values[name] = value
	}
	if values[unknownName] == unknownValue && got[unknownName] != unknownValue {
		l.BlocksUnknown = true
		for name, value := range values {
			if arrived, ok := got[name]; ok && arrived == value {
				l.Arrived = append(l.Arrived, name)
			}
		}
		slices.Sort(l.Arrived)
	}
	slices.SortStableFunc(order, func(a, b string) int { return sent.weight(a) - sent.weight(b) })
	for _, name := range order {
		value, arrived := got[name]
		switch {
		case arrived && value == values[name]:
		case !p.assigns(name) && !arrived:
			l.Missing = append(l.Missing, name)
		case !p.assigns(name):
			l.Changed = append(l.Changed, name)
		case isEssential(name):
			l.Forced = append(l.Forced, name)
		}
	}
	return l
}

// withheld finds what does not arrive according to the wrappers' options. What
// their configuration may still pass on is only assumed to be lost. withheld names
// it only if nothing is lost for certain.
func (p Prefix) withheld(sent Sent) preflight.WrapperLoss {
	lost := p.dropped(sent, func(l layer) bool { return l.certain })
	if !hasLoss(lost) {
		lost = p.dropped(sent, func(layer) bool { return true })
		lost.Assumed = true
	}
	return lost
}

// dropped finds what the options of some layers do not pass on.
func (p Prefix) dropped(sent Sent, counts func(layer) bool) preflight.WrapperLoss {
	sent = sent.withUnknown()
	got := map[string]string{}
	for _, e := range sent.Env {
		name, value, _ := strings.Cut(e, "=")
		got[name] = value
	}
	for _, l := range p.layers {
		if l.passes == nil || !counts(l) {
			continue
		}
		for name := range got {
			if !l.passes(name) {
				delete(got, name)
			}
		}
		for _, e := range l.assigned {
			if name, value, ok := strings.Cut(e, "="); ok {
				got[name] = value
			}
		}
	}
	return p.compare(sent, got)
}

// isPath reports whether a variable names a file of this machine. Such a name means
// nothing in a container or on another host.
func isPath(name string) bool {
	return name == "TORCHELASTIC_ERROR_FILE" || name == contract.EnvSocket
}

func isEssential(name string) bool { return slices.Contains(preflight.EssentialVariables(), name) }

func (p Prefix) assigns(name string) bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return l.assigns(name) })
}

func (l layer) assigns(name string) bool {
	return slices.ContainsFunc(l.assigned, func(e string) bool { return e == name || strings.HasPrefix(e, name+"=") })
}

// Forced lists the variables without which a worker cannot find its place, and to
// which the command line gives another value than env does, whatever it passes on.
// It does not know what the text of a shell does.
func (p Prefix) Forced(env []string) []string {
	var names []string
	for _, l := range p.layers {
		for _, name := range preflight.EssentialVariables() {
			asSent := func(e string) bool { return strings.HasPrefix(e, name+"=") && slices.Contains(env, e) }
			if l.text == "" && l.assigns(name) && !slices.ContainsFunc(l.assigned, asSent) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// matters reports whether the loss of a variable counts: gorun gives it, the user
// asked for it, or a library reads it to the harm of other nodes. What an image or
// another host rightly sets for itself does not count.
func (s Sent) matters(name string) bool {
	if slices.Contains(s.FromGorun, name) || slices.Contains(s.Requested, name) {
		return true
	}
	switch name {
	case "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX":
		return false
	}
	v, ok := ncclenv.Lookup(name)
	if !ok {
		v, ok = ncclenv.Governed(name)
		return ok && (v.Scope == ncclenv.All || v.Scope == ncclenv.AllSoft)
	}
	return v.Scope == ncclenv.Node || v.Scope.Travels() && v.Scope != ncclenv.Free
}

// weight orders names: the essential ones, those of the user and of the devices,
// the others.
func (s Sent) weight(name string) int {
	if i := slices.Index(preflight.EssentialVariables(), name); i >= 0 {
		return i
	}
	if !slices.Contains(s.FromGorun, name) || strings.HasPrefix(name, "CUDA_") {
		return 10
	}
	return 20
}

// parseOutput reads the environment that a program printed. Other output, such as
// the greeting of a start file, may come before it, so each line of the first entry
// may begin a variable.
func parseOutput(out []byte) map[string]string {
	got := map[string]string{}
	add := func(entry []byte) {
		if name, value, ok := strings.Cut(string(entry), "="); ok {
			got[name] = value
		}
	}
	first, rest, _ := bytes.Cut(out, []byte{0})
	for len(first) > 0 {
		add(first)
		i := bytes.IndexAny(first, "\r\n")
		first = first[i+1:]
		if i < 0 {
			break
		}
	}
	for entry := range bytes.SplitSeq(rest, []byte{0}) {
		add(entry)
	}
	return got
}
