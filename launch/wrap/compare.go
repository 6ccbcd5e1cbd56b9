package wrap

import (
	"bytes"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/worker/contract"
)

// anyLost reports whether something does not reach the program as it was sent.
func anyLost(l preflight.Lost) bool { return len(names(l)) > 0 }

// names are all that l names as lost.
func names(l preflight.Lost) []string { return slices.Concat(l.Missing, l.Changed, l.Forced) }

// Sent is what a worker is given.
type Sent struct {
	Env   []string // NAME=value, as for a worker; of two entries of a name the later counts
	Own   []string // names that gorun gives to every worker
	Asked []string // names that the user asked for
}

// stranger is a name that no option and no list of a wrapper can know.
const stranger = "PROBE_OF_GORUN=sent"

// essential are the variables without which a worker cannot find its place.
func essential() []string {
	return []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
}

// compare says which of the variables that matter did not arrive. What the
// wrappers' command lines set or take away by name is meant so.
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

// withheld is what does not arrive for certain, whatever is behind the wrappers:
// their options do not pass it on.
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

// isPath: it names a file of this machine, which means nothing in a container or on
// another host.
func isPath(name string) bool {
	return name == "TORCHELASTIC_ERROR_FILE" || name == contract.EnvSocket
}

func (p Prefix) meant(name string) bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return l.means(name) })
}

func (l layer) means(name string) bool {
	return slices.ContainsFunc(l.meant, func(m string) bool { return m == name || strings.HasPrefix(m, name+"=") })
}

// Forced are the names without which a worker cannot find its place, and to which
// the command line gives another value than env does, whatever it lets through.
// What the text of a shell does is not known.
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

// matters: gorun gives it, somebody asked for it, or a library reads it to the
// harm of others. What an image or another host rightly has of its own does not.
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
		return 10 // the user's, and by which a rank finds its GPU
	}
	return 20
}

// parse reads what a program printed of its environment. Before it something
// else, a start file's greeting, may have been printed.
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
