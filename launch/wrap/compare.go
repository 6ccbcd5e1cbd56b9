package wrap

import (
	"bytes"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/worker/contract"
)

// anyLost reports whether a variable does not reach the program as it was sent.
func anyLost(l preflight.Lost) bool { return len(names(l)) > 0 }

// names lists all names that l calls lost.
func names(l preflight.Lost) []string { return slices.Concat(l.Missing, l.Changed, l.Forced) }

// Sent describes what a worker gets.
type Sent struct {
	Env   []string // NAME=value, as for a worker; of two entries of a name the later counts
	Own   []string // names that gorun gives to every worker
	Asked []string // names that the user asked for
}

// stranger is a variable that no option and no list of a wrapper can know.
const stranger = "PROBE_OF_GORUN=sent"

// essential lists the variables without which a worker cannot find its place.
func essential() []string {
	return []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
}

// compare finds which of the variables that matter did not arrive. It accepts what
// the wrappers' command lines set or remove by name: the user means it.
func (p Prefix) compare(sent Sent, got map[string]string) preflight.Lost {
	var l preflight.Lost
	values := map[string]string{}
	var order []string
	for _, e := range sent.Env {
		name, value, ok := strings.Cut(e, "=")
		if _, seen := values[name]; ok && !seen && sent.matters(name) && !(p.isSlow() && isPath(name)) {
			order = append(order, name)
		}
		values[name] = value
	}
	if name, value, _ := strings.Cut(stranger, "="); values[name] == value && got[name] != value {
		l.Closed = true
		for name, value := range values {
			if arrived, ok := got[name]; ok && arrived == value {
				l.Passed = append(l.Passed, name)
			}
		}
		slices.Sort(l.Passed)
	}
	slices.SortStableFunc(order, func(a, b string) int { return sent.weight(a) - sent.weight(b) })
	for _, name := range order {
		value, arrived := got[name]
		switch {
		case arrived && value == values[name]:
		case !p.meant(name) && !arrived:
			l.Missing = append(l.Missing, name)
		case !p.meant(name):
			l.Changed = append(l.Changed, name)
		case slices.Contains(essential(), name):
			l.Forced = append(l.Forced, name)
		}
	}
	return l
}

// withheld finds what certainly does not arrive, whatever is behind the wrappers,
// because their options do not pass it on.
func (p Prefix) withheld(sent Sent) preflight.Lost {
	sent.Env = append(slices.Clone(sent.Env), stranger)
	got := map[string]string{}
	for _, e := range sent.Env {
		name, value, _ := strings.Cut(e, "=")
		got[name] = value
	}
	strict := false
	for _, l := range p.layers {
		if !l.strict {
			continue
		}
		strict = true
		for name := range got {
			if !l.passes(name) {
				delete(got, name)
			}
		}
		for _, m := range l.meant {
			if name, value, ok := strings.Cut(m, "="); ok {
				got[name] = value
			}
		}
	}
	if !strict {
		return preflight.Lost{}
	}
	return p.compare(sent, got)
}

// isPath reports whether a variable names a file of this machine. Such a name means
// nothing in a container or on another host.
func isPath(name string) bool {
	return name == "TORCHELASTIC_ERROR_FILE" || name == contract.EnvSocket
}

func (p Prefix) meant(name string) bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return l.means(name) })
}

func (l layer) means(name string) bool {
	return slices.ContainsFunc(l.meant, func(m string) bool { return m == name || strings.HasPrefix(m, name+"=") })
}

// Forced lists the variables without which a worker cannot find its place, and to
// which the command line gives another value than env does, whatever it passes on.
// It does not know what the text of a shell does.
func (p Prefix) Forced(env []string) []string {
	var names []string
	for _, l := range p.layers {
		for _, name := range essential() {
			given := func(e string) bool { return strings.HasPrefix(e, name+"=") && slices.Contains(env, e) }
			if l.text == "" && l.means(name) && !slices.ContainsFunc(l.meant, given) && !slices.Contains(names, name) {
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
	if slices.Contains(s.Own, name) || slices.Contains(s.Asked, name) {
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

func (s Sent) weight(name string) int {
	if i := slices.Index(essential(), name); i >= 0 {
		return i
	}
	if !slices.Contains(s.Own, name) || strings.HasPrefix(name, "CUDA_") {
		return 10 // variables of the user, and those by which a rank finds its GPU
	}
	return 20
}

// parse reads the environment that a program printed. Other output, such as the
// greeting of a start file, may come before it.
func parse(out []byte) map[string]string {
	got := map[string]string{}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		name, value, ok := strings.Cut(string(entry), "=")
		if i := strings.LastIndexAny(name, "\r\n"); i >= 0 {
			name = name[i+1:]
		}
		if ok {
			got[name] = value
		}
	}
	return got
}
