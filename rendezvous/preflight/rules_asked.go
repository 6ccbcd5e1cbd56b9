package preflight

import "slices"

// AskedSource is the source of what is unknown because --iface could not be
// obeyed on a node.
const AskedSource = "--iface"

// askedRules is I14: the user's own wish.
func askedRules() []Rule {
	return []Rule{{
		ID: "I14", Name: "iface-asked", Severity: Error,
		Meaning: "What --iface asks for exists on every node: the interface, an address in the network, or with auto a choice that all nodes share.",
		Users:   "gorun's own refusal only.",
		Steps: []Step{
			toGorun("let gorun find a network that every node has", "--iface auto").everywhere(),
			byHand("start gorun without --iface").or(),
			toLook("what each node has", "ip -br addr").everywhere(),
		},
		Check: checkAsked,
	}}
}

func checkAsked(f *Fleet) []Finding {
	values := f.collect(func(_ int, n *Facts, add func(string)) {
		for _, u := range n.Unknown {
			if u.Source == AskedSource {
				add(u.Why)
			}
		}
	})
	switch {
	case f.Asked != "":
		return []Finding{{Text: "--iface auto finds no choice that all nodes share: " + f.Asked + ".", Values: values, Steps: f.askOther()}}
	case len(values) > 0:
		return []Finding{{Text: "--iface cannot be obeyed on every node.", Values: values, Steps: f.askOther()}}
	}
	return nil
}

// disobeys reports whether --iface set the others' variables and not this node's.
func (n *Facts) disobeys() bool {
	return slices.ContainsFunc(n.Unknown, func(u Unknown) bool { return u.Source == AskedSource })
}

// askOther names a network that every node has, where there is one.
func (f *Fleet) askOther() []Step {
	steps := f.proposal()
	if len(steps) == 0 {
		return nil
	}
	return or(steps[:1:1], byHand("start gorun without --iface"), toLook("what each node has", "ip -br addr").everywhere())
}
