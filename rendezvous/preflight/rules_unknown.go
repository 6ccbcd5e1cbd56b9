package preflight

// unknownRules is F01: what could not be judged.
func unknownRules() []Rule {
	return []Rule{{
		ID: "F01", Name: "facts-unknown", Severity: Note,
		Meaning: "Every node could learn what the checks need. What stayed unknown is not judged, neither as good nor as bad.",
		Users:   "A fault that no check saw.",
		Steps:   []Step{byHand("nothing has to be done; where a check would matter, make readable what the node could not read")},
		Check:   checkUnknown,
	}}
}

func checkUnknown(f *Fleet) []Finding {
	v := f.look()
	judged := v.nccl || v.gloo
	values := f.collect(func(_ int, n *Facts, add func(string)) {
		for _, u := range n.Unknown {
			if u.Source == LostSource || judged && v.matters(u.Source) {
				add(u.Source + ": " + u.Why)
			}
		}
	})
	var silent []int
	for i := range f.Nodes {
		if judged && f.Nodes[i].Format == 0 {
			silent = append(silent, i)
		}
	}
	if silent != nil {
		values = append(values, f.finish([]Value{{Value: "no facts came", Nodes: silent}})...)
	}
	return one(values, Finding{Text: "Some facts stayed unknown; checks that need them left these nodes out."})
}

// matters reports whether a rule that concerns the fleet needs the source.
func (v *view) matters(source string) bool {
	switch source {
	case AskedSource: // I14
		return false
	case "gpu", "rdma", "library", "settings":
		return v.nccl
	case "network":
		return v.places > 1
	default:
		return true
	}
}
