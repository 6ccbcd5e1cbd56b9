package rules

import (
	"path"
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// bugRules returns V04: known faults of NCCL's releases.
func bugRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "V04", Name: "nccl-known-bug", Severity: preflight.Warning,
		Meaning: "What the job asks for has no known fault in the NCCL that it loads: RAS queries, NVLS, and different numbers of workers on the nodes. RAS that is on by default, in a release in which a query can crash the job, is a note.",
		Symptom: "A segmentation fault in NCCL's RAS thread while communicators are made, or a hang.",
		Steps:   []preflight.Step{preflight.ByHand.Step("install a release of NCCL without the fault, on all nodes")},
		Check:   checkBugs,
	}}
}

// bug is a fault of the releases from first to last. It shows if used holds for
// the node.
type bug struct {
	first, last int // version codes, both included
	used        func(f *preflight.Fleet, n *preflight.Facts) bool
	text        string
	steps       func(f *preflight.Fleet) []preflight.Step
	severity    preflight.Severity // "": the rule's
}

// bugs lists the known faults, each with its issue.
func bugs(f *preflight.Fleet) []bug {
	isWanted := false
	for _, n := range f.Known() {
		isWanted = isWanted || wantsRAS(n)
	}
	ras := func(_ *preflight.Fleet, n *preflight.Facts) bool { return wantsRAS(n) }
	// RAS is on by default, so any client may query it. If the job queries it,
	// ras finds that.
	open := func(_ *preflight.Fleet, n *preflight.Facts) bool { return n.Env("NCCL_RAS_ENABLE") != "0" && !isWanted }
	nvls := func(_ *preflight.Fleet, n *preflight.Facts) bool { return n.IsOn("NCCL_NVLS_ENABLE") }
	uneven := func(f *preflight.Fleet, _ *preflight.Facts) bool { return uneven(f) != nil }
	without := func(text, name, since string) func(*preflight.Fleet) []preflight.Step {
		return func(*preflight.Fleet) []preflight.Step {
			return []preflight.Step{preflight.EveryRank(text, name, "0"), preflight.ByHand.Step("install NCCL " + since + " or newer on all nodes").Alternative()}
		}
	}
	const onByDefault = "RAS is on by default, and a client that queries it (ncclras, a monitor) while a communicator is being made can crash the rank; gorun has found no such client of this job"
	const noRAS, noNVLS = "switch RAS off (gorun itself never queries it)", "switch NVLS off"
	return []bug{
		{22602, 22606, ras, "a RAS query while a communicator is being made can crash the rank (NCCL issues 1669 and 1718, fixed in 2.27.3); polling less often does not help", without(noRAS, "NCCL_RAS_ENABLE", "2.27.3"), ""},
		{22602, 22606, open, onByDefault + " (NCCL issues 1669 and 1718, fixed in 2.27.3)", without(noRAS, "NCCL_RAS_ENABLE", "2.27.3"), preflight.Note},
		{22703, 22899, ras, "RAS' VERBOSE STATUS corrupts memory (NCCL issue 1762, fixed in 2.29.2)", without(noRAS, "NCCL_RAS_ENABLE", "2.29.2"), ""},
		{22907, 23007, ras, "a RAS query while a communicator is being made can crash the rank (NCCL issue 2346)", without(noRAS, "NCCL_RAS_ENABLE", "2.30.8"), ""},
		{22907, 23007, open, onByDefault + " (NCCL issue 2346)", without(noRAS, "NCCL_RAS_ENABLE", "2.30.8"), preflight.Note},
		{22703, 22899, nvls, "where NVLS does not work on one node, the silent fallback of these releases can hang", without(noNVLS, "NCCL_NVLS_ENABLE", "2.29"), ""},
		{23102, 23102, uneven, "this release can deadlock when nodes have different numbers of ranks (NCCL issue 2385)", sameWorkers, ""},
	}
}

func checkBugs(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	var all []preflight.Finding
	for _, b := range bugs(f) {
		values := f.Faults(func(_ int, n *preflight.Facts) string {
			code := n.NCCLCode()
			if code < b.first || code > b.last || !b.used(f, n) {
				return ""
			}
			return "NCCL " + versionOf(code)
		})
		all = append(all, preflight.IfAny(values, preflight.Finding{Severity: b.severity, Text: "Known fault of this NCCL: " + b.text + ".", Steps: b.steps(f)})...)
	}
	return all
}

// wantsRAS reports whether the user asked for RAS. RAS is on by default, but
// only a client makes it dangerous.
func wantsRAS(n *preflight.Facts) bool {
	if n.Env("NCCL_RAS_ENABLE") == "0" {
		return false
	}
	_, addr := n.Setting("NCCL_RAS_ADDR")
	isClient := func(arg string) bool { return path.Base(arg) == "ncclras" }
	return addr || n.IsOn("NCCL_RAS_ENABLE") ||
		isClient(n.Program.Title) || isClient(n.Program.Path) || slices.ContainsFunc(n.Program.Args, isClient)
}
