package rules

import "github.com/gorun/gorun/rendezvous/preflight"

// unknownRules returns F01: facts that stayed unknown.
func unknownRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "F01", Name: "facts-unknown", Severity: preflight.Note,
		Meaning: "Every node could learn what the checks need. A fact that stayed unknown counts neither as good nor as bad.",
		Symptom: "A fault that no check saw.",
		Steps:   []preflight.Step{preflight.ByHand.Step("nothing has to be done; if you need the check, let the node read what it could not read")},
		Check:   checkUnknown,
	}}
}

func checkUnknown(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	concerned := v.NCCL || v.Gloo
	values := f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		for _, u := range n.Unknown {
			if u.Source == preflight.WrapperSource || concerned && isNeeded(v, u.Source) {
				add(u.Source + ": " + u.Why)
			}
		}
	})
	var without []int
	for i := range f.Nodes {
		if concerned && f.Nodes[i].Format == 0 {
			without = append(without, i)
		}
	}
	if without != nil {
		values = append(values, f.Complete([]preflight.Value{{Value: "the node sent no facts", Nodes: without}})...)
	}
	return preflight.IfAny(values, preflight.Finding{Text: "Some facts are unknown; the checks that need them left these nodes out."})
}

// isNeeded reports whether a rule that concerns the fleet needs the source.
func isNeeded(v *preflight.View, source string) bool {
	switch source {
	case preflight.IfaceSource: // I14 needs it
		return false
	case "gpu", "rdma", "library", "settings":
		return v.NCCL
	case "network":
		return v.Places > 1
	default:
		return true
	}
}
