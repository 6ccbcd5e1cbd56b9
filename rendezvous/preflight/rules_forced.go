package preflight

import (
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// forcedRules are E02 and E04: values and names that do harm or nothing.
func forcedRules() []Rule {
	return []Rule{
		{
			ID: "E02", Name: "env-forced", Severity: Warning,
			Meaning: "No value is forced that is dangerous or slow by itself; one from a conf file that is merely slow or narrow is a note.",
			Users:   "A slow job, corrupt data, or a hang whose cause is a variable left from debugging.",
			Steps:   []Step{toGorun("unless you need it, take it away", "--unset NCCL_P2P_DISABLE")},
			Check:   checkForced,
		},
		{
			ID: "E04", Name: "env-unknown", Severity: Warning,
			Meaning: "Variables of NCCL, torch and Gloo have names that something reads.",
			Users:   "Nothing: a name that nobody reads is ignored in silence.",
			Steps:   []Step{toGorun("take it away, or write its name correctly", "--unset NCCL_SOCKET_IFNAMES")},
			Check:   checkNames,
		},
	}
}

func checkForced(f *Fleet) []Finding {
	if !f.look().nccl {
		return nil
	}
	nodes, ranks := f.look().places, f.look().ranks
	type danger struct {
		text   string // "" for none
		severe bool
	}
	dangers := map[[2]string]danger{}
	look := func(s ncclenv.Value) danger {
		key := [2]string{s.Name, s.Value}
		x, seen := dangers[key]
		if seen {
			return x
		}
		if d, ok := ncclenv.Dangerous(s.Name, s.Value); ok && d.Check == "" && nodes >= d.Nodes && ranks >= d.Ranks {
			x = danger{d.Sentence(s.Value), d.Severe}
		}
		if len(dangers) < maxNames {
			dangers[key] = x
		}
		return x
	}
	find := func(grave bool, x Finding) []Finding {
		is := func(s ncclenv.Value) bool {
			d := look(s)
			return d.text != "" && grave == (d.severe || s.Source == ncclenv.Environment)
		}
		values := odd(f.collect(func(_ int, n *Facts, add func(string)) {
			for _, s := range n.Settings {
				if is(s) {
					add(look(s).text)
				}
			}
		}))
		if values != nil {
			x.Steps = f.takeAway("unless you need it, take it away", is)
		}
		return one(values, x)
	}
	all := find(true, Finding{Text: "Variables are forced to values that are dangerous or slow."})
	return append(all, find(false, Finding{
		Severity: Note,
		Text:     "Conf files force variables that are best left to NCCL.",
	})...)
}

func checkNames(f *Fleet) []Finding {
	v := f.look()
	if !v.nccl && !v.gloo {
		return nil
	}
	verdicts := map[string]string{}
	newest := 0
	for _, n := range f.known() {
		newest = max(newest, n.ncclCode())
	}
	for _, u := range f.usages() {
		ofNCCL := strings.HasPrefix(u.name, "NCCL_")
		if ofNCCL && (!v.nccl || newest > ncclenv.Newest) || len(verdicts) == maxValues {
			continue
		}
		near, unknown := ncclenv.Misspelt(u.name)
		known, listed := ncclenv.Lookup(u.name)
		switch {
		case unknown && near != "":
			verdicts[u.name] = u.name + ": nothing reads it; did you mean " + near + "?"
		case unknown:
			verdicts[u.name] = u.name + ": nothing reads it"
		case listed && known.Scope == ncclenv.Obsolete:
			verdicts[u.name] = u.name + ": " + known.Text
		}
	}
	if len(verdicts) == 0 {
		return nil
	}
	return advised(one(odd(f.collect(func(_ int, n *Facts, add func(string)) {
		for _, s := range n.Settings {
			add(verdicts[s.Name])
		}
	})), Finding{Text: "Variables are set that have no effect."}), func() []Step {
		return f.takeAway("take them away, or write their names correctly", func(s ncclenv.Value) bool { return verdicts[s.Name] != "" })
	})
}
